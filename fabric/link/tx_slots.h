// fabric/link/tx_slots.h -- the carrier's slots that one link end fills one after the other, and when they
// are published. Slots are claimed in runs, so that a burst costs one virtual call.
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
    at_ = nullptr;
    used_ = unpublished_ = 0;
    wake_due_ = false;
  }

  /// The next slot; the same one until fill(). Null when at most kControlSlots slots are free.
  [[nodiscard]] std::byte* next() noexcept {
    if (used_ == run_.count) [[unlikely]] {
      claim_run();
      if (run_.count == 0) return nullptr;
    }
    if (used_ + kPrefetchSlots < run_.count)
      prefetch_to_write(at_ + size_t{kPrefetchSlots} * run_.stride, last_bytes_);
    return at_;
  }
  /// As next(); if that fails, one slot of the reserve. The run then has only this slot, so that data cannot
  /// use the rest of the reserve.
  [[nodiscard]] std::byte* next_of_all() noexcept {
    if (std::byte* slot = next()) return slot;
    run_ = carrier_->claim(0);
    run_.count = std::min(run_.count, 1U);
    at_ = run_.first;
    return run_.count != 0 ? at_ : nullptr;
  }
  /// The slot that the last next() or next_of_all() returned.
  [[nodiscard]] std::byte* current() const noexcept {
    WEFT_DCHECK(used_ < run_.count, "commit without claim");
    return at_;
  }
  /// Carrier position of the current slot.
  [[nodiscard]] uint64_t position() const noexcept { return position_; }
  /// The first `bytes` of the current slot are written.
  void fill(uint32_t bytes) noexcept {
    ++used_;
    at_ += run_.stride;
    last_bytes_ = bytes;
    ++position_;
    ++unpublished_;
  }

  /// Slots filled since the last publish.
  [[nodiscard]] uint32_t unpublished() const noexcept { return unpublished_; }
  /// True when enough slots are filled for a publish, although more may follow.
  [[nodiscard]] bool worth_publishing() const noexcept { return unpublished_ >= publish_every_; }
  /// Publishes the filled slots and wakes the peer if it sleeps. False: there was nothing to do.
  bool publish(Instant now) noexcept {
    if (unpublished_ == 0 && !wake_due_) return false;
    end_run();
    carrier_->publish(now);
    unpublished_ = 0;
    wake_due_ = false;
    return true;
  }
  /// Publishes in the middle of a turn, for a peer that spins. Only the publish() at the end checks whether
  /// the peer sleeps: that check has to wait for all stores before it, and those go to lines that the peer
  /// has just read.
  void publish_part(Instant now) noexcept {
    publish_quietly(now);
    wake_due_ = true;
  }
  /// Publishes without waking the peer.
  void publish_quietly(Instant now) noexcept {
    end_run();
    carrier_->publish_quietly(now);
    unpublished_ = 0;
  }

 private:
  /// The run is used up: claims the next one.
  [[gnu::noinline]] void claim_run() noexcept {
    end_run();
    run_ = carrier_->claim(kControlSlots);
    at_ = run_.first;
    if (run_.count > 1) prefetch_to_write(at_ + run_.stride, last_bytes_);
  }
  void end_run() noexcept {
    if (used_ != 0) carrier_->commit(used_, last_bytes_);
    run_ = {};
    at_ = nullptr;
    used_ = 0;
  }

  Carrier* carrier_ = nullptr;
  TxRun run_;                // slots claimed from the carrier
  std::byte* at_ = nullptr;  // the next slot of the run
  uint32_t used_ = 0;
  uint32_t last_bytes_ = 0;
  uint32_t unpublished_ = 0;
  bool wake_due_ = false;  // slots were published for which a sleeping peer has not been woken
  uint32_t publish_every_ = 0;
  uint64_t position_ = 0;  // of the next slot
};

}  // namespace weft::fabric
