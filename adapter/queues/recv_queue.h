// adapter/queues/recv_queue.h -- receive WQEs in slots, all memory taken at creation (SAN-QP-01, PUSH-WQ-02).
// A message takes the oldest announced WQE and completes just that one, so that a queue may be a QP's own or
// be shared by many whose messages end in any order.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "adapter/verbs.h"

namespace weft::adapter {

/// Names one receive WQE of a queue from its post to its completion.
using RecvSlot = uint32_t;
inline constexpr RecvSlot kNoRecvSlot = ~RecvSlot{0};

struct RecvWqe {
  uint64_t wr_id;
  uint64_t bytes;  // room in all segments
  RecvSlot next;   // in the list that it stands in
  uint8_t sge_count;
  bool checked;  // every segment was found good when the first data came (TPT-LOCAL-03)
};

/// WQEs of one queue, oldest first.
struct RecvSlots {
  RecvSlot first = kNoRecvSlot;
  RecvSlot last = kNoRecvSlot;
  uint32_t count = 0;

  [[nodiscard]] bool empty() const noexcept { return count == 0; }
};

/// Memory for the WQEs of a queue, taken before the queue is used.
struct RecvRoom {
  uint32_t wqes = 0;
  std::unique_ptr<RecvWqe[]> slots;
  std::unique_ptr<Sge[]> sges;
};

/// A receive queue knows one WQE kind (SAN-WQE-07). Owner: the adapter's thread.
class RecvQueue {
 public:
  /// `pd`: where the segments of its WQEs are checked. `wqes` 0: a QP that takes from a shared queue.
  /// @param holds a place comes free when its completion is polled (QpConfig::hold_places)
  RecvQueue(uint32_t wqes, uint32_t sges, PdId pd, bool holds = false);

  [[nodiscard]] bool full() const noexcept { return in_use_ >= capacity_; }
  /// Nothing that the doorbell has announced is left to be taken.
  [[nodiscard]] bool empty() const noexcept { return announced_ == 0; }
  /// Announced WQEs that no message has taken.
  [[nodiscard]] uint32_t fill() const noexcept { return announced_; }
  /// Fewer than the low mark wait. 0: never.
  [[nodiscard]] bool low() const noexcept { return announced_ < low_mark_; }
  void set_low_mark(uint32_t wqes) noexcept { low_mark_ = wqes; }
  [[nodiscard]] uint32_t low_mark() const noexcept { return low_mark_; }
  [[nodiscard]] uint32_t capacity() const noexcept { return capacity_; }
  [[nodiscard]] uint32_t sges_max() const noexcept { return sges_per_wqe_; }
  [[nodiscard]] PdId pd() const noexcept { return pd_; }
  [[nodiscard]] RecvWqe& at(RecvSlot slot) noexcept { return slots_[slot]; }
  [[nodiscard]] Sge* sges(RecvSlot slot) noexcept { return &sges_[size_t{slot} * sges_per_wqe_]; }

  /// Queues a WQE that the doorbell has still to announce. Neither full, nor more segments than sges_max().
  void post(const RecvRequest& request) noexcept;
  /// The doorbell; false when there was nothing new.
  bool announce() noexcept {
    const bool news = posted_.count != announced_;
    announced_ = posted_.count;
    return news;
  }

  /// The WQE that take() would give; the queue is not empty.
  [[nodiscard]] RecvSlot next() const noexcept { return posted_.first; }
  /// Takes the oldest announced WQE; it becomes the newest of `mine`. The queue is not empty.
  RecvSlot take(RecvSlots& mine) noexcept {
    --announced_;
    const RecvSlot slot = pop(posted_);
    append(mine, slot);
    return slot;
  }
  /// Completions of `count` WQEs were polled, or will never be: a queue that holds its places has them again.
  void free_places(uint32_t count) noexcept { in_use_ -= holds_ ? std::min(count, in_use_) : 0; }
  /// Ends the oldest of `mine`, which has one: its slot is free. Returns the number its owner gave it.
  uint64_t finish(RecvSlots& mine) noexcept { return release(pop(mine)); }
  /// All of `mine` were not used after all and are the oldest of the queue again, in their order.
  void give_back(RecvSlots& mine) noexcept;
  /// Ends the oldest WQE that no message has taken, announced or not; false when there is none.
  bool flush_one(uint64_t& wr_id) noexcept;
  /// Forgets every WQE, also those that were taken.
  void clear() noexcept;
  /// Room for `wqes`, for resize().
  [[nodiscard]] static RecvRoom room_for(uint32_t wqes, uint32_t sges);
  /// Another number of WQEs; false when more than that are in use, or when there have never been as many and
  /// `room` is too small for them. Slots keep their names; `room` has what they stood in if it was used.
  [[nodiscard]] bool resize(uint32_t wqes, RecvRoom& room) noexcept;

 private:
  RecvSlot pop(RecvSlots& list) noexcept {
    const RecvSlot slot = list.first;
    list.first = slots_[slot].next;
    --list.count;
    return slot;
  }
  void append(RecvSlots& list, RecvSlot slot) noexcept {
    (list.count != 0 ? slots_[list.last].next : list.first) = slot;
    list.last = slot;
    ++list.count;
  }
  uint64_t release(RecvSlot slot) noexcept {
    slots_[slot].next = free_;
    free_ = slot;
    in_use_ -= holds_ ? 0U : 1U;
    return slots_[slot].wr_id;
  }

  std::unique_ptr<RecvWqe[]> slots_;
  std::unique_ptr<Sge[]> sges_;
  uint16_t sges_per_wqe_;
  bool holds_;
  uint32_t announced_ = 0;  // the oldest of posted_
  uint32_t low_mark_ = 0;
  RecvSlots posted_;  // not taken
  RecvSlot free_ = kNoRecvSlot;
  uint32_t fresh_ = 0;   // slots from here on were never used
  uint32_t in_use_ = 0;  // posted and not ended; of a queue that holds its places, not polled
  uint32_t capacity_;
  uint32_t slots_made_;
  PdId pd_;
};

}  // namespace weft::adapter
