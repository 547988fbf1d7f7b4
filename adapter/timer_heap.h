// adapter/timer_heap.h -- one deadline per QP in a binary heap of fixed size. A deadline that moves later is
// left where it is and looked at again when it comes up, so the usual case -- every ACK pushes the timer --
// costs nothing.
#pragma once

#include <cstdint>
#include <vector>

#include "base/clock.h"

namespace weft::adapter {

class QueuePair;

/// Owner: the adapter's thread.
class TimerHeap {
 public:
  explicit TimerHeap(uint32_t capacity) {
    heap_.reserve(capacity + 1);
    heap_.push_back({});
  }

  /// Makes sure that pop_due() gives `qp` at `at` or earlier.
  void arm(QueuePair& qp, Instant at) noexcept;
  void remove(QueuePair& qp) noexcept;
  /// A QP whose time has come, removed; null when there is none.
  [[nodiscard]] QueuePair* pop_due(Instant now) noexcept;
  /// The QP of earliest(); null when there is none.
  [[nodiscard]] QueuePair* first() const noexcept { return heap_.size() > 1 ? heap_[1].qp : nullptr; }
  [[nodiscard]] Instant earliest() const noexcept { return heap_.size() > 1 ? heap_[1].at : kNever; }

 private:
  struct Entry {
    Instant at{};
    QueuePair* qp = nullptr;
  };
  void put(uint32_t slot, Entry entry) noexcept;
  void sift_up(uint32_t slot) noexcept;
  void sift_down(uint32_t slot) noexcept;

  std::vector<Entry> heap_;  // from 1 on; never grows beyond its first capacity
};

}  // namespace weft::adapter
