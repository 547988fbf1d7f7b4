#include "rdma_cm/node_addresses.h"

#include <ifaddrs.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <optional>
#include <string>

#include "base/endian.h"
#include "base/fnv.h"

namespace weft::rdma_cm {
namespace {

constexpr uint32_t kOwnNetwork = 0x0A57'0000;  // 10.87.0.0/16, the LID behind it
constexpr Duration kHostIsKnownFor = 1s;

}  // namespace

IpAddress ipv4_of(Lid lid) noexcept {
  return make_ipv4(kOwnNetwork | lid.value());
}

IpAddress ipv6_of(Lid lid) noexcept {
  IpAddress out{.family = 6};
  store_be(out.ip.data(), uint64_t{0xFD57'4546'5400'0000});
  store_be(&out.ip[14], lid.value());
  return out;
}

NodeAddresses::NodeAddresses(const Clock& clock, Lid lid, std::string_view wanted) : clock_(clock) {
  set_lid(lid);
  while (!wanted.empty()) {
    const size_t comma = std::min(wanted.find(','), wanted.size());
    const std::optional<IpAddress> one = parse_ip(std::string(wanted.substr(0, comma)));
    if (one) (one->family == 6 ? own_v6_ : own_v4_) = *one;
    if (one) (one->family == 6 ? wanted_v6_ : wanted_v4_) = true;
    wanted.remove_prefix(std::min(comma + 1, wanted.size()));
  }
}

void NodeAddresses::set_lid(Lid lid) noexcept {
  if (!wanted_v4_) own_v4_ = ipv4_of(lid);
  if (!wanted_v6_) own_v6_ = ipv6_of(lid);
}

bool NodeAddresses::owns(const IpAddress& address) noexcept {
  if (address.same_ip(own(address.family))) return true;
  if (clock_.now() >= read_again_) read_host();
  return std::any_of(host_.begin(), host_.end(), [&](const IpAddress& one) { return one.same_ip(address); });
}

void NodeAddresses::read_host() noexcept {
  read_again_ = clock_.now() + kHostIsKnownFor;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return;
  host_.clear();
  for (const ifaddrs* at = list; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr) continue;
    sockaddr_in6 address{};
    const int family = at->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    std::memcpy(&address, at->ifa_addr, family == AF_INET ? sizeof(sockaddr_in) : sizeof address);
    host_.push_back(from_sockaddr(address));
  }
  freeifaddrs(list);
}

uint64_t NodeAddresses::host_number() {
  std::string name;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> name;
  std::array<char, 64> space{};
  const ssize_t bytes = readlink("/proc/self/ns/net", space.data(), space.size());
  if (bytes > 0) name.append(space.data(), static_cast<size_t>(bytes));
  return fnv1a(name);
}

}  // namespace weft::rdma_cm
