// fabric/link/rx_sequence.h -- the order in which data flits of all lanes are taken from a link: the next
// number only, and on each lane a head, the rest of its cell, a tail (SAN-FLIT-04). Past, expected and future
// flits, and what a gap may cost, are told apart here. docs/flow_control.md.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/clock.h"
#include "fabric/link/limits.h"
#include "fabric/link/link.h"

namespace weft::fabric {

/// Owner: the link's thread. Positions are those of the carrier's slots.
class RxSequence {
 public:
  void reset() noexcept { *this = RxSequence(); }

  // ---- numbers --------------------
  /// 0: the next data flit in order. Negative: it was here before. Positive: the number of flits that are
  /// missing before it.
  [[nodiscard]] int ahead(uint16_t number) const noexcept { return flit_distance(number, received_ + 1); }
  /// A flit without data names the last data flit sent before it. Is one missing up to there?
  [[nodiscard]] bool misses(uint16_t last_sent) const noexcept {
    return flit_distance(last_sent, received_) > 0;
  }
  /// A cell's flits follow each other on their lane. False: the peer broke that rule.
  [[nodiscard]] bool fits_framing(VirtualLane vl, uint8_t flags) noexcept {
    const bool open = (open_lanes_ & lane_bit(vl)) != 0;
    const bool head = (flags & kFlitHead) != 0;
    if (head == open) return false;
    if ((flags & kFlitTail) != 0) {
      open_lanes_ &= ~lane_bit(vl);
    } else {
      open_lanes_ |= lane_bit(vl);
    }
    return true;
  }
  /// The next data flit is here.
  void accept(uint64_t position) noexcept {
    ++received_;
    pass(position);
    repeats_ = damaged_ = 0;
    gap_ahead_ = 0;
    repeat_asked_ = false;
  }
  /// The slot at `position` is done with.
  void pass(uint64_t position) noexcept { consumed_ = std::max(consumed_, position + 1); }
  /// Slots before this position are done with.
  [[nodiscard]] uint64_t consumed() const noexcept { return consumed_; }

  // ---- gaps --------------------
  /// A flit has come behind a gap. Numbers that do not rise any more are a new round of repeats: the flit
  /// that is missing was lost in it again.
  [[nodiscard]] bool begins_round(int ahead) noexcept {
    const bool again = ahead <= gap_ahead_;
    gap_ahead_ = ahead;
    return again;
  }
  /// The peer was asked for the next flit within the last `patience`: the flit may still come. A request that
  /// has brought nothing for longer was lost, or what it asked for was.
  [[nodiscard]] bool is_asked_for(Instant now, Duration patience) const noexcept {
    return repeat_asked_ && now - asked_at_ < patience;
  }
  void note_asked(Instant now) noexcept {
    repeat_asked_ = true;
    asked_at_ = now;
  }
  /// The next flit is to come once more. False: it has come too often. Copies with a damaged cell do not
  /// count: count_damaged() has its own limit.
  [[nodiscard]] bool count_repeat() noexcept { return ++repeats_ <= kFlitRepeatsMax + damaged_; }
  /// The next flit has come behind a good header with a damaged cell. False: it has come so too often, and
  /// the cell was damaged before it was sent.
  [[nodiscard]] bool count_damaged() noexcept { return ++damaged_ <= kFlitRepeatsMax; }

  // ---- what the peer is to be told --------------------
  /// Data flits accepted that the peer does not know of.
  [[nodiscard]] uint64_t untold() const noexcept { return received_ - told_; }
  /// The acknowledgement to put on the wire.
  [[nodiscard]] uint16_t tell() noexcept {
    told_ = received_;
    return static_cast<uint16_t>(received_);
  }

 private:
  uint64_t received_ = 0;  // data flits accepted; the newest one's number
  uint64_t told_ = 0;
  uint64_t consumed_ = 0;
  uint32_t open_lanes_ = 0;  // bit per lane inside a cell
  uint32_t repeats_ = 0;     // of the next flit
  uint32_t damaged_ = 0;     // copies of the next flit that came with a damaged cell
  int gap_ahead_ = 0;        // distance of the last flit behind a gap
  bool repeat_asked_ = false;
  Instant asked_at_{};
};

}  // namespace weft::fabric
