// fabric/link/rx_sequence.h -- the order in which data flits of all lanes are taken from a link: only the
// next number, and on each lane a head, the rest of its cell, a tail (SAN-FLIT-04). Tells past, expected and
// future flits apart, and limits the repeats of a missing one. docs/flow_control.md.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/clock.h"
#include "fabric/link/limits.h"
#include "fabric/link/link.h"

namespace weft::fabric {

/// Owner: the link's thread. Positions are carrier positions.
class RxSequence {
 public:
  void reset() noexcept { *this = RxSequence(); }

  // ---- numbers --------------------
  /// Place of a data flit in the sequence. 0: the next in order. Negative: a duplicate. Positive: number of
  /// flits missing before it.
  [[nodiscard]] int ahead(uint16_t number) const noexcept { return flit_distance(number, received_ + 1); }
  /// True when a data flit is missing up to `last_sent`, the last data flit that a flit without data names.
  [[nodiscard]] bool misses(uint16_t last_sent) const noexcept {
    return flit_distance(last_sent, received_) > 0;
  }
  /// The flits of a cell follow each other on their lane. False: the peer broke that rule.
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
  /// Takes the next data flit in order.
  void accept(uint64_t position) noexcept {
    ++received_;
    pass(position);
    repeats_ = damaged_ = 0;
    gap_ahead_ = 0;
    repeat_asked_ = false;
  }
  /// The slot at `position` is consumed.
  void pass(uint64_t position) noexcept { consumed_ = std::max(consumed_, position + 1); }
  /// All slots before this position are consumed.
  [[nodiscard]] uint64_t consumed() const noexcept { return consumed_; }

  // ---- gaps --------------------
  /// A flit has come behind a gap. If its distance does not grow, a new round of repeats has begun, and the
  /// missing flit was lost in it again.
  [[nodiscard]] bool begins_round(int ahead) noexcept {
    const bool again = ahead <= gap_ahead_;
    gap_ahead_ = ahead;
    return again;
  }
  /// True when the peer was asked for the next flit within the last `patience`, so that the flit may still
  /// come. After that time the request, or the repeated flit, counts as lost.
  [[nodiscard]] bool is_asked_for(Instant now, Duration patience) const noexcept {
    return repeat_asked_ && now - asked_at_ < patience;
  }
  void note_asked(Instant now) noexcept {
    repeat_asked_ = true;
    asked_at_ = now;
  }
  /// Counts a repeat of the next flit. False: the limit is exceeded. Copies with a damaged cell do not count
  /// here; count_damaged() has its own limit.
  [[nodiscard]] bool count_repeat() noexcept { return ++repeats_ <= kFlitRepeatsMax + damaged_; }
  /// Counts a copy of the next flit with a good header and a damaged cell. False: the limit is exceeded, so
  /// the cell was damaged before it was sent.
  [[nodiscard]] bool count_damaged() noexcept { return ++damaged_ <= kFlitRepeatsMax; }

  // ---- what the peer is told --------------------
  /// Accepted data flits whose acknowledgement the peer has not been sent.
  [[nodiscard]] uint64_t untold() const noexcept { return received_ - told_; }
  /// The acknowledgement to put on the wire; counts as told.
  [[nodiscard]] uint16_t tell() noexcept {
    told_ = received_;
    return static_cast<uint16_t>(received_);
  }

 private:
  uint64_t received_ = 0;  // data flits accepted; also the number of the newest one
  uint64_t told_ = 0;
  uint64_t consumed_ = 0;
  uint32_t open_lanes_ = 0;  // bit per lane inside a cell
  uint32_t repeats_ = 0;     // requests for the next flit
  uint32_t damaged_ = 0;     // copies of the next flit that came with a damaged cell
  int gap_ahead_ = 0;        // distance of the last flit behind a gap
  bool repeat_asked_ = false;
  Instant asked_at_{};
};

}  // namespace weft::fabric
