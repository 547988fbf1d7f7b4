// adapter/timer_heap.h -- one deadline per QP, in tables of their own: with thousands of QPs a look at one is
// a look at memory that nothing else has fetched. A deadline that moves later stays where it is and is looked
// at again when it comes up, so the usual case -- every ACK pushes the timer -- costs nothing; one that is
// not wanted any more goes, when it comes up, without anybody looking at its QP.
//
// Deadlines that are armed in their order, as those of retransmission are, stand in a line; the others in a
// binary heap.
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
  /// @param most QPs for which memory is taken now; it is touched as they come
  explicit TimerHeap(size_t most = 0);

  /// A QP was made and has a timer from now on, or ends. With more than `most` of them memory is taken.
  void enter(QueuePair& qp);
  void leave(QueuePair& qp) noexcept;

  /// Makes sure that pop_due() gives `qp` at `at` or earlier.
  void arm(QueuePair& qp, Instant at) noexcept;
  /// Nothing is to come up for `qp` until it is armed again.
  void rest(const QueuePair& qp) noexcept;
  /// A QP whose time has come, its timer at rest; null when there is none.
  [[nodiscard]] QueuePair* pop_due(Instant now) noexcept;
  /// Drops the next timers that are not wanted, so that they wake no thread.
  void drop_resting() noexcept;
  /// When the next comes up, wanted or not.
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
    Instant line_at{};  // with in_line
    uint32_t slot = 0;  // in the heap, 0 = not there
    bool in_line = false;
    bool wanted = false;
  };
  void grow();
  /// Which of the two has the entry that comes up next. Only when there is one.
  [[nodiscard]] bool line_is_next() const noexcept {
    return heap_.size() == 1 || (!line_.empty() && line_.front().at <= heap_[1].at);
  }
  Entry take_first() noexcept;
  void put(uint32_t slot, Entry entry) noexcept;
  void sift_up(uint32_t slot) noexcept;
  void sift_down(uint32_t slot) noexcept;
  void remove_from_heap(uint32_t slot) noexcept;

  std::vector<Timer> timers_;   // by QueuePair::timer
  std::vector<uint32_t> free_;  // of those
  std::vector<Entry> heap_;     // from 1 on; has room for every timer
  FixedRing<Entry> line_;       // likewise, each timer at most once
};

}  // namespace weft::adapter
