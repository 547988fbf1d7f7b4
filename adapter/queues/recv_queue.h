// adapter/queues/recv_queue.h -- receive WQEs in slots, all memory taken at creation (SAN-QP-01, PUSH-WQ-02).
// A message takes the oldest announced WQE and completes this WQE alone. A queue can therefore belong to one
// QP, or several QPs can share it, whose messages end in any order.
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
  uint64_t bytes;  // room in all segments, in bytes
  RecvSlot next;   // the next slot of the list in which this slot stands
  uint8_t sge_count;
  bool checked;  // every segment passed the check when the first data came (TPT-LOCAL-03)
};

/// A list of WQEs of one queue, oldest first.
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

/// A receive queue has one kind of WQE (SAN-WQE-07). Owner: the adapter's thread.
class RecvQueue {
 public:
  /// @param wqes 0 for a QP that takes from a shared queue
  /// @param pd the protection domain in which the segments of the WQEs are checked
  /// @param holds a place becomes free when its completion is polled (QpConfig::hold_places)
  RecvQueue(uint32_t wqes, uint32_t sges, PdId pd, bool holds = false);

  [[nodiscard]] bool full() const noexcept { return in_use_ >= capacity_; }
  /// No announced WQE is left to take.
  [[nodiscard]] bool empty() const noexcept { return announced_ == 0; }
  /// Number of announced WQEs that no message has taken.
  [[nodiscard]] uint32_t fill() const noexcept { return announced_; }
  /// Fewer announced WQEs wait than the low mark. Never true with a low mark of 0.
  [[nodiscard]] bool low() const noexcept { return announced_ < low_mark_; }
  void set_low_mark(uint32_t wqes) noexcept { low_mark_ = wqes; }
  [[nodiscard]] uint32_t low_mark() const noexcept { return low_mark_; }
  [[nodiscard]] uint32_t capacity() const noexcept { return capacity_; }
  [[nodiscard]] uint32_t sges_max() const noexcept { return sges_per_wqe_; }
  [[nodiscard]] PdId pd() const noexcept { return pd_; }
  [[nodiscard]] RecvWqe& at(RecvSlot slot) noexcept { return slots_[slot]; }
  [[nodiscard]] Sge* sges(RecvSlot slot) noexcept { return &sges_[size_t{slot} * sges_per_wqe_]; }

  /// Queues a WQE; announce() makes it available. The caller has checked that the queue is not full() and
  /// that the request has at most sges_max() segments.
  void post(const RecvRequest& request) noexcept;
  /// The doorbell: announces all posted WQEs. Returns false when there was no new one.
  bool announce() noexcept {
    const bool news = posted_.count != announced_;
    announced_ = posted_.count;
    return news;
  }

  /// The WQE that take() would return. The queue must not be empty().
  [[nodiscard]] RecvSlot next() const noexcept { return posted_.first; }
  /// Takes the oldest announced WQE and appends it to `mine`. The queue must not be empty().
  RecvSlot take(RecvSlots& mine) noexcept {
    --announced_;
    const RecvSlot slot = pop(posted_);
    append(mine, slot);
    return slot;
  }
  /// Completions of `count` WQEs were polled, or never will be. A queue with `holds` has these places free
  /// again.
  void free_places(uint32_t count) noexcept { in_use_ -= holds_ ? std::min(count, in_use_) : 0; }
  /// Ends the oldest WQE of `mine`, which must not be empty, and frees its slot. Returns its wr_id.
  uint64_t finish(RecvSlots& mine) noexcept { return release(pop(mine)); }
  /// Gives the unused WQEs of `mine` back: they are the oldest of the queue again, in their order.
  void give_back(RecvSlots& mine) noexcept;
  /// Ends the oldest WQE that no message has taken, announced or not. Returns false when there is none.
  bool flush_one(uint64_t& wr_id) noexcept;
  /// Drops every WQE, also the taken ones.
  void clear() noexcept;
  /// Memory for `wqes` WQEs, for resize().
  [[nodiscard]] static RecvRoom room_for(uint32_t wqes, uint32_t sges);
  /// Changes the capacity. Returns false when more than `wqes` are in use, or when the present memory and
  /// `room` are both too small. Slots keep their numbers. If resize() used `room`, it leaves the old memory
  /// there.
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
  uint32_t announced_ = 0;  // these are the oldest of posted_
  uint32_t low_mark_ = 0;
  RecvSlots posted_;  // posted and not taken
  RecvSlot free_ = kNoRecvSlot;
  uint32_t fresh_ = 0;   // slots from here on were never used
  uint32_t in_use_ = 0;  // posted and not ended, with `holds_` not polled
  uint32_t capacity_;
  uint32_t slots_made_;
  PdId pd_;
};

}  // namespace weft::adapter
