// tests/support/script_carrier.h -- a carrier in a test's hands: what arrives is written by hand, what was
// sent can be looked at. For protocol tests of the link engine: receive ... / expect ...
#pragma once

#include <deque>
#include <utility>
#include <vector>

#include "fabric/link/carrier.h"
#include "fabric/link/link_engine.h"
#include "messages/flit.h"

namespace weft::test {

class ScriptCarrier final : public fabric::Carrier {
 public:
  static constexpr uint32_t kFlitPayloadBytes = 512;
  static constexpr uint32_t kSlots = 64;

  static fabric::LinkParams params(bool whole_cell, uint32_t credits = 8) {
    fabric::LinkParams out;
    out.flit_payload_bytes = kFlitPayloadBytes;
    out.cell_payload_bytes = 256;
    out.lanes = 4;
    out.credits_per_lane = credits;
    out.whole_cell_flits = whole_cell;
    return out;
  }

  /// A flit the peer sends next. Stays readable until the carrier ends.
  void arrive(std::vector<std::byte> flit) { arrived_.push_back(std::move(flit)); }
  /// Flits sent and published since the last call.
  std::vector<std::vector<std::byte>> take_sent() { return std::exchange(sent_, {}); }
  uint64_t resent_from = UINT64_MAX;  // last resend()
  uint64_t retired = 0;
  uint64_t released = 0;
  bool can_reread = false;
  bool keeps = false;    // loses no flit
  Instant due = kNever;  // when it wants to be polled
  Instant polled_at{};
  fabric::CarrierState condition = fabric::CarrierState::kUp;  // what poll() finds

  fabric::TxRun claim(uint32_t reserve) noexcept override {
    if (filled_.size() + reserve >= kSlots) return {};
    return {staging_.data(), static_cast<uint32_t>(staging_.size()), 1};
  }
  void commit(uint32_t slots, uint32_t last_bytes) noexcept override {
    if (slots != 0) filled_.emplace_back(staging_.begin(), staging_.begin() + last_bytes);
  }
  void publish(Instant /*now*/) noexcept override {
    for (auto& flit : filled_) sent_.push_back(std::move(flit));
    filled_.clear();
  }
  bool keeps_all() const noexcept override { return keeps; }
  uint32_t publish_every() const noexcept override { return 8; }
  void retire(uint64_t before) noexcept override { retired = before; }
  void resend(uint64_t from) noexcept override { resent_from = from; }
  uint32_t receive(std::span<fabric::RxSlot> out) noexcept override {
    uint32_t count = 0;
    for (; count < out.size() && cursor_ < arrived_.size(); ++count, ++cursor_) {
      out[count] = {arrived_[cursor_].data(), static_cast<uint32_t>(arrived_[cursor_].size()), cursor_};
    }
    return count;
  }
  void release(uint64_t before) noexcept override { released = before; }
  bool reread(uint64_t from) noexcept override {
    if (can_reread) cursor_ = from;
    return can_reread;
  }
  std::string_view kind() const noexcept override { return "script"; }
  fabric::CarrierState poll(Instant now) noexcept override {
    polled_at = now;
    return condition;
  }
  void wait_fds(std::vector<pollfd>& /*out*/) const override {}
  bool prepare_sleep() noexcept override { return cursor_ == arrived_.size(); }
  void finish_sleep() noexcept override {}
  Instant deadline() const noexcept override { return due; }

 private:
  std::deque<std::vector<std::byte>> arrived_;  // a deque: elements stay where they are
  size_t cursor_ = 0;
  std::vector<std::byte> staging_ = std::vector<std::byte>(kFlitHeaderBytes + kFlitPayloadBytes);
  std::vector<std::vector<std::byte>> filled_;
  std::vector<std::vector<std::byte>> sent_;
};

}  // namespace weft::test
