#include "base/net/kernel_port.h"

#include <net/if.h>

#include <cerrno>

#include "base/log.h"
#include "base/net/ethernet.h"

namespace weft {
namespace {

constexpr Duration kLookInterval = std::chrono::milliseconds(250);
constexpr Duration kLossesInterval = std::chrono::seconds(1);
/// Longest frame behind the vnet header in a 64 KiB element (decisions 2.18).
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
  limit_gso();
  losses_ = interface_.losses();
  follow_flags();
  return {};
}

void KernelPort::describe_absent(std::string kind, Offload offloads) {
  info_ = {.kind = std::move(kind),
           .name = interface_.name(),
           .frame_bytes_max = kFrameBytesMax,
           .offloads = offloads,
           .gone = true};
  up_ = false;
  counters_.add(PortCounter::kInterfaceGone);
  log(LogLevel::kWarn, "{} {}: there is no such interface now; waiting for it", info_.kind, info_.name);
}

void KernelPort::limit_gso() noexcept {
  if (Status sized = interface_.limit_gso(kGsoBytesMax); !sized) {
    log(LogLevel::kInfo, "{} {}: {}; longer frames are dropped and counted", info_.kind, info_.name,
        sized.error().text);
  }
}

void KernelPort::follow_flags() noexcept {
  const uint32_t flags = interface_.flags();
  up_ = (flags & up_flag_) != 0;
  info_.promiscuous = (flags & IFF_PROMISC) != 0;
  info_.all_multicast = (flags & IFF_ALLMULTI) != 0;
}

void KernelPort::follow_settings() noexcept {
  follow_flags();
  const uint32_t mtu = interface_.mtu();
  if (mtu != 0) info_.mtu_bytes = mtu;
  const MacAddress mac = interface_.mac();
  if (is_station(mac)) info_.mac = mac;
}

FrameReadResult KernelPort::read_failed(int error) noexcept {
  switch (error) {
    case EAGAIN:
    case EINTR:
      return {FrameIo::kEmpty, 0};
    case EBADFD:  // a TAP that was deleted
      leave();
      return {FrameIo::kDown, 0};
    case ENODEV:
    case ENETDOWN:  // set down, or deleted
    case ENXIO:
      look_soon();
      return {FrameIo::kDown, 0};
    default:
      counters_.add(PortCounter::kReadErrors);
      return {FrameIo::kEmpty, 0};
  }
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
    case EBADFD:
      counters_.add(PortCounter::kNoReceiver);
      leave();
      return FrameIo::kDown;
    case EIO:  // a TAP that is down
    case ENODEV:
    case ENETDOWN:
    case ENXIO:
      counters_.add(PortCounter::kNoReceiver);
      look_soon();
      return FrameIo::kDown;
    default:
      counters_.add(PortCounter::kWriteErrors);
      return FrameIo::kDropped;
  }
}

int KernelPort::poll(Instant now) noexcept {
  if (now < next_look_) return 0;
  next_look_ = now + kLookInterval;
  const bool here_before = here();
  look_for_interface();
  const bool up_before = up_;
  if (here()) {
    follow_settings();
    count_losses(now);
  }
  if (up_ == up_before) return 0;
  counters_.add(PortCounter::kCarrierChanges);
  if (here_before)
    log(LogLevel::kInfo, "{} {}: the interface {}", info_.kind, info_.name, up_ ? "is up" : "is down");
  return 0;
}

void KernelPort::look_for_interface() noexcept {
  const int index = interface_.find();
  if (here() && index != interface_.index()) leave();
  if (!here() && index != 0) come_back();
}

/// A read or write failed in a way that the last check of the interface did not explain: check again soon.
/// Only once per error, because a lasting error has no more news.
void KernelPort::look_soon() noexcept {
  if (up_) next_look_ = Instant::min();
}

[[gnu::cold]] void KernelPort::leave() noexcept {
  if (!here()) return;
  info_.gone = true;
  if (std::exchange(up_, false)) counters_.add(PortCounter::kCarrierChanges);
  counters_.add(PortCounter::kInterfaceGone);
  detach();
  log(LogLevel::kWarn,
      "{} {}: the interface is gone (deleted, renamed or moved); frames for it are dropped until there is "
      "one "
      "of that name again",
      info_.kind, info_.name);
}

[[gnu::cold]] void KernelPort::come_back() noexcept {
  interface_.follow();
  if (Status attached = attach(); !attached) {
    if (std::exchange(attach_error_, attached.error().text) != attached.error().text)
      log(LogLevel::kWarn, "{} {}: an interface of that name is there but cannot be used: {}", info_.kind,
          info_.name, attached.error().text);
    return;
  }
  attach_error_.clear();
  info_.gone = false;
  limit_gso();
  losses_ = interface_.losses();
  counters_.add(PortCounter::kInterfaceBack);
  log(LogLevel::kInfo, "{} {}: the interface is back", info_.kind, info_.name);
}

void KernelPort::count_losses(Instant now) noexcept {
  count_descriptor_losses();
  if (now < next_losses_) return;
  next_losses_ = now + kLossesInterval;
  const InterfaceLosses losses = interface_.losses();
  const auto add = [this](PortCounter counter, uint64_t before, uint64_t after) {
    if (after > before) counters_.add(counter, after - before);
  };
  const bool receives = side_ == Side::kInterfaceReceives;
  using enum PortCounter;
  add(receives ? kInterfaceReadDrops : kInterfaceWriteDrops, losses_.receive_drops, losses.receive_drops);
  add(receives ? kInterfaceReadErrors : kInterfaceWriteErrors, losses_.receive_errors, losses.receive_errors);
  add(receives ? kInterfaceWriteDrops : kInterfaceReadDrops, losses_.send_drops, losses.send_drops);
  add(receives ? kInterfaceWriteErrors : kInterfaceReadErrors, losses_.send_errors, losses.send_errors);
  losses_ = losses;
}

void KernelPort::wait_fds(std::vector<pollfd>& out) const {
  if (here()) out.push_back({fd_.get(), POLLIN, 0});
}

Status KernelPort::set_mtu(uint32_t mtu_bytes) {
  if (mtu_bytes == info_.mtu_bytes) return {};
  if (Status set = interface_.set_mtu(mtu_bytes); !set) return set;
  info_.mtu_bytes = mtu_bytes;
  return {};
}

std::string interface_fault(const FramePort& port) {
  const FramePortInfo& info = port.info();
  if (info.gone) return "interface " + info.name + " is gone";
  const bool kernel = info.kind == "tap" || info.kind == "packet";
  return kernel && !port.carrier() ? "interface " + info.name + " is down" : std::string();
}

}  // namespace weft
