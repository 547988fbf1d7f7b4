#include "adapter/queues/qp_table.h"

#include <bit>

#include "base/endian.h"
#include "messages/opcode.h"

namespace weft::adapter {

QpTable::QpTable(uint32_t most)
    : places_(std::bit_ceil(most + 2)), mask_(static_cast<uint32_t>(places_.size() - 1)) {
  all_.reserve(most + kPortsMax);
}

void QpTable::enter(QueuePair& qp) {
  qp.live_index = static_cast<uint32_t>(all_.size());
  all_.push_back(&qp);
}

void QpTable::leave(QueuePair& qp) noexcept {
  QueuePair* last = all_.back();
  all_[qp.live_index] = last;
  last->live_index = qp.live_index;
  all_.pop_back();
}

/// Only a hint: no decision depends on the cell, which has not been checked yet.
void QpTable::expect(std::span<const std::byte> cell) const noexcept {
  if (cell.size() < kCellHeaderBytes) return;
  const auto qpn = load_be_once<uint32_t>(&cell[offsetof(CellHeader, dest_qpn)]);
  const QueuePair* qp = places_[qpn & mask_].get();
  if (qp == nullptr) return;
  const auto opcode = load_once<uint8_t>(&cell[offsetof(CellHeader, opcode)]);
  if ((opcode_properties(opcode) & (kOpAcknowledge | kOpResponse)) != 0) {
    qp->prefetch_to_send();
  } else {
    qp->prefetch_to_receive(load_be_once<uint32_t>(&cell[offsetof(CellHeader, flags2_psn)]));
  }
}

void QpTable::expect_next(std::span<const std::byte> cell) const noexcept {
  if (cell.size() < kCellHeaderBytes) return;
  const auto qpn = load_be_once<uint32_t>(&cell[offsetof(CellHeader, dest_qpn)]);
  const QueuePair* qp = places_[qpn & mask_].get();
  if (qp != nullptr) qp->prefetch_ranges();
}

SrqTable::SrqTable(uint32_t most) : mask_(std::bit_ceil(most + 1) - 1) {
  queues.reserve(most);
}

}  // namespace weft::adapter
