#include "base/net/tap_port.h"

#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <sys/ioctl.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstring>

#include "base/net/ethernet.h"

namespace weft {
namespace {

// Segmentation of UDP came with Linux 6.2; older headers do not name it.
constexpr unsigned kTunUso4 = 0x20;
constexpr unsigned kTunUso6 = 0x40;

unsigned tun_flags(Offload offloads) noexcept {
  unsigned flags = 0;
  if (has(offloads, Offload::kChecksum)) flags |= TUN_F_CSUM;
  if (has(offloads, Offload::kTso4)) flags |= TUN_F_TSO4;
  if (has(offloads, Offload::kTso6)) flags |= TUN_F_TSO6;
  if (has(offloads, Offload::kTsoEcn)) flags |= TUN_F_TSO_ECN;
  if (has(offloads, Offload::kUso4)) flags |= kTunUso4;
  if (has(offloads, Offload::kUso6)) flags |= kTunUso6;
  return flags;
}

/// The largest set of offloads that this kernel accepts.
Offload probe_offloads(int fd) noexcept {
  constexpr Offload kTcp = Offload::kChecksum | Offload::kTso4 | Offload::kTso6 | Offload::kTsoEcn;
  for (const Offload wanted : {kOffloadsAll, kTcp, Offload::kChecksum}) {
    if (::ioctl(fd, TUNSETOFFLOAD, tun_flags(wanted)) == 0) return wanted;
  }
  return Offload::kNone;
}

/// Sets the header in front of each frame. Call it before the interface is up, so that no frame comes with
/// another header.
Status set_format(int fd, const std::string& name) {
  int header_bytes = kVnetBytes;
  int little = 1;
  if (::ioctl(fd, TUNSETVNETHDRSZ, &header_bytes) != 0)
    return errno_error("tap: " + name + ": vnet header", errno);
  if (::ioctl(fd, TUNSETVNETLE, &little) != 0) return errno_error("tap: " + name + ": byte order", errno);
  return {};
}

Error permission_error(const std::string& what) {
  return Error{
      what +
      ": not permitted: needs CAP_NET_ADMIN, or an interface made for this user (ip tuntap add mode tap user "
      "NAME); gen:, unix:, slirp, pcap and echo work without"};
}

}  // namespace

Result<UniqueFd> open_tap(const std::string& name) {
  if (name.empty() || name.size() >= IFNAMSIZ)
    return Error{"tap: name '" + name + "' is not 1..15 characters long"};
  UniqueFd fd(::open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC));
  if (!fd.valid()) {
    if (errno == EACCES || errno == EPERM)
      return permission_error("tap: /dev/net/tun is closed to this user (chmod 666 opens it to all)");
    return errno_error("tap: /dev/net/tun (is the tun module there?)", errno);
  }
  if (Status attached = attach_tap(fd.get(), name); !attached) return attached.error();
  return fd;
}

Status attach_tap(int fd, const std::string& name) {
  ifreq request{};
  name.copy(request.ifr_name, IFNAMSIZ - 1);
  request.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR;
  if (::ioctl(fd, TUNSETIFF, &request) != 0) {
    if (errno == EPERM) return permission_error("tap: interface " + name);
    if (errno == EBUSY)
      return Error{"tap: interface " + name + " is busy: another process is attached to it"};
    if (errno == EINVAL) return Error{"tap: interface " + name + " exists and is no single-queue TAP"};
    return errno_error("tap: interface " + name, errno);
  }
  return set_format(fd, name);
}

std::string tap_name(int fd) {
  ifreq request{};
  if (::ioctl(fd, TUNGETIFF, &request) != 0) return {};
  return {request.ifr_name, ::strnlen(request.ifr_name, IFNAMSIZ)};
}

Result<std::unique_ptr<TapPort>> TapPort::open(const std::string& name) {
  Result<UniqueFd> fd = open_tap(name);
  if (!fd) return fd.error();
  return adopt(std::move(*fd));
}

Result<std::unique_ptr<TapPort>> TapPort::adopt(UniqueFd fd, const std::string& name) {
  ifreq request{};
  if (::ioctl(fd.get(), TUNGETIFF, &request) != 0)
    return errno_error("tap: descriptor is no attached TAP", errno);
  const std::string called(request.ifr_name, ::strnlen(request.ifr_name, IFNAMSIZ));
  const int flags = request.ifr_flags;
  if ((flags & IFF_TAP) == 0 || (flags & IFF_VNET_HDR) == 0 || (flags & IFF_NO_PI) == 0) {
    return Error{"tap: " + called +
                 " is not attached as TAP with vnet headers and without packet information"};
  }
  const bool renamed = !name.empty() && name != called;
  Result<NetInterface> interface = renamed ? NetInterface::expect(name) : NetInterface::open(called);
  if (!interface) return interface.error();
  std::unique_ptr<TapPort> port(
      new TapPort(std::move(fd), std::move(*interface)));  // tidy: private constructor
  if (Status prepared = port->prepare(called); !prepared) return prepared.error();
  return port;
}

Status TapPort::prepare(const std::string& called) {
  if (Status formed = set_format(fd_.get(), interface_.name()); !formed) return formed;
  const int status_flags = ::fcntl(fd_.get(), F_GETFL);
  if (::fcntl(fd_.get(), F_SETFL, status_flags | O_NONBLOCK) != 0)
    return errno_error("tap: " + interface_.name(), errno);
  const Offload offloads = probe_offloads(fd_.get());
  if (called != interface_.name()) {
    describe_absent("tap", offloads);
    // Sent to the unit when the session opens; the unit would refuse a zero address.
    if (Result<NetInterface> now = NetInterface::open(called); now) {
      info_.mac = now->mac();
      info_.mtu_bytes = now->mtu();
    }
    return {};
  }
  if (Status described = describe("tap", offloads); !described) return described;
  return set_offloads(Offload::kNone);
}

Status TapPort::attach() {
  const std::string attached_to = tap_name(fd_.get());
  if (!attached_to.empty() && attached_to != interface_.name())
    return Error{"our own is now called " + attached_to + "; give it its name back: ip link set dev " +
                 attached_to + " name " + interface_.name()};
  if (attached_to.empty()) {
    if (Status attached = attach_tap(fd_.get(), interface_.name()); !attached) return attached;
  }
  // Also if another process attached it: a new interface does not have the settings of the old one.
  if (Status formed = set_format(fd_.get(), interface_.name()); !formed) return formed;
  tell_carrier();
  if (::ioctl(fd_.get(), TUNSETOFFLOAD, tun_flags(offloads_)) != 0) return errno_error("offloads", errno);
  return {};
}

FrameReadResult TapPort::read_frame(std::span<std::byte> into) noexcept {
  if (!here()) [[unlikely]]
    return {FrameIo::kDown, 0};
  std::byte beyond;  // receives a byte only if the frame is longer than the caller's memory
  const iovec parts[2]{{into.data(), into.size()}, {&beyond, 1}};
  const ssize_t got = ::readv(fd_.get(), parts, 2);
  if (got < 0) return read_failed(errno);
  const auto bytes = static_cast<size_t>(got);
  if (bytes > into.size()) {
    counters_.add(PortCounter::kReadTooLong);
    return {FrameIo::kDropped, 0};
  }
  if (bytes < kVnetBytes + kEthernetHeaderBytes) {
    counters_.add(PortCounter::kReadMalformed);
    return {FrameIo::kDropped, 0};
  }
  counters_.add(PortCounter::kFramesRead);
  counters_.add(PortCounter::kBytesRead, bytes - kVnetBytes);
  return {FrameIo::kOk, static_cast<uint32_t>(bytes)};
}

FrameIo TapPort::write_frame(std::span<const std::byte> head, std::span<const std::byte> rest) noexcept {
  if (!here()) [[unlikely]]
    return write_failed(ENODEV);
  // writev takes pointers to mutable memory and only reads it.
  const iovec parts[2]{{const_cast<std::byte*>(head.data()), head.size()},
                       {const_cast<std::byte*>(rest.data()), rest.size()}};
  const ssize_t put = ::writev(fd_.get(), parts, rest.empty() ? 1 : 2);
  if (put < 0) return write_failed(errno);
  counters_.add(PortCounter::kFramesWritten);
  counters_.add(PortCounter::kBytesWritten, head.size() + rest.size() - kVnetBytes);
  return FrameIo::kOk;
}

void TapPort::set_carrier(bool up) noexcept {
  carrier_ = up;
  if (here()) tell_carrier();
}

void TapPort::tell_carrier() noexcept {
  const int value = carrier_ ? 1 : 0;
  if (::ioctl(fd_.get(), TUNSETCARRIER, &value) != 0) counters_.add(PortCounter::kWriteErrors);
}

Status TapPort::set_offloads(Offload wanted) {
  if (!is_subset(wanted, info_.offloads))
    return Error{"tap " + info_.name + ": offloads not offered by this kernel"};
  offloads_ = wanted;
  if (!here()) return {};
  if (::ioctl(fd_.get(), TUNSETOFFLOAD, tun_flags(wanted)) != 0) {
    return errno_error("tap " + info_.name + ": offloads", errno);
  }
  return {};
}

Status TapPort::set_mac(const MacAddress& mac) {
  if (!is_station(mac)) return Error{"tap: " + to_string(mac) + " cannot be the address of an interface"};
  if (mac == info_.mac) return {};
  if (Status set = interface_.set_mac(mac); !set) return set;
  info_.mac = mac;
  return {};
}

}  // namespace weft
