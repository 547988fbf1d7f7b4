#include "adapter/loopback_port.h"

namespace weft::adapter {

LoopbackPort::LoopbackPort(uint32_t cells)
    : slots_(cells), memory_(std::make_unique_for_overwrite<std::byte[]>(size_t{cells} * kSlotBytes)) {
  waiting_.reset(cells);
  view_.reserve(cells);
}

std::byte* LoopbackPort::claim(VirtualLane, uint32_t cell_bytes) noexcept {
  if (waiting_.full() || cell_bytes > kSlotBytes) return nullptr;
  return &memory_[size_t{next_slot_} * kSlotBytes];
}

void LoopbackPort::commit(VirtualLane vl, uint32_t cell_bytes, uint32_t) noexcept {
  waiting_.push({{&memory_[size_t{next_slot_} * kSlotBytes], cell_bytes}, vl});
  next_slot_ = next_slot_ + 1 < slots_ ? next_slot_ + 1 : 0;
}

std::span<const fabric::RxCell> LoopbackPort::receive() noexcept {
  if (waiting_.empty()) return {};
  view_.clear();
  for (size_t i = 0; i < waiting_.size(); ++i) view_.push_back(waiting_.at(i));
  return view_;
}

void LoopbackPort::release() noexcept {
  for (size_t left = view_.size(); left > 0; --left) waiting_.pop();
  view_.clear();
}

}  // namespace weft::adapter
