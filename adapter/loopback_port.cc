#include "adapter/loopback_port.h"

namespace weft::adapter {

LoopbackPort::LoopbackPort(uint32_t cells)
    : slots_(cells),
      memory_(std::make_unique_for_overwrite<std::byte[]>(size_t{cells} * kSlotBytes)),
      bytes_(cells),
      lanes_(cells) {
  view_.reserve(cells);
}

std::byte* LoopbackPort::claim(VirtualLane, uint32_t cell_bytes) noexcept {
  if (tail_ - head_ == slots_ || cell_bytes > kSlotBytes) return nullptr;
  return &memory_[size_t{tail_ % slots_} * kSlotBytes];
}

void LoopbackPort::commit(VirtualLane vl, uint32_t cell_bytes, uint32_t) noexcept {
  bytes_[tail_ % slots_] = cell_bytes;
  lanes_[tail_ % slots_] = vl;
  ++tail_;
}

std::span<const fabric::RxCell> LoopbackPort::receive() noexcept {
  view_.clear();
  for (received_ = head_; received_ != tail_; ++received_) {
    const uint64_t slot = received_ % slots_;
    view_.push_back({{&memory_[size_t{slot} * kSlotBytes], bytes_[slot]}, lanes_[slot]});
  }
  return view_;
}

void LoopbackPort::release() noexcept {
  head_ = received_;
}

}  // namespace weft::adapter
