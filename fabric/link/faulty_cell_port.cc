#include "fabric/link/faulty_cell_port.h"

#include <algorithm>

namespace weft::fabric {

FaultyCellPort::FaultyCellPort(CellPort& inner, RandomSource& random, const CellFaults& faults)
    : inner_(inner), random_(random), faults_(faults) {}

int FaultyCellPort::poll(Instant now) noexcept {
  now_ = now;
  const int work = inner_.poll(now);
  if (inner_.incarnation() != incarnation_) {
    // Cells held for an old incarnation never arrive.
    incarnation_ = inner_.incarnation();
    for (Held& held : held_) held.state = HeldState::kFree;
    held_count_ = 0;
  }
  return work;
}

FaultyCellPort::Held* FaultyCellPort::hold(const RxCell& cell, HeldState state) {
  for (Held& held : held_) {
    if (held.state != HeldState::kFree) continue;
    held.state = state;
    held.vl = cell.vl;
    held.bytes.assign(cell.bytes.begin(), cell.bytes.end());
    held.due = now_;
    ++held_count_;
    return &held;
  }
  return nullptr;
}

void FaultyCellPort::push(const RxCell& cell) noexcept {
  if (rx_count_ < rx_.size()) rx_[rx_count_++] = cell;
}

void FaultyCellPort::deliver_held(HeldState state) noexcept {
  if (held_count_ == 0) return;
  for (Held& held : held_) {
    if (held.state != state || held.due > now_ || rx_count_ == rx_.size()) continue;
    held.state = HeldState::kDelivered;
    push({held.bytes, held.vl});
  }
}

void FaultyCellPort::pass(const RxCell& cell) noexcept {
  if (faults_.cut || random_.chance_ppm(faults_.drop_ppm)) {
    ++counts_.dropped;
  } else if (random_.chance_ppm(faults_.corrupt_ppm)) {
    ++counts_.corrupted;
  } else if (random_.chance_ppm(faults_.duplicate_ppm)) {
    ++counts_.duplicated;
    push(cell);
    push(cell);
  } else if (random_.chance_ppm(faults_.reorder_ppm) && hold(cell, HeldState::kAfterNext) != nullptr) {
    ++counts_.reordered;
  } else if (random_.chance_ppm(faults_.delay_ppm)) {
    Held* held = hold(cell, HeldState::kWaiting);
    if (held == nullptr) {
      push(cell);
      return;
    }
    const auto spread = static_cast<uint64_t>((faults_.delay_max - faults_.delay_min).count());
    held->due = now_ + faults_.delay_min + Duration(static_cast<int64_t>(random_.below(spread + 1)));
    ++counts_.delayed;
  } else {
    ++counts_.passed;
    push(cell);
  }
}

std::span<const RxCell> FaultyCellPort::receive() noexcept {
  const uint32_t first = rx_count_;
  const std::span<const RxCell> fresh = inner_.receive();
  deliver_held(HeldState::kWaiting);
  if (fresh.empty()) deliver_held(HeldState::kAfterNext);
  for (const RxCell& cell : fresh) {
    const uint32_t before = rx_count_;
    // The first cell that passes is followed by the cells that earlier calls, or this burst, held back.
    pass(cell);
    if (rx_count_ != before) deliver_held(HeldState::kAfterNext);
  }
  if (rx_count_ == 0 && !fresh.empty()) inner_.release();  // nothing to hand out: the caller will not release
  return std::span(rx_).subspan(first, rx_count_ - first);
}

void FaultyCellPort::release() noexcept {
  inner_.release();
  rx_count_ = 0;
  if (held_count_ == 0) return;
  for (Held& held : held_) {
    if (held.state != HeldState::kDelivered) continue;
    held.state = HeldState::kFree;
    --held_count_;
  }
}

bool FaultyCellPort::prepare_sleep() noexcept {
  const bool owes_now =
      std::any_of(held_.begin(), held_.end(), [](const Held& h) { return h.state == HeldState::kAfterNext; });
  return !owes_now && inner_.prepare_sleep();
}

Instant FaultyCellPort::deadline() const noexcept {
  // While the link is down, no held cell can arrive.
  if (held_count_ == 0 || !inner_.up()) return inner_.deadline();
  Instant due = inner_.deadline();
  for (const Held& held : held_) {
    if (held.state == HeldState::kWaiting) due = std::min(due, held.due);
    if (held.state == HeldState::kAfterNext) due = now_;
  }
  return due;
}

}  // namespace weft::fabric
