#include "fabric/link/faulty_carrier.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/endian.h"
#include "fabric/link/limits.h"
#include "messages/flit.h"

namespace weft::fabric {

namespace {

/// Bytes of the flit in a slot. Damage behind them would have no effect.
uint32_t flit_bytes(const RxSlot& slot) noexcept {
  if (slot.size < kFlitHeaderBytes) return slot.size;
  return std::min(slot.size, kFlitHeaderBytes + uint32_t{load_be<uint16_t>(slot.bytes + 2)});
}

}  // namespace

FaultyCarrier::FaultyCarrier(std::unique_ptr<Carrier> inner, uint32_t slot_bytes, RandomSource& random,
                             const FlitFaults& faults, FaultCounts& counts)
    : inner_(std::move(inner)),
      slot_bytes_(slot_bytes),
      random_(random),
      faults_(faults),
      counts_(counts),
      storage_(size_t{slot_bytes} * kHeldMax),
      held_(kHeldMax) {}

bool FaultyCarrier::quiet() const noexcept {
  return held_count_ == 0 && !faults_.cut &&
         (faults_.drop_ppm | faults_.corrupt_ppm | faults_.duplicate_ppm | faults_.reorder_ppm |
          faults_.delay_ppm) == 0;
}

FaultyCarrier::Held* FaultyCarrier::hold(const RxSlot& slot, HeldState state) noexcept {
  const auto free =
      std::find_if(held_.begin(), held_.end(), [](const Held& h) { return h.state == HeldState::kFree; });
  if (free == held_.end()) return nullptr;
  std::byte* copy = storage_.data() + static_cast<size_t>(free - held_.begin()) * slot_bytes_;
  const uint32_t bytes = std::min(slot.size, slot_bytes_);
  std::memcpy(copy, slot.bytes, bytes);
  *free = Held{state, {copy, bytes, slot.position}, now_};
  ++held_count_;
  return &*free;
}

uint32_t FaultyCarrier::deliver_held(std::span<RxSlot> out, HeldState state) noexcept {
  uint32_t count = 0;
  if (held_count_ == 0) return 0;
  for (Held& held : held_) {
    if (count == out.size()) break;
    if (held.state != state || held.due > now_) continue;
    held.state = HeldState::kDelivered;
    out[count++] = held.slot;
  }
  return count;
}

/// Decides the fate of one slot. Writes 0 to 2 slots to `out`, which has room for two.
uint32_t FaultyCarrier::pass(const RxSlot& slot, std::span<RxSlot> out) noexcept {
  if (faults_.cut || random_.chance_ppm(faults_.drop_ppm)) {
    lose(slot);
    return 0;
  }
  if (random_.chance_ppm(faults_.corrupt_ppm)) {
    if (Held* held = hold(slot, HeldState::kDelivered)) {
      const auto bit = static_cast<uint32_t>(random_.below(uint64_t{flit_bytes(held->slot)} * 8));
      storage_[static_cast<size_t>(held->slot.bytes - storage_.data()) + bit / 8] ^= std::byte{1}
                                                                                     << (bit % 8);
      ++counts_.corrupted;
      out[0] = held->slot;
      return 1;
    }
  }
  if (random_.chance_ppm(faults_.duplicate_ppm)) {
    ++counts_.duplicated;
    out[0] = out[1] = slot;
    return 2;
  }
  if (random_.chance_ppm(faults_.reorder_ppm) && hold(slot, HeldState::kAfterNext) != nullptr) {
    ++counts_.reordered;
    return 0;
  }
  if (random_.chance_ppm(faults_.delay_ppm)) {
    if (Held* held = hold(slot, HeldState::kWaiting)) {
      const auto spread = static_cast<uint64_t>((faults_.delay_max - faults_.delay_min).count());
      held->due = now_ + faults_.delay_min + Duration(static_cast<int64_t>(random_.below(spread + 1)));
      ++counts_.delayed;
      return 0;
    }
  }
  ++counts_.passed;
  out[0] = slot;
  return 1;
}

uint32_t FaultyCarrier::receive(std::span<RxSlot> out) noexcept {
  if (quiet()) [[likely]]
    return inner_->receive(out);
  uint32_t count = deliver_held(out, HeldState::kWaiting);
  std::array<RxSlot, kFlitsPerReceiveMax> arrived;
  // Each arrived slot may need three places: itself, its duplicate, and one slot held back before.
  const size_t room = std::min(arrived.size(), (out.size() - count) / 3);
  const uint32_t fresh = inner_->receive(std::span(arrived).first(room));
  for (uint32_t i = 0; i < fresh; ++i) {
    const uint32_t passed = pass(arrived[i], out.subspan(count));
    count += passed;
    if (passed != 0) count += deliver_held(out.subspan(count, 1), HeldState::kAfterNext);
  }
  if (fresh == 0) count += deliver_held(out.subspan(count), HeldState::kAfterNext);
  return count;
}

/// A lost control flit is not repeated. Without this call its slot would come back only with a later flit,
/// and a sender whose slots are all lost in this way could send nothing more.
void FaultyCarrier::lose(const RxSlot& slot) noexcept {
  ++counts_.dropped;
  const bool control = FlitKind(std::to_integer<uint8_t>(slot.bytes[0]) >> 4) != FlitKind::kData;
  if (control && slot.position == released_) inner_->release(++released_);
}

void FaultyCarrier::release(uint64_t before) noexcept {
  inner_->release(before);
  released_ = std::max(released_, before);
  if (held_count_ == 0) return;
  for (Held& held : held_) {
    if (held.state != HeldState::kDelivered) continue;
    held.state = HeldState::kFree;
    --held_count_;
  }
}

bool FaultyCarrier::reread(uint64_t from) noexcept {
  if (!inner_->reread(from)) return false;
  for (Held& held : held_) {
    // Delivered slots stay valid until release(). Slots that were held back will be read again.
    if (held.state == HeldState::kFree || held.state == HeldState::kDelivered) continue;
    held.state = HeldState::kFree;
    --held_count_;
  }
  return true;
}

CarrierState FaultyCarrier::poll(Instant now) noexcept {
  now_ = now;
  return inner_->poll(now);
}

bool FaultyCarrier::prepare_sleep() noexcept {
  for (const Held& held : held_) {
    if (held.state == HeldState::kAfterNext) return false;
  }
  return inner_->prepare_sleep();
}

Instant FaultyCarrier::deadline() const noexcept {
  Instant due = inner_->deadline();
  if (held_count_ == 0) return due;
  for (const Held& held : held_) {
    if (held.state == HeldState::kWaiting) due = std::min(due, held.due);
    if (held.state == HeldState::kAfterNext) due = now_;
  }
  return due;
}

}  // namespace weft::fabric
