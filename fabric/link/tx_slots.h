// fabric/link/tx_slots.h -- the carrier's slots that one link end fills, one after the other, and when what
// is in them is handed to the peer. Slots are claimed in runs, so that a burst costs one virtual call.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "base/prefetch.h"
#include "fabric/link/carrier.h"
#include "fabric/link/limits.h"

namespace weft::fabric {

/// Owner: the link's thread. Between start() and stop() there is a carrier.
class TxSlots {
 public:
  /// `carrier` stays until stop().
  void start(Carrier& carrier) noexcept {
    carrier_ = &carrier;
    publish_every_ = carrier.publish_every();
    position_ = 0;
  }
  void stop() noexcept {
    carrier_ = nullptr;
    run_ = {};
    used_ = unpublished_ = 0;
    wake_due_ = false;
  }

  /// The next slot, the same one until fill(); null when no more than kControlSlots are free.
  [[nodiscard]] std::byte* next() noexcept {
    if (used_ == run_.count) {
      end_run();
      run_ = carrier_->claim(kControlSlots);
      if (run_.count == 0) return nullptr;
      if (run_.count > 1) prefetch_to_write(run_.first + run_.stride, last_bytes_);
    }
    std::byte* slot = current();
    if (used_ + kPrefetchSlots < run_.count)
      prefetch_to_write(slot + size_t{kPrefetchSlots} * run_.stride, last_bytes_);
    return slot;
  }
  /// As next(), else one of the reserve, and of that one alone, so that the rest of the run does not fall to
  /// data.
  [[nodiscard]] std::byte* next_of_all() noexcept {
    if (std::byte* slot = next()) return slot;
    run_ = carrier_->claim(0);
    run_.count = std::min(run_.count, 1U);
    return run_.count != 0 ? run_.first : nullptr;
  }
  /// What the last call of these two gave.
  [[nodiscard]] std::byte* current() const noexcept {
    WEFT_DCHECK(used_ < run_.count, "commit without claim");
    return run_.first + size_t{used_} * run_.stride;
  }
  /// Its position.
  [[nodiscard]] uint64_t position() const noexcept { return position_; }
  /// Its first `bytes` are written.
  void fill(uint32_t bytes) noexcept {
    ++used_;
    last_bytes_ = bytes;
    ++position_;
    ++unpublished_;
  }

  /// Slots filled since the last publish.
  [[nodiscard]] uint32_t unpublished() const noexcept { return unpublished_; }
  /// So many that they are worth publishing though more may follow.
  [[nodiscard]] bool worth_publishing() const noexcept { return unpublished_ >= publish_every_; }
  /// Hands what is filled to the peer and wakes it. False: there was nothing to do.
  bool publish(Instant now) noexcept {
    if (unpublished_ == 0 && !wake_due_) return false;
    end_run();
    carrier_->publish(now);
    unpublished_ = 0;
    wake_due_ = false;
    return true;
  }
  /// In the middle of a turn, for a peer that spins: whether it sleeps is looked at once, by publish(). That
  /// look has to wait until all stores before it have left, and those are to lines that the peer has just
  /// read.
  void publish_part(Instant now) noexcept {
    publish_quietly(now);
    wake_due_ = true;
  }
  /// For what the peer need not be woken for.
  void publish_quietly(Instant now) noexcept {
    end_run();
    carrier_->publish_quietly(now);
    unpublished_ = 0;
  }

 private:
  void end_run() noexcept {
    if (used_ != 0) carrier_->commit(used_, last_bytes_);
    run_ = {};
    used_ = 0;
  }

  Carrier* carrier_ = nullptr;
  TxRun run_;  // slots claimed from the carrier
  uint32_t used_ = 0;
  uint32_t last_bytes_ = 0;
  uint32_t unpublished_ = 0;
  bool wake_due_ = false;  // some were published that a sleeping peer has not been woken for
  uint32_t publish_every_ = 0;
  uint64_t position_ = 0;  // of the next slot
};

}  // namespace weft::fabric
