#include "adapter/transport/stash.h"

#include <cstring>

namespace weft::adapter {

Stash::Stash(uint32_t cells, uint32_t cells_per_qp)
    : cells_(size_t{cells} + 1),
      memory_(std::make_unique_for_overwrite<std::byte[]>((size_t{cells} + 1) * kCellPayloadBytesMax)),
      per_qp_(cells_per_qp) {
  for (uint32_t i = cells; i > 0; --i) {
    cells_[i].next = free_;
    free_ = i;
  }
}

bool Stash::keep(ReceiveSide& rx, const CellView& cell) noexcept {
  if (free_ == 0 || rx.stash_count >= per_qp_ || cell.payload.size() > kCellPayloadBytesMax) return false;
  const uint32_t index = free_;
  Cell& kept = cells_[index];
  free_ = kept.next;
  kept = {cell.psn, cell.cell_number, static_cast<uint16_t>(cell.payload.size()), rx.stash_head};
  if (!cell.payload.empty()) {
    std::memcpy(&memory_[size_t{index} * kCellPayloadBytesMax], cell.payload.data(), cell.payload.size());
  }
  rx.stash_head = index;
  ++rx.stash_count;
  ++used_;
  return true;
}

uint32_t Stash::take(ReceiveSide& rx, Psn psn) noexcept {
  for (uint32_t* link = &rx.stash_head; *link != 0; link = &cells_[*link].next) {
    if (cells_[*link].psn != psn) continue;
    const uint32_t index = *link;
    *link = cells_[index].next;
    --rx.stash_count;
    release(index);
    return index;
  }
  return 0;
}

void Stash::release(uint32_t index) noexcept {
  cells_[index].next = free_;
  free_ = index;
  --used_;
}

void Stash::drop_all(ReceiveSide& rx) noexcept {
  while (rx.stash_head != 0) {
    const uint32_t index = rx.stash_head;
    rx.stash_head = cells_[index].next;
    release(index);
  }
  rx.stash_count = 0;
}

}  // namespace weft::adapter
