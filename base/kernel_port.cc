#include "base/kernel_port.h"

#include <net/if.h>

#include <cerrno>

#include "base/ethernet.h"
#include "base/log.h"

namespace weft {
namespace {

constexpr Duration kLookInterval = std::chrono::milliseconds(250);
/// What a 64 KiB element holds behind the vnet header (decisions 2.18).
constexpr uint32_t kFrameBytesMax = 65524;

}  // namespace

Status KernelPort::describe(std::string kind, Offload offloads) {
  const uint32_t mtu = interface_.mtu();
  if (mtu == 0) return Error{"interface " + interface_.name() + " is gone"};
  info_ = {.kind = std::move(kind),
           .name = interface_.name(),
           .mac = interface_.mac(),
           .mtu_bytes = mtu,
           .frame_bytes_max = kFrameBytesMax,
           .offloads = offloads};
  if (Status sized = interface_.set_gso_max(kGsoBytesMax); !sized) {
    log(LogLevel::kInfo, "{} {}: {}; longer frames are dropped and counted", info_.kind, info_.name,
        sized.error().text);
  }
  follow_flags();
  return {};
}

void KernelPort::follow_flags() noexcept {
  const uint32_t flags = interface_.flags();
  up_ = (flags & up_flag_) != 0;
  info_.promiscuous = (flags & IFF_PROMISC) != 0;
  info_.all_multicast = (flags & IFF_ALLMULTI) != 0;
}

FrameIo KernelPort::write_failed(int error) noexcept {
  switch (error) {
    case EAGAIN:
    case EINTR:
    case ENOBUFS:
    case ENOMEM:
      counters_.add(PortCounter::kWriteBusy);
      return FrameIo::kBusy;
    case EMSGSIZE:
      counters_.add(PortCounter::kWriteTooLong);
      return FrameIo::kDropped;
    case EINVAL:
      counters_.add(PortCounter::kWriteMalformed);
      return FrameIo::kDropped;
    case EIO:  // a TAP that is down
    case EBADFD:
    case ENODEV:
    case ENETDOWN:
    case ENXIO:
      counters_.add(PortCounter::kNoReceiver);
      return FrameIo::kDown;
    default:
      counters_.add(PortCounter::kWriteErrors);
      return FrameIo::kDropped;
  }
}

int KernelPort::poll(Instant now) noexcept {
  if (now < next_look_) return 0;
  next_look_ = now + kLookInterval;
  const bool up_before = up_;
  follow_flags();
  if (up_ != up_before) counters_.add(PortCounter::kCarrierChanges);
  const uint32_t mtu = interface_.mtu();
  if (mtu != 0) info_.mtu_bytes = mtu;
  const MacAddress mac = interface_.mac();
  if (is_station(mac)) info_.mac = mac;
  return 0;
}

void KernelPort::wait_fds(std::vector<pollfd>& out) const {
  out.push_back({fd_.get(), POLLIN, 0});
}

Status KernelPort::set_mtu(uint32_t mtu_bytes) {
  if (mtu_bytes == info_.mtu_bytes) return {};
  if (Status set = interface_.set_mtu(mtu_bytes); !set) return set;
  info_.mtu_bytes = mtu_bytes;
  return {};
}

}  // namespace weft
