// adapter/timer_heap.h -- one deadline per QP, in separate tables: with thousands of QPs, reading a QP for
// its deadline would be a cache miss. A deadline that moves later keeps its entry, and the adapter checks the
// QP when the entry comes up. The usual case, in which each ACK moves the timer, therefore costs nothing. An
// entry that is no longer wanted is dropped when it comes up, without a look at its QP.
//
// Deadlines that are armed in ascending order, such as those of retransmission, stand in a line; the others
// in a binary heap.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "base/fixed_ring.h"

namespace weft::adapter {

class QueuePair;

/// Owner: the adapter's thread.
class TimerHeap {
 public:
  /// @param most QPs for which memory is reserved now; each part is first touched when it is needed
  explicit TimerHeap(size_t most = 0);

  /// A QP was made and gets a timer, or ends. With more than `most` QPs enter() allocates.
  void enter(QueuePair& qp);
  void leave(QueuePair& qp) noexcept;

  /// Makes sure that pop_due() returns `qp` at `at` or earlier.
  void arm(QueuePair& qp, Instant at) noexcept;
  /// pop_due() does not return `qp` until it is armed again.
  void rest(const QueuePair& qp) noexcept;
  /// Returns a QP whose time has come, and sets its timer to rest; null when there is none.
  [[nodiscard]] QueuePair* pop_due(Instant now) noexcept;
  /// Drops unwanted entries from the front, so that they wake no thread.
  void drop_resting() noexcept;
  /// Time of the next entry, wanted or not.
  [[nodiscard]] Instant earliest() const noexcept {
    const Instant in_line = line_.empty() ? kNever : line_.front().at;
    return heap_.size() > 1 ? std::min(in_line, heap_[1].at) : in_line;
  }

 private:
  struct Entry {
    Instant at{};
    uint32_t timer = 0;
  };
  struct Timer {
    QueuePair* qp = nullptr;
    Instant line_at{};  // valid with in_line
    uint32_t slot = 0;  // place in the heap; 0: not in the heap
    bool in_line = false;
    bool wanted = false;
  };
  void grow();
  /// True when the next entry stands in the line, false when in the heap. There must be one.
  [[nodiscard]] bool line_is_next() const noexcept {
    return heap_.size() == 1 || (!line_.empty() && line_.front().at <= heap_[1].at);
  }
  Entry take_first() noexcept;
  void put(uint32_t slot, Entry entry) noexcept;
  void sift_up(uint32_t slot) noexcept;
  void sift_down(uint32_t slot) noexcept;
  void remove_from_heap(uint32_t slot) noexcept;

  std::vector<Timer> timers_;   // by QueuePair::timer
  std::vector<uint32_t> free_;  // unused indices of timers_
  std::vector<Entry> heap_;     // from index 1 on; has room for every timer
  FixedRing<Entry> line_;       // has room for every timer, each at most once
};

}  // namespace weft::adapter
