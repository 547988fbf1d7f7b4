// How it works: slirp_input() takes a host's frame; answers come out of slirp's send_packet callback into a
// ring of frames that read_frame() empties. At each check slirp_pollfds_fill() names the sockets to watch,
// poll(2) tests them without waiting, and slirp_pollfds_poll() acts. The same sockets wake the sleeping loop.
#include "iou_driver/slirp_nic.h"

#include <arpa/inet.h>
#include <libslirp.h>

#include <algorithm>
#include <cstring>

#include "base/log.h"
#include "base/net/ethernet.h"

namespace weft::iou {
namespace {

/// Interval between checks of the sockets while the loop spins, because each check costs a system call.
constexpr Duration kLookInterval = std::chrono::microseconds(50);

int to_poll(int slirp_events) noexcept {
  int events = 0;
  if ((slirp_events & SLIRP_POLL_IN) != 0) events |= POLLIN;
  if ((slirp_events & SLIRP_POLL_OUT) != 0) events |= POLLOUT;
  if ((slirp_events & SLIRP_POLL_PRI) != 0) events |= POLLPRI;
  return events;
}

int from_poll(int events) noexcept {
  int slirp_events = 0;
  if ((events & POLLIN) != 0) slirp_events |= SLIRP_POLL_IN;
  if ((events & POLLOUT) != 0) slirp_events |= SLIRP_POLL_OUT;
  if ((events & POLLPRI) != 0) slirp_events |= SLIRP_POLL_PRI;
  if ((events & POLLERR) != 0) slirp_events |= SLIRP_POLL_ERR;
  if ((events & POLLHUP) != 0) slirp_events |= SLIRP_POLL_HUP;
  return slirp_events;
}

}  // namespace

/// Each gets the SlirpNic as `opaque`. C linkage is not needed: libslirp takes plain function pointers.
struct SlirpNic::Callbacks {
  static SlirpNic& self(void* opaque) noexcept { return *static_cast<SlirpNic*>(opaque); }
  static ssize_t send_packet(const void* frame, size_t bytes, void* opaque) {
    // If the ring is full the frame is lost, and slirp's TCP slows down.
    (void)self(opaque).store(static_cast<const std::byte*>(frame), bytes);
    return static_cast<ssize_t>(bytes);
  }
  static void guest_error(const char*, void* opaque) {
    self(opaque).counters_.add(PortCounter::kWriteMalformed);
  }
  static int64_t clock_get_ns(void* opaque) { return self(opaque).clock_.now().time_since_epoch().count(); }
  static void* timer_new(SlirpTimerId id, void* cb_opaque, void* opaque) {
    for (Timer& timer : self(opaque).timers_) {
      if (timer.used) continue;
      timer = {.used = true, .id = static_cast<int>(id), .opaque = cb_opaque, .expires_ms = -1};
      return &timer;
    }
    return nullptr;
  }
  static void timer_free(void* timer, void*) {
    if (timer != nullptr) *static_cast<Timer*>(timer) = {};
  }
  static void timer_mod(void* timer, int64_t expire_time, void*) {
    if (timer != nullptr) static_cast<Timer*>(timer)->expires_ms = expire_time;
  }
  static void fd_changed(int, void* opaque) { self(opaque).changed_ = true; }
  static void notify(void* opaque) { self(opaque).changed_ = true; }
  static int add_poll(int fd, int events, void* opaque) {
    std::vector<pollfd>& fds = self(opaque).fds_;
    fds.push_back({fd, static_cast<short>(to_poll(events)), 0});
    return static_cast<int>(fds.size()) - 1;
  }
  static int get_revents(int index, void* opaque) {
    const std::vector<pollfd>& fds = self(opaque).fds_;
    const auto at = static_cast<size_t>(index);
    return at < fds.size() ? from_poll(fds[at].revents) : 0;
  }
};

namespace {

SlirpConfig lan_config(const SlirpNicConfig& config) {
  SlirpConfig lan{};
  lan.version = 4;
  lan.in_enabled = true;
  ::inet_pton(AF_INET, "10.0.2.0", &lan.vnetwork);
  ::inet_pton(AF_INET, "255.255.255.0", &lan.vnetmask);
  ::inet_pton(AF_INET, "10.0.2.2", &lan.vhost);
  ::inet_pton(AF_INET, "10.0.2.15", &lan.vdhcp_start);
  ::inet_pton(AF_INET, "10.0.2.3", &lan.vnameserver);
  lan.in6_enabled = true;
  ::inet_pton(AF_INET6, "fec0::", &lan.vprefix_addr6);
  lan.vprefix_len = 64;
  ::inet_pton(AF_INET6, "fec0::2", &lan.vhost6);
  ::inet_pton(AF_INET6, "fec0::3", &lan.vnameserver6);
  lan.vhostname = "weft";
  lan.if_mtu = config.mtu_bytes;
  lan.if_mru = config.mtu_bytes;
  lan.disable_host_loopback = !config.reach_loopback;
  return lan;
}

}  // namespace

SlirpNic::SlirpNic(const SlirpNicConfig& config, const Clock& clock)
    : ModelPort("slirp", config.mac, {.least = 576, .most = config.mtu_bytes},
                kEthernetHeaderBytes + kVlanTagBytes + config.mtu_bytes),
      config_(config),
      clock_(clock),
      slot_bytes_(kEthernetHeaderBytes + kVlanTagBytes + config.mtu_bytes),
      storage_(size_t{config.frames} * slot_bytes_),
      bytes_(config.frames),
      scratch_(slot_bytes_) {
  fds_.reserve(256);
}

bool SlirpNic::start() {
  static const SlirpCb kCallbacks = [] {
    SlirpCb callbacks{};
    callbacks.send_packet = &Callbacks::send_packet;
    callbacks.guest_error = &Callbacks::guest_error;
    callbacks.clock_get_ns = &Callbacks::clock_get_ns;
    callbacks.timer_new_opaque = &Callbacks::timer_new;
    callbacks.timer_free = &Callbacks::timer_free;
    callbacks.timer_mod = &Callbacks::timer_mod;
    callbacks.register_poll_fd = &Callbacks::fd_changed;
    callbacks.unregister_poll_fd = &Callbacks::fd_changed;
    callbacks.notify = &Callbacks::notify;
    return callbacks;
  }();
  const SlirpConfig lan = lan_config(config_);
  slirp_ = ::slirp_new(&lan, &kCallbacks, this);
  return slirp_ != nullptr;
}

Result<std::unique_ptr<SlirpNic>> SlirpNic::open(const SlirpNicConfig& config, const Clock& clock) {
  if (config.mtu_bytes < 576 || config.mtu_bytes > 9000) return Error{"slirp: MTU is not in 576..9000"};
  std::unique_ptr<SlirpNic> nic(new SlirpNic(config, clock));  // tidy: private constructor
  if (!nic->start()) return Error{"slirp: could not be started"};
  return nic;
}

SlirpNic::~SlirpNic() {
  if (slirp_ != nullptr) ::slirp_cleanup(slirp_);
}

bool SlirpNic::store(const std::byte* frame, size_t bytes) noexcept {
  if (bytes < kEthernetHeaderBytes || bytes > slot_bytes_) {
    counters_.add(PortCounter::kReadMalformed);
    return false;
  }
  if (used_ == config_.frames) {
    counters_.add(PortCounter::kReadErrors);
    return false;
  }
  const uint32_t index = (first_ + used_) % config_.frames;
  std::memcpy(storage_.data() + size_t{index} * slot_bytes_, frame, bytes);
  bytes_[index] = static_cast<uint32_t>(bytes);
  ++used_;
  return true;
}

FrameReadResult SlirpNic::read_frame(std::span<std::byte> into) noexcept {
  if (used_ == 0) return {FrameIo::kEmpty, 0};
  const uint32_t index = first_ % config_.frames;
  const uint32_t bytes = bytes_[index];
  ++first_;
  --used_;
  if (kVnetBytes + bytes > into.size()) {
    counters_.add(PortCounter::kReadTooLong);
    return {FrameIo::kDropped, 0};
  }
  std::memset(into.data(), 0, kVnetBytes);
  std::memcpy(into.data() + kVnetBytes, storage_.data() + size_t{index} * slot_bytes_, bytes);
  counters_.add(PortCounter::kFramesRead);
  counters_.add(PortCounter::kBytesRead, bytes);
  return {FrameIo::kOk, kVnetBytes + bytes};
}

FrameIo SlirpNic::write_frame(std::span<const std::byte> head, std::span<const std::byte> rest) noexcept {
  if (head.size() < kVnetBytes + kEthernetHeaderBytes) {
    counters_.add(PortCounter::kWriteMalformed);
    return FrameIo::kDropped;
  }
  const size_t bytes = head.size() - kVnetBytes + rest.size();
  if (bytes > scratch_.size()) {
    counters_.add(PortCounter::kWriteTooLong);
    return FrameIo::kDropped;
  }
  // Room for the answers that one frame can make; without it slirp would lose them.
  if (config_.frames - used_ < config_.frames / 8) {
    counters_.add(PortCounter::kWriteBusy);
    return FrameIo::kBusy;
  }
  std::memcpy(scratch_.data(), head.data() + kVnetBytes, head.size() - kVnetBytes);
  if (!rest.empty()) std::memcpy(scratch_.data() + head.size() - kVnetBytes, rest.data(), rest.size());
  ::slirp_input(slirp_, reinterpret_cast<const uint8_t*>(scratch_.data()), static_cast<int>(bytes));
  changed_ = true;
  counters_.add(PortCounter::kFramesWritten);
  counters_.add(PortCounter::kBytesWritten, bytes);
  return FrameIo::kOk;
}

void SlirpNic::run_timers(int64_t now_ms) noexcept {
  for (Timer& timer : timers_) {
    if (!timer.used || timer.expires_ms < 0 || timer.expires_ms > now_ms) continue;
    timer.expires_ms = -1;
    ::slirp_handle_timer(slirp_, static_cast<SlirpTimerId>(timer.id), timer.opaque);
  }
}

int SlirpNic::poll(Instant now) noexcept {
  if (now < next_look_) return 0;
  next_look_ = now + kLookInterval;
  const uint32_t before = used_;
  run_timers(now.time_since_epoch().count() / 1'000'000);
  uint32_t timeout_ms = UINT32_MAX;
  fds_.clear();
  ::slirp_pollfds_fill(slirp_, &timeout_ms, &Callbacks::add_poll, this);
  slirp_wants_ = timeout_ms == UINT32_MAX ? kNever : now + std::chrono::milliseconds(timeout_ms);
  const int ready = ::poll(fds_.data(), fds_.size(), 0);
  ::slirp_pollfds_poll(slirp_, ready < 0 ? 1 : 0, &Callbacks::get_revents, this);
  changed_ = false;
  return (ready > 0 ? 1 : 0) + static_cast<int>(used_ - before);
}

void SlirpNic::wait_fds(std::vector<pollfd>& out) const {
  out.insert(out.end(), fds_.begin(), fds_.end());
}

Instant SlirpNic::deadline() const noexcept {
  if (used_ != 0) return Instant::min();
  if (changed_) return next_look_;
  Instant next = slirp_wants_;
  for (const Timer& timer : timers_) {
    if (timer.used && timer.expires_ms >= 0) {
      next = std::min(next, Instant(std::chrono::milliseconds(timer.expires_ms)));
    }
  }
  return next;
}

}  // namespace weft::iou
