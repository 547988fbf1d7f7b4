// fabric/link/credit.h -- the credits of one lane in one direction, as absolute 64-bit totals (house style
// 20, decisions 2.5). So a lost, late or repeated update does no harm. The wire carries the low 16 bits of
// the number of flits given back. That is enough, because at most kCreditsPerLaneMax (2^15 - 1) flits are in
// flight. docs/flow_control.md.
#pragma once

#include <cstdint>

#include "base/check.h"

namespace weft::fabric {

/// Both halves of one lane at one link end: the sending half counts flits that this end sends, the receiving
/// half flits that come in. Owner: the link's thread.
class LaneCredit {
 public:
  /// A link comes up: each side has `capacity` flit buffers, and nothing has been sent.
  void reset(uint32_t capacity) noexcept { *this = LaneCredit(capacity); }

  // ---- sending half --------------------
  [[nodiscard]] uint32_t available() const noexcept {
    return static_cast<uint32_t>(capacity_ + returned_ - sent_);
  }
  /// Counts one flit when it is first sent. A repeat does not count.
  void spend() noexcept {
    WEFT_DCHECK(available() > 0, "flit sent without credit");
    ++sent_;
  }
  /// Takes the peer's total of flits given back. @return false when it exceeds the flits sent: the peer broke
  /// the protocol, and nothing is changed. An older total is true and changes nothing.
  [[nodiscard]] bool absorb(uint16_t wire_total) noexcept {
    const auto ahead =
        static_cast<int16_t>(static_cast<uint16_t>(wire_total - static_cast<uint16_t>(returned_)));
    if (ahead <= 0) return true;
    const uint64_t total = returned_ + static_cast<uint64_t>(ahead);
    if (total > sent_) return false;
    returned_ = total;
    return true;
  }
  [[nodiscard]] uint64_t sent() const noexcept { return sent_; }
  [[nodiscard]] uint64_t returned() const noexcept { return returned_; }

  // ---- receiving half --------------------
  /// A flit came in. @return false when the peer had no credit for it.
  [[nodiscard]] bool arrive() noexcept {
    if (arrived_ - granted_ >= capacity_) return false;
    ++arrived_;
    return true;
  }
  /// `flits` buffers are free again.
  void grant(uint32_t flits) noexcept {
    granted_ += flits;
    WEFT_DCHECK(granted_ <= arrived_, "more flit buffers given back than were filled");
  }
  /// Flits given back whose total the peer has not been told.
  [[nodiscard]] uint64_t untold() const noexcept { return granted_ - told_; }
  /// The total to put on the wire. The caller must send it, as it counts as told.
  [[nodiscard]] uint16_t tell() noexcept {
    told_ = granted_;
    return static_cast<uint16_t>(granted_);
  }
  /// The peer may have missed totals: everything counts as untold again.
  void forget_told() noexcept { told_ = 0; }
  /// Flits received and not yet given back.
  [[nodiscard]] uint64_t held() const noexcept { return arrived_ - granted_; }
  [[nodiscard]] uint64_t arrived() const noexcept { return arrived_; }
  [[nodiscard]] uint32_t capacity() const noexcept { return static_cast<uint32_t>(capacity_); }

  LaneCredit() = default;

 private:
  explicit LaneCredit(uint32_t capacity) noexcept : capacity_(capacity) {}

  uint64_t capacity_ = 0;
  uint64_t sent_ = 0;
  uint64_t returned_ = 0;
  uint64_t arrived_ = 0;
  uint64_t granted_ = 0;
  uint64_t told_ = 0;
};

}  // namespace weft::fabric
