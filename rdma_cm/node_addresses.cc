#include "rdma_cm/node_addresses.h"

#include <ifaddrs.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>

#include "base/endian.h"
#include "base/out_of_memory.h"
#include "messages/endnode_address.h"
#include "rdma_cm/process_mark.h"

namespace weft::rdma_cm {
namespace {

constexpr Duration kHostIsKnownFor = 1s;

}  // namespace

IpAddress ipv4_of(Lid lid) noexcept {
  return make_ipv4(endnode_ipv4(lid));
}

IpAddress ipv6_of(Lid lid) noexcept {
  IpAddress out{.family = 6};
  store_be(out.ip.data(), uint64_t{0xFD57'4546'5400'0000});
  store_be(&out.ip[14], lid.value());
  return out;
}

Lid lid_of(const IpAddress& address) noexcept {
  const Lid lid(load_be<uint16_t>(&address.ip[14]));
  return address.same_ip(address.family == 6 ? ipv6_of(lid) : ipv4_of(lid)) ? lid : kLidNone;
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
  static_cast<void>(with_memory([&] {
    std::vector<IpAddress> found;
    for (const ifaddrs* at = list; at != nullptr; at = at->ifa_next) {
      if (at->ifa_addr == nullptr) continue;
      sockaddr_in6 address{};
      const int family = at->ifa_addr->sa_family;
      if (family != AF_INET && family != AF_INET6) continue;
      std::memcpy(&address, at->ifa_addr, family == AF_INET ? sizeof(sockaddr_in) : sizeof address);
      found.push_back(from_sockaddr(address));
    }
    host_.swap(found);
  }));
  freeifaddrs(list);
}

uint64_t NodeAddresses::host_number() {
  return namespace_number("/proc/self/ns/net");
}

}  // namespace weft::rdma_cm
