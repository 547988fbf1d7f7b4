#include "base/net_interface.h"

#include <linux/if_link.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace weft {
namespace {

ifreq request_for(const std::string& name) noexcept {
  ifreq request{};
  name.copy(request.ifr_name, IFNAMSIZ - 1);
  return request;
}

struct SizeAttribute {
  rtattr header;
  uint32_t value;
};
struct SetSizes {
  nlmsghdr header;
  ifinfomsg link;
  SizeAttribute gso;
  SizeAttribute gro;
};
static_assert(sizeof(SetSizes) ==
              NLMSG_ALIGN(sizeof(nlmsghdr)) + sizeof(ifinfomsg) + 2 * sizeof(SizeAttribute));

SizeAttribute size_attribute(uint16_t type, uint32_t value) noexcept {
  return {.header = {.rta_len = sizeof(SizeAttribute), .rta_type = type}, .value = value};
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

}  // namespace

Result<NetInterface> NetInterface::open(const std::string& name) {
  if (name.empty() || name.size() >= IFNAMSIZ)
    return Error{"interface name '" + name + "' is not 1..15 long"};
  NetInterface interface;
  interface.name_ = name;
  interface.socket_.reset(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!interface.socket_.valid()) return errno_error("socket", errno);
  ifreq request = request_for(name);
  if (::ioctl(interface.socket_.get(), SIOCGIFINDEX, &request) != 0) {
    return errno_error("interface " + name, errno);
  }
  interface.index_ = request.ifr_ifindex;
  return interface;
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

Status NetInterface::set_gso_max(uint32_t bytes) const {
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
  request.gso = size_attribute(IFLA_GSO_MAX_SIZE, bytes);
  request.gro = size_attribute(IFLA_GRO_MAX_SIZE, bytes);
  return exchange(netlink.get(), request, "largest GSO frame of " + name_);
}

uint32_t NetInterface::flags() const noexcept {
  ifreq request = request_for(name_);
  if (::ioctl(socket_.get(), SIOCGIFFLAGS, &request) != 0) return 0;
  return static_cast<uint16_t>(request.ifr_flags);
}

}  // namespace weft
