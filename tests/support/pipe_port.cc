#include "tests/support/pipe_port.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "base/crc32c.h"

namespace weft::test {

Pipe::Pipe(uint32_t cell_payload_bytes, Lid lid0, Lid lid1) {
  const Lid lids[2] = {lid0, lid1};
  for (int i = 0; i < 2; ++i) {
    const fabric::CellPortInfo info{.guid = Guid(0x1000U + lids[i].value()),
                                    .lid = lids[i],
                                    .subnet = SubnetId(1),
                                    .cell_payload_bytes = cell_payload_bytes,
                                    .lanes = 4};
    ends_[i] = std::make_unique<PipePort>(*this, i, info);
  }
}

Pipe::~Pipe() = default;

PipePort& Pipe::end(int index) noexcept {
  return *ends_[index];
}

void Pipe::release_held(bool reversed) {
  auto held = std::move(held_);
  held_.clear();
  if (reversed) std::reverse(held.begin(), held.end());
  for (const auto& [from, bytes] : held) pass(from, bytes);
}

void Pipe::inject(int to, std::vector<std::byte> cell) {
  ASSERT_GE(cell.size(), kCellHeaderBytes + kCrcBytes);
  const size_t covered = cell.size() - kCrcBytes;
  store_be(cell.data() + covered, crc32c(std::span(cell).first(covered)));
  inject_as_is(to, std::move(cell));
}

void Pipe::inject_as_is(int to, std::vector<std::byte> cell) {
  ends_[to]->arrived_.push_back(std::move(cell));
}

void Pipe::set_lid(int index, Lid lid) {
  ends_[index]->info_.lid = lid;
}

void Pipe::set_guid(int index, Guid guid) {
  ends_[index]->info_.guid = guid;
}

void Pipe::set_subnet(int index, SubnetId subnet) {
  ends_[index]->info_.subnet = subnet;
}

void Pipe::set_cell_payload(uint32_t bytes) {
  for (const auto& end : ends_) {
    end->info_.cell_payload_bytes = bytes;
    end->staging_.resize(cell_bytes_max(bytes));
  }
}

std::vector<const TracedCell*> Pipe::sent_by(int from) const {
  std::vector<const TracedCell*> out;
  for (const TracedCell& cell : trace_) {
    if (cell.from == from) out.push_back(&cell);
  }
  return out;
}

std::vector<const TracedCell*> Pipe::sent_by(int from, Opcode opcode) const {
  std::vector<const TracedCell*> out;
  for (const TracedCell* cell : sent_by(from)) {
    if (cell->view.opcode == opcode) out.push_back(cell);
  }
  return out;
}

void Pipe::send(int from, std::vector<std::byte> bytes) {
  const Verdict verdict = filter_ ? filter_(from, bytes) : Verdict::kPass;
  if (verdict == Verdict::kDrop) return;
  if (verdict == Verdict::kHold) {
    held_.emplace_back(from, std::move(bytes));
    return;
  }
  pass(from, bytes);
  if (verdict == Verdict::kTwice) pass(from, bytes);
}

void Pipe::pass(int from, const std::vector<std::byte>& bytes) {
  TracedCell& traced = trace_.emplace_back();
  traced.from = from;
  traced.bytes = bytes;
  // A link verifies the CRC; a cell that a filter broke is traced undecoded and never arrives.
  if (decode_cell(traced.bytes, CrcCheck::kVerify, traced.view) != CellError::kNone) return;
  ends_[1 - from]->arrived_.push_back(bytes);
}

PipePort::PipePort(Pipe& pipe, int index, const fabric::CellPortInfo& info)
    : pipe_(pipe), index_(index), info_(info), staging_(cell_bytes_max(info.cell_payload_bytes)) {}

std::byte* PipePort::claim(VirtualLane, uint32_t cell_bytes) noexcept {
  ++pipe_.claims_[index_];
  EXPECT_LE(cell_bytes, staging_.size());
  return pipe_.up_ && pipe_.room_[index_] > 0 ? staging_.data() : nullptr;
}

void PipePort::commit(VirtualLane vl, uint32_t cell_bytes, uint32_t cell_crc) noexcept {
  std::vector<std::byte> bytes(staging_.begin(), staging_.begin() + cell_bytes);
  EXPECT_EQ(CellHead(bytes.data()).vl(), vl);
  EXPECT_EQ(load_be<uint32_t>(bytes.data() + bytes.size() - kCrcBytes), cell_crc);
  if (pipe_.room_[index_] != UINT32_MAX) --pipe_.room_[index_];
  pipe_.send(index_, std::move(bytes));
}

std::span<const fabric::RxCell> PipePort::receive() noexcept {
  views_.clear();
  if (!pipe_.up_) return {};
  while (!arrived_.empty() && views_.size() < kCellsPerReceive) {
    lent_.push_back(std::move(arrived_.front()));
    arrived_.pop_front();
    views_.push_back({lent_.back(), CellHead(lent_.back().data()).vl()});
  }
  if (!views_.empty()) pipe_.room_[index_] += std::exchange(pipe_.room_with_arrivals_[index_], 0);
  return views_;
}

void PipePort::release() noexcept {
  lent_.clear();
  views_.clear();
}

}  // namespace weft::test
