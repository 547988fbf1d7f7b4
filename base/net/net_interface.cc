#include "base/net/net_interface.h"

#include <fcntl.h>
#include <linux/if_link.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "base/net/ethernet.h"

namespace weft {
namespace {

ifreq request_for(const std::string& name) noexcept {
  ifreq request{};
  name.copy(request.ifr_name, IFNAMSIZ - 1);
  return request;
}

struct NumberAttribute {
  rtattr header;
  uint32_t value;
};
struct SetSizes {
  nlmsghdr header;
  ifinfomsg link;
  NumberAttribute gso;
  NumberAttribute gro;
};
static_assert(sizeof(SetSizes) ==
              NLMSG_ALIGN(sizeof(nlmsghdr)) + sizeof(ifinfomsg) + 2 * sizeof(NumberAttribute));

NumberAttribute size_attribute(uint16_t type, uint32_t value) noexcept {
  return {.header = {.rta_len = sizeof(NumberAttribute), .rta_type = type}, .value = value};
}

struct GetLink {
  nlmsghdr header;
  ifinfomsg link;
};

/// Takes the next number from the front of `text`, skipping what precedes it; 0 at the end.
uint64_t next_number(std::string_view& text) noexcept {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return error == std::errc{} ? value : 0;
}

/// Sends one netlink request and waits for its acknowledgement.
Status exchange(int fd, const SetSizes& request, const std::string& what) {
  if (::send(fd, &request, sizeof request, 0) != static_cast<ssize_t>(sizeof request)) {
    return errno_error(what, errno);
  }
  struct {
    nlmsghdr header;
    nlmsgerr error;
    char rest[256];
  } answer{};
  const ssize_t got = ::recv(fd, &answer, sizeof answer, 0);
  if (got < static_cast<ssize_t>(sizeof(nlmsghdr) + sizeof(nlmsgerr))) return errno_error(what, errno);
  if (answer.header.nlmsg_type == NLMSG_ERROR && answer.error.error != 0) {
    return errno_error(what, -answer.error.error);
  }
  return {};
}

/// Asks the kernel about an interface. `take` gets type and value of each attribute of four bytes.
template <class Take>
Status read_link(int index, const std::string& what, Take take) {
  const UniqueFd netlink(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  if (!netlink.valid()) return errno_error("netlink socket", errno);
  GetLink request{};
  request.header = {.nlmsg_len = sizeof request,
                    .nlmsg_type = RTM_GETLINK,
                    .nlmsg_flags = NLM_F_REQUEST,
                    .nlmsg_seq = 1,
                    .nlmsg_pid = 0};
  request.link.ifi_family = AF_UNSPEC;
  request.link.ifi_index = index;
  if (::send(netlink.get(), &request, sizeof request, 0) != static_cast<ssize_t>(sizeof request))
    return errno_error(what, errno);
  alignas(nlmsghdr) std::array<std::byte, 32768> answer;
  const ssize_t got = ::recv(netlink.get(), answer.data(), answer.size(), 0);
  nlmsghdr header{};
  constexpr size_t kAttributesAt = NLMSG_ALIGN(sizeof(nlmsghdr)) + NLMSG_ALIGN(sizeof(ifinfomsg));
  if (got < static_cast<ssize_t>(kAttributesAt)) return errno_error(what, errno);
  std::memcpy(&header, answer.data(), sizeof header);
  if (header.nlmsg_type != RTM_NEWLINK) return errno_error(what, ENODEV);
  NumberAttribute attribute{};
  for (size_t at = kAttributesAt; at + sizeof attribute.header <= static_cast<size_t>(got);
       at += RTA_ALIGN(attribute.header.rta_len)) {
    std::memcpy(&attribute.header, answer.data() + at, sizeof attribute.header);
    if (attribute.header.rta_len < sizeof attribute.header) break;
    if (attribute.header.rta_len != sizeof attribute || at + sizeof attribute > static_cast<size_t>(got))
      continue;
    std::memcpy(&attribute, answer.data() + at, sizeof attribute);
    take(attribute.header.rta_type, attribute.value);
  }
  return {};
}

}  // namespace

InterfaceLosses find_losses(std::string_view text, std::string_view name) noexcept {
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    if (!line.starts_with(name) || line.size() == name.size() || line[name.size()] != ':') continue;
    line.remove_prefix(name.size() + 1);
    // bytes packets errs drop fifo frame compressed multicast, then the same of what was sent
    std::array<uint64_t, 12> values{};
    for (uint64_t& value : values) value = next_number(line);
    return {.receive_errors = values[2],
            .receive_drops = values[3],
            .send_errors = values[10],
            .send_drops = values[11]};
  }
  return {};
}

Result<NetInterface> NetInterface::open(const std::string& name) {
  Result<NetInterface> interface = expect(name);
  if (!interface) return interface.error();
  if (interface->index() == 0) return errno_error("interface " + name, ENODEV);
  return interface;
}

Result<NetInterface> NetInterface::expect(const std::string& name) {
  if (name.empty() || name.size() >= IFNAMSIZ)
    return Error{"interface name '" + name + "' is not 1..15 long"};
  NetInterface interface;
  interface.name_ = name;
  interface.socket_.reset(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!interface.socket_.valid()) return errno_error("socket", errno);
  interface.counts_.reset(::open("/proc/self/net/dev", O_RDONLY | O_CLOEXEC));
  interface.follow();
  return interface;
}

int NetInterface::find() const noexcept {
  ifreq request = request_for(name_);
  return ::ioctl(socket_.get(), SIOCGIFINDEX, &request) == 0 ? request.ifr_ifindex : 0;
}

InterfaceLosses NetInterface::losses() const noexcept {
  std::array<char, 16384> text;  // about 120 interfaces; later ones show no losses
  size_t bytes = 0;
  for (ssize_t got = 1; got > 0 && bytes < text.size();
       bytes += static_cast<size_t>(std::max<ssize_t>(got, 0)))
    got = ::pread(counts_.get(), text.data() + bytes, text.size() - bytes, static_cast<off_t>(bytes));
  return find_losses({text.data(), bytes}, name_);
}

MacAddress NetInterface::mac() const noexcept {
  ifreq request = request_for(name_);
  MacAddress mac{};
  if (::ioctl(socket_.get(), SIOCGIFHWADDR, &request) != 0) return mac;
  std::memcpy(mac.data(), request.ifr_hwaddr.sa_data, mac.size());
  return mac;
}

uint32_t NetInterface::mtu() const noexcept {
  ifreq request = request_for(name_);
  if (::ioctl(socket_.get(), SIOCGIFMTU, &request) != 0) return 0;
  return static_cast<uint32_t>(request.ifr_mtu);
}

Status NetInterface::set_mtu(uint32_t bytes) const {
  ifreq request = request_for(name_);
  request.ifr_mtu = static_cast<int>(bytes);
  if (::ioctl(socket_.get(), SIOCSIFMTU, &request) != 0) {
    return errno_error("MTU " + std::to_string(bytes) + " on " + name_, errno);
  }
  return {};
}

Status NetInterface::set_mac(const MacAddress& mac) const {
  ifreq request = request_for(name_);
  request.ifr_hwaddr.sa_family = ARPHRD_ETHER;
  std::memcpy(request.ifr_hwaddr.sa_data, mac.data(), mac.size());
  if (::ioctl(socket_.get(), SIOCSIFHWADDR, &request) != 0)
    return errno_error("address " + to_string(mac) + " on " + name_, errno);
  return {};
}

Result<GsoSizes> NetInterface::gso_sizes() const {
  GsoSizes sizes;
  const Status read = read_link(index_, "largest GSO frame of " + name_, [&](uint16_t type, uint32_t value) {
    if (type == IFLA_GSO_MAX_SIZE) sizes.gso_bytes = value;
    if (type == IFLA_GRO_MAX_SIZE) sizes.gro_bytes = value;
  });
  if (!read) return read.error();
  return sizes;
}

std::string NetInterface::bridge() const {
  uint32_t master = 0;
  const Status read = read_link(index_, "bridge of " + name_, [&](uint16_t type, uint32_t value) {
    if (type == IFLA_MASTER) master = value;
  });
  std::array<char, IF_NAMESIZE> name{};
  const bool found = read.ok() && master != 0 && ::if_indextoname(master, name.data()) != nullptr;
  return found ? name.data() : "";
}

Status NetInterface::limit_gso(uint32_t bytes) const {
  Result<GsoSizes> now = gso_sizes();
  if (now && now->gso_bytes != 0 && now->gso_bytes <= bytes && now->gro_bytes <= bytes) return {};
  return set_gso_sizes({bytes, bytes});
}

Status NetInterface::set_gso_sizes(const GsoSizes& sizes) const {
  const UniqueFd netlink(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  if (!netlink.valid()) return errno_error("netlink socket", errno);
  SetSizes request{};
  request.header = {.nlmsg_len = sizeof request,
                    .nlmsg_type = RTM_NEWLINK,
                    .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK,
                    .nlmsg_seq = 1,
                    .nlmsg_pid = 0};
  request.link.ifi_family = AF_UNSPEC;
  request.link.ifi_index = index_;
  request.gso = size_attribute(IFLA_GSO_MAX_SIZE, sizes.gso_bytes);
  request.gro = size_attribute(IFLA_GRO_MAX_SIZE, sizes.gro_bytes);
  return exchange(netlink.get(), request, "largest GSO frame of " + name_);
}

uint32_t NetInterface::flags() const noexcept {
  ifreq request = request_for(name_);
  if (::ioctl(socket_.get(), SIOCGIFFLAGS, &request) != 0) return 0;
  return static_cast<uint16_t>(request.ifr_flags);
}

}  // namespace weft
