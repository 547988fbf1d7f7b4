// How it works: the upper byte of a token says which part a completion belongs to. Devices that complete
// within flush() bring an access through all its steps (announce, confirm, check, DMA, leave) in one call;
// others take several turns.
#include "fabric/window/window_end.h"

#include <algorithm>
#include <array>
#include <new>
#include <utility>

#include "fabric/window/window_words.h"

namespace weft::fabric {
namespace {

constexpr uint64_t kCookieMask = (uint64_t{1} << kTokenChannelShift) - 1;
constexpr uint8_t kTableChannel = 1;
constexpr uint8_t kFifoChannel = 2;
constexpr uint8_t kAccessChannel = 3;
/// Of a token: channel, and the part of the cookie that names a QP.
constexpr uint64_t kHighMask = ~uint64_t{UINT32_MAX};
constexpr int kDrainsPerTurn = 64;  // a turn is bounded, whatever the device completes

[[nodiscard]] uint64_t accesses_of(uint32_t high) noexcept {
  return uint64_t{kAccessChannel} << kTokenChannelShift | (uint64_t{high} << 32 & kCookieMask);
}

}  // namespace

WindowEnd::WindowEnd(std::unique_ptr<DmaDevice> device, const OwnWindowConfig& config)
    : WindowEnd(*device, config) {
  kept_ = std::move(device);
}

WindowEnd::WindowEnd(DmaDevice& device, const OwnWindowConfig& config)
    : base_(device),
      device_(&device),
      own_(device, config),
      peer_(device, uint64_t{kTableChannel} << kTokenChannelShift,
            std::max(config.table_entries, OwnWindowConfig{}.table_entries)),
      sender_(device, kFifoChannel),
      receiver_(own_.fifo(), own_.anchor().slots(), own_.anchor().slot_bytes) {
  ended_.reset(device.limits().requests);
}

std::string_view WindowEnd::why() const noexcept {
  if (peer_.faulty()) {
    const PeerTableFault& fault = peer_.fault();
    if (fault.anchor != AnchorFault::kNone) return name_of(fault.anchor);
    if (fault.table != TableFault::kNone) return name_of(fault.table);
    if (fault.moved) return "the peer moved its FIFO or protection table";
    if (fault.no_memory) return "no memory for a copy of the peer's protection table";
    return name_of(fault.dma);
  }
  if (sender_.broken()) return "the peer's FIFO: wrong tail, or DMA that fails";
  if (receiver_.broken()) return "the peer put a wrong head, length or sequence into our FIFO";
  if (no_memory_) return "no memory for a copy of the peer's FIFO";
  return "nothing is wrong";
}

int WindowEnd::poll(Instant now) noexcept {
  now_ = now;
  int work = device_->poll(now);
  if (!opened_ && device_->peer() == PeerState::kUp) {
    own_.open(true);
    opened_ = true;
    receiver_.use_marks(device_->peer_register(kScratchpadMarks));
  }
  if (device_->take_notification()) {
    peer_.look();
    sender_.look();
    look_for_cut();
    ++work;
  }
  if (faulty_ != nullptr) [[unlikely]]
    tell_cut();
  if (receiver_.settle()) device_->notify();
  if (rests()) return work;
  if (!std::exchange(waited_, false)) peer_.end_use();
  peer_.poll(now);
  const uint64_t tail = sender_.tail();
  if (!sender_.is_open() && peer_.ready() && !no_memory_) no_memory_ = !sender_.open(peer_.anchor());
  sender_.poll(now);
  device_->flush();
  work += drain();
  peer_.poll(now);  // what has ended may end the use
  work += sender_.tail() != tail ? 1 : 0;
  return work + drain();
}

void WindowEnd::start() noexcept {
  sender_.poll(now_);
  if (under_way_ == 0 && !waited_ && peer_.idle() && sender_.stores()) return;  // no request for the device
  device_->flush();
  drain();
  if (!waited_) peer_.end_use();
  peer_.poll(now_);
  drain();
}

// ---- faults --------------------

bool WindowEnd::make_faulty(WindowFaults* faults) noexcept {
  if (faulty_ != nullptr) {
    if (faults != nullptr) faulty_->use(faults);
    return true;
  }
  try {
    auto made = std::make_unique<FaultyDevice>(base_, faults, now_);
    if (!sender_.use(*made)) return false;
    faulty_ = std::move(made);
  } catch (const std::bad_alloc&) {
    return false;
  }
  device_ = faulty_.get();
  peer_.use(*device_);
  return true;
}

bool WindowEnd::strike(WindowFaults& faults) noexcept {
  return make_faulty(&faults);
}

/// The peer's register says whether the peer is cut off both ways.
void WindowEnd::look_for_cut() noexcept {
  const bool cut = base_.peer_scratchpad(kScratchpadCut) != 0;
  if (faulty_ == nullptr && (!cut || !make_faulty(nullptr))) return;
  faulty_->cut_by_peer(cut);
}

void WindowEnd::tell_cut() noexcept {
  const bool cut = faulty_->cut_both_ways();
  if (std::exchange(told_cut_, cut) == cut) return;
  base_.set_scratchpad(kScratchpadCut, cut ? 1 : 0);
  base_.notify();
}

void WindowEnd::abandon(uint32_t high) noexcept {
  device_->abandon(kHighMask, accesses_of(high));
}

/// An access of this QP has failed, and the service does not know yet. A later one must not overtake it when
/// it goes again.
bool WindowEnd::has_failed(uint32_t high) const noexcept {
  if (faulty_->has_failed(kHighMask, accesses_of(high))) return true;
  for (size_t i = 0; i < ended_.size(); ++i) {
    const AccessDone& done = ended_.at(i);
    if (done.status != DmaStatus::kGood && done.cookie >> 32 == high) return true;
  }
  return false;
}

int WindowEnd::drain() noexcept {
  int work = 0;
  for (int round = 0; round < kDrainsPerTurn; ++round) {
    const uint32_t count = device_->completions(done_);
    if (count == 0) break;
    for (uint32_t i = 0; i < count; ++i) dispatch(done_[i]);
    work += static_cast<int>(count);
  }
  return work;
}

void WindowEnd::dispatch(const DmaCompletion& completion) noexcept {
  switch (completion.token >> kTokenChannelShift) {
    case kTableChannel:
      peer_.complete(completion.status, now_);
      break;
    case kFifoChannel:
      sender_.complete(completion.token, completion.status, now_);
      break;
    case kAccessChannel:
      peer_.release();
      ended_.push({completion.token & kCookieMask, completion.status});
      break;
    default:
      break;
  }
}

FifoPost WindowEnd::send(uint32_t destination, uint32_t source, std::span<const std::byte> data,
                         uint64_t cookie) noexcept {
  (void)slot();  // makes room, if the peer has taken a record
  return sender_.send(destination, source, data, cookie);
}

std::span<std::byte> WindowEnd::make_room() noexcept {
  sender_.poll(now_);
  drain();
  return sender_.slot();
}

AccessPost WindowEnd::access(const WindowAccess& access) noexcept {
  if (state() != WindowState::kUp) return AccessPost::kDown;
  if (faulty_ != nullptr && has_failed(static_cast<uint32_t>(access.cookie >> 32))) [[unlikely]]
    return AccessPost::kAfterFailed;
  if (!peer_.in_use() && !peer_.begin_use()) {
    peer_.want_use();
    peer_.poll(now_);
    drain();
  }
  if (!peer_.in_use()) {
    waited_ = true;
    return AccessPost::kWait;
  }
  refusal_ = peer_.check(access.key, access.remote, access.bytes,
                         access.kind == DmaKind::kWrite ? kTableWrite : kTableRead);
  if (refusal_ == TableCheck::kThroughOwner) return AccessPost::kThroughOwner;
  return refusal_ == TableCheck::kGranted ? post_access(access) : AccessPost::kRefused;
}

AccessPost WindowEnd::post_access(const WindowAccess& access) noexcept {
  bool reachable = false;
  const DmaRequest request = request_of(access, reachable);
  if (!reachable) return AccessPost::kThroughOwner;
  if (under_way_ == ended_.capacity() || !device_->post(request)) return AccessPost::kFull;
  peer_.hold();
  ++under_way_;
  return AccessPost::kPosted;
}

/// A device without memory space reaches what lies in the peer's window memory.
DmaRequest WindowEnd::request_of(const WindowAccess& access, bool& reachable) const noexcept {
  DmaRequest request{access.kind,   DmaSpace::kMemory,
                     access.remote, access.local,
                     access.bytes,  uint64_t{kAccessChannel} << kTokenChannelShift | access.cookie};
  const DeviceLimits limits = device_->limits();
  reachable = limits.memory_space;
  if (reachable) return request;
  const uint64_t mapped = device_->peer_scratchpad(kScratchpadMapped);
  request.space = DmaSpace::kWindow;
  request.remote = access.remote - mapped;
  reachable = mapped != 0 && access.remote >= mapped &&
              lies_inside(request.remote, access.bytes, limits.peer_window_bytes);
  return request;
}

bool WindowEnd::prepare_sleep() noexcept {
  if (receiver_.settle()) device_->notify();
  return device_->prepare_sleep() && !receiver_.waits() && ended_.empty();
}

Instant WindowEnd::deadline() const noexcept {
  return std::min({device_->deadline(), peer_.deadline(), sender_.deadline()});
}

}  // namespace weft::fabric
