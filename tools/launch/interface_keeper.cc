#include "tools/launch/interface_keeper.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>

#include "base/net/tap_port.h"
#include "tools/launch/net_setup.h"

namespace weft::tools {
namespace {

using node::PortDescriptor;

constexpr Duration kLookInterval =
    std::chrono::milliseconds(250);  // while something is amiss, or without notices of the kernel
constexpr Duration kRareLookInterval = std::chrono::seconds(10);

std::string bridge_of(const std::string& name, int netns_fd) {
  const NetnsScope scope(netns_fd);
  if (!scope.status().ok()) return {};
  const Result<NetInterface> interface = NetInterface::open(name);
  return interface.ok() ? interface.value().bridge() : std::string();
}

}  // namespace

InterfaceKeeper::~InterfaceKeeper() {
  for (const Kept& kept : kept_)
    if (kept.borrowed.index != 0) give_back(kept.borrowed, kept.netns_fd);
}

Result<UniqueFd> InterfaceKeeper::open(const std::string& node, const HandedDescriptor& wanted,
                                       const std::string& netns, int netns_fd) {
  if (wanted.kind == PortDescriptor::kNone) return UniqueFd();
  Kept kept;
  kept.node = node;
  kept.kind = wanted.kind;
  kept.settings = wanted.interface;
  kept.netns_fd = netns_fd;
  kept.borrowed.netns = netns;
  Result<UniqueFd> fd = wanted.kind == PortDescriptor::kPacketSocket
                            ? borrow(kept)
                            : create_tap(wanted.interface, tag_, netns_fd);
  if (!fd.ok()) return fd.error();
  if (kept.kind == PortDescriptor::kTap) {
    kept.tap.reset(fcntl(fd.value().get(), F_DUPFD_CLOEXEC, 0));
    if (!kept.tap.valid()) return errno_error("tap: interface " + wanted.interface.name, errno);
  }
  kept_.push_back(std::move(kept));
  listen(netns_fd);
  next_look_ = MonotonicClock().now() + kLookInterval;
  return fd;
}

/// Opens a socket for the kernel's notices about links. If that fails, look() examines the interfaces every
/// kLookInterval.
void InterfaceKeeper::listen(int netns_fd) {
  if (news_.contains(netns_fd)) return;
  UniqueFd& socket = news_[netns_fd];
  const NetnsScope scope(netns_fd);
  if (!scope.status().ok()) return;
  socket.reset(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE));
  sockaddr_nl address{};
  address.nl_family = AF_NETLINK;
  address.nl_groups = RTMGRP_LINK;
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) socket.reset();
}

void InterfaceKeeper::wait_fds(std::vector<pollfd>& out) const {
  for (const auto& [netns, socket] : news_)
    if (socket.valid()) out.push_back({socket.get(), POLLIN, 0});
}

/// True when a notice came. Its content does not matter, nor does an overflow (ENOBUFS), because look() then
/// examines all interfaces.
bool InterfaceKeeper::hears_news() const noexcept {
  bool heard = false;
  std::array<std::byte, 8192> message;
  for (const auto& [netns, socket] : news_)
    while (socket.valid() &&
           (::recv(socket.get(), message.data(), message.size(), 0) > 0 || errno == ENOBUFS))
      heard = true;
  return heard;
}

bool InterfaceKeeper::amiss() const noexcept {
  return std::any_of(news_.begin(), news_.end(), [](const auto& entry) { return !entry.second.valid(); }) ||
         std::any_of(kept_.begin(), kept_.end(),
                     [](const Kept& kept) { return kept.unfinished || !kept.complaint.empty(); });
}

Result<UniqueFd> InterfaceKeeper::borrow(Kept& kept) {
  Result<UniqueFd> fd = open_packet_socket(kept.settings.name, kept.netns_fd);
  if (!fd.ok()) return fd;
  {
    const NetnsScope scope(kept.netns_fd);
    if (!scope.status().ok()) return scope.status().error();
    Result<NetInterface> interface = NetInterface::open(kept.settings.name);
    if (!interface.ok()) return interface.error();
    kept.interface = std::move(interface).value();
  }
  if (Status set = set_borrowed(kept); !set.ok()) {
    give_back(kept.borrowed, kept.netns_fd);
    return set.error();
  }
  return fd;
}

/// Applies the wanted settings. Called again after a failure, it continues with the remaining ones.
Status InterfaceKeeper::set_borrowed(Kept& kept) {
  const NetInterface& interface = kept.interface;
  const InterfaceSettings& wanted = kept.settings;
  BorrowedInterface& borrowed = kept.borrowed;
  if (borrowed.index != interface.index())
    borrowed = {wanted.name, borrowed.netns, interface.index(), 0, 0, {}, {}, {}, {}};
  const uint32_t mtu = interface.mtu();
  if (wanted.mtu != 0 && wanted.mtu != mtu) {
    if (Status set = interface.set_mtu(wanted.mtu); !set.ok()) return set;
    borrowed.mtu = wanted.mtu;
    borrowed.mtu_before = mtu;
  }
  const MacAddress mac = interface.mac();
  if (wanted.mac_given && wanted.mac != mac) {
    if (Status set = interface.set_mac(wanted.mac); !set.ok()) return set;
    borrowed.mac = wanted.mac;
    borrowed.mac_before = mac;
  }
  const NetnsScope scope(kept.netns_fd);  // for the netlink socket in gso_sizes()
  if (!scope.status().ok()) return scope.status().error();
  Result<GsoSizes> sizes = interface.gso_sizes();
  if (!sizes.ok()) return sizes.error();
  const GsoSizes limited{std::min(sizes.value().gso_bytes, kGsoBytesMax),
                         std::min(sizes.value().gro_bytes, kGsoBytesMax)};
  // Without the right to set the limit, longer frames are dropped and counted; the process reports that.
  if (limited == sizes.value() || !interface.set_gso_sizes(limited).ok()) return {};
  borrowed.sizes = limited;
  borrowed.sizes_before = sizes.value();
  return {};
}

std::vector<BorrowedInterface> InterfaceKeeper::borrowed() const {
  std::vector<BorrowedInterface> all;
  for (const Kept& kept : kept_)
    if (kept.borrowed.index != 0) all.push_back(kept.borrowed);
  return all;
}

/// Puts a recreated TAP back into its bridge and returns a text about that.
std::string InterfaceKeeper::put_back(const Kept& kept) {
  if (kept.bridge.empty()) return {};
  const Status put = join_bridge(kept.settings.name, kept.bridge, kept.netns_fd);
  return put.ok() ? fmt::format(" in bridge {}", kept.bridge)
                  : fmt::format("; not put back into bridge {}: {}", kept.bridge, put.error().text);
}

Status InterfaceKeeper::mend(Kept& kept, std::string& done) {
  const std::string& name = kept.settings.name;
  if (kept.kind == PortDescriptor::kPacketSocket) {
    const int index = kept.interface.find();
    if (index == kept.interface.index() && !kept.unfinished) return {};
    kept.interface.follow();
    if (index == 0) return {};
    kept.unfinished = true;
    if (Status set = set_borrowed(kept); !set.ok()) return set;
    done = fmt::format("interface {} is back", name);
  } else {
    const bool attached = !tap_name(kept.tap.get()).empty();
    if (attached && !kept.unfinished) {
      kept.bridge = bridge_of(name, kept.netns_fd);
      return {};
    }
    kept.unfinished = true;
    if (!attached) {
      if (Status made = attach_tap(kept.tap.get(), name); !made.ok()) return made;
    }
    if (Status set_up = set_up_tap(kept.settings, tag_, kept.netns_fd); !set_up.ok()) return set_up;
    done = fmt::format("interface {} was deleted and has been made anew", name) + put_back(kept);
  }
  kept.unfinished = false;
  return {};
}

std::vector<InterfaceNews> InterfaceKeeper::look(Instant now) {
  std::vector<InterfaceNews> news;
  if (!hears_news() && now < next_look_) return news;
  for (Kept& kept : kept_) {
    std::string done;
    const Status mended = mend(kept, done);
    if (mended.ok()) {
      kept.complaint.clear();
    } else if (kept.complaint != mended.error().text) {
      kept.complaint = done = mended.error().text;
    }
    if (!done.empty()) news.push_back({kept.node, done});
  }
  if (!kept_.empty()) next_look_ = now + (amiss() ? kLookInterval : kRareLookInterval);
  return news;
}

bool InterfaceKeeper::whole(const std::string& node) const {
  return std::none_of(kept_.begin(), kept_.end(), [&node](const Kept& kept) {
    return kept.node == node && kept.kind == PortDescriptor::kTap && tap_name(kept.tap.get()).empty();
  });
}

}  // namespace weft::tools
