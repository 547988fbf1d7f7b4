#include "bench/support/late_cell_rig.h"

#include <utility>

#include "base/check.h"

namespace weft::bench {
namespace {

constexpr int kTurnsMost = 1000;

}  // namespace

WireEnd::WireEnd(Lid lid, uint32_t cell_payload_bytes)
    : info_{.guid = Guid(lid.value() + 1U),
            .lid = lid,
            .subnet = {},
            .cell_payload_bytes = cell_payload_bytes,
            .lanes = 1,
            .pkeys = {}} {
  views_.reserve(kCellsPerReceive);
  lent_.reserve(kCellsPerReceive);
}

std::byte* WireEnd::claim(VirtualLane /*vl*/, uint32_t cell_bytes) noexcept {
  staging_.resize(cell_bytes);
  return staging_.data();
}

void WireEnd::commit(VirtualLane /*vl*/, uint32_t /*cell_bytes*/, uint32_t /*cell_crc*/) noexcept {
  if (to_hold_ == 0) return far_->arrived_.push_back(staging_);
  --to_hold_;
  held_.push_back(staging_);
}

void WireEnd::release_latest() {
  WEFT_CHECK(!held_.empty(), "no cell is held back");
  far_->arrived_.push_back(std::move(held_.back()));
  held_.pop_back();
}

std::span<const fabric::RxCell> WireEnd::receive() noexcept {
  views_.clear();
  while (!arrived_.empty() && lent_.size() < kCellsPerReceive) {
    lent_.push_back(std::move(arrived_.front()));
    arrived_.pop_front();
    views_.push_back({.bytes = lent_.back(), .vl = {}});
  }
  return views_;
}

LateCellRig::LateCellRig(uint32_t later, Later where)
    : writes_(later + 2),
      where_(where),
      now_(Endnode::now()),
      host_wire_(kHostLid, kWriteBytes),
      unit_wire_(kUnitLid, kWriteBytes),
      host_((host_wire_.connect(unit_wire_), host_wire_), exchange_, true, kWriteBytes),
      unit_((unit_wire_.connect(host_wire_), unit_wire_), exchange_, false, kWriteBytes) {
  host_.bring_up();
  unit_.bring_up();
}

void LateCellRig::run_unit() noexcept {
  for (int turn = 0; turn < kTurnsMost && unit_.adapter().poll(now_) != 0; ++turn) {
  }
}

void LateCellRig::send() {
  host_wire_.hold(2);
  adapter::Sge from = host_.sge(0, kWriteBytes);
  adapter::SendRequest request{.opcode = adapter::SendOpcode::kRdmaWrite,
                               .flags = adapter::kSendSignaled,
                               .sges = {&from, 1},
                               .remote_addr = host_.peer().addr,
                               .rkey = Rkey(host_.peer().rkey)};
  for (uint32_t i = 0; i < writes_; ++i) {
    if (i >= 2 && where_ == Later::kPieces) {
      from.length = 1;
      request.remote_addr = host_.peer().addr + (i - 2) * 2 % kWriteBytes;
    }
    WEFT_CHECK(host_.adapter().post_send(host_.qp(), request) == adapter::PostResult::kOk, "not posted");
  }
  for (int turn = 0; turn < kTurnsMost && host_.adapter().poll(now_) != 0; ++turn) {
  }
  run_unit();
  host_wire_.release_latest();
}

void LateCellRig::arrive() noexcept {
  unit_.adapter().poll(now_);
}

void LateCellRig::finish() {
  host_wire_.release_latest();
  uint32_t completed = 0;
  for (int turn = 0; turn < kTurnsMost && completed < writes_; ++turn) {
    now_ += std::chrono::microseconds(5);
    run_unit();
    host_.adapter().poll(now_);
    completed += static_cast<uint32_t>(host_.completions().size());
  }
  WEFT_CHECK(completed == writes_, "a write did not complete");
}

}  // namespace weft::bench
