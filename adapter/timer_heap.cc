#include "adapter/timer_heap.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "adapter/limits.h"
#include "adapter/queues/queue_pair.h"

namespace weft::adapter {
namespace {

constexpr size_t kTimersAtFirst = 64;

}  // namespace

TimerHeap::TimerHeap(size_t most) {
  const size_t capacity = std::bit_ceil(std::max(kTimersAtFirst, most));
  timers_.reserve(capacity);
  free_.reserve(capacity);
  heap_.reserve(capacity + 1);
  line_.expect(capacity);
  heap_.push_back({});
  grow();
}

/// Doubles the number of timers.
void TimerHeap::grow() {
  const size_t before = timers_.size();
  const size_t capacity = std::max(kTimersAtFirst, 2 * before);
  free_.reserve(capacity);
  heap_.reserve(capacity + 1);
  line_.widen(capacity);
  timers_.resize(capacity);
  for (size_t timer = capacity; timer > before; --timer) free_.push_back(static_cast<uint32_t>(timer - 1));
}

void TimerHeap::enter(QueuePair& qp) {
  if (free_.empty()) grow();
  qp.timer = free_.back();
  free_.pop_back();
  timers_[qp.timer].qp = &qp;
  timers_[qp.timer].wanted = false;
}

/// An entry in the line stays there. The next QP that gets this timer takes the entry over, so its timer may
/// come up too early.
void TimerHeap::leave(QueuePair& qp) noexcept {
  Timer& timer = timers_[qp.timer];
  if (timer.slot != 0) remove_from_heap(timer.slot);
  timer.qp = nullptr;
  timer.wanted = false;
  free_.push_back(qp.timer);
}

void TimerHeap::put(uint32_t slot, Entry entry) noexcept {
  heap_[slot] = entry;
  timers_[entry.timer].slot = slot;
}

void TimerHeap::sift_up(uint32_t slot) noexcept {
  const Entry moving = heap_[slot];
  while (slot > 1 && moving.at < heap_[slot / 2].at) {
    put(slot, heap_[slot / 2]);
    slot /= 2;
  }
  put(slot, moving);
}

void TimerHeap::sift_down(uint32_t slot) noexcept {
  const Entry moving = heap_[slot];
  for (;;) {
    auto child = slot * 2;
    if (child >= heap_.size()) break;
    if (child + 1 < heap_.size() && heap_[child + 1].at < heap_[child].at) ++child;
    if (moving.at <= heap_[child].at) break;
    put(slot, heap_[child]);
    slot = child;
  }
  put(slot, moving);
}

void TimerHeap::remove_from_heap(uint32_t slot) noexcept {
  timers_[heap_[slot].timer].slot = 0;
  const Entry last = heap_.back();
  heap_.pop_back();
  if (slot == heap_.size()) return;
  put(slot, last);
  sift_up(slot);
  sift_down(timers_[last.timer].slot);
}

void TimerHeap::arm(QueuePair& qp, Instant at) noexcept {
  Timer& timer = timers_[qp.timer];
  timer.wanted = true;
  if (timer.in_line && timer.line_at <= at) return;
  if (timer.slot != 0) {
    if (heap_[timer.slot].at <= at) return;
    heap_[timer.slot].at = at;
    return sift_up(timer.slot);
  }
  if (!timer.in_line && (line_.empty() || line_.back().at <= at)) {
    timer.in_line = true;
    timer.line_at = at;
    static_cast<void>(line_.push({at, qp.timer}));
    return;
  }
  heap_.push_back({at, qp.timer});
  sift_up(static_cast<uint32_t>(heap_.size() - 1));
}

void TimerHeap::rest(const QueuePair& qp) noexcept {
  timers_[qp.timer].wanted = false;
}

TimerHeap::Entry TimerHeap::take_first() noexcept {
  Entry first;
  if (line_is_next()) {
    first = line_.front();
    line_.pop();
    timers_[first.timer].in_line = false;
  } else {
    first = heap_[1];
    remove_from_heap(1);
  }
  return first;
}

QueuePair* TimerHeap::pop_due(Instant now) noexcept {
  for (uint32_t looks = 0; looks < kTimersPerTurn; ++looks) {
    const Instant first = earliest();
    if (first == kNever || first > now) return nullptr;
    Timer& timer = timers_[take_first().timer];
    if (std::exchange(timer.wanted, false)) return timer.qp;
  }
  return nullptr;
}

void TimerHeap::drop_resting() noexcept {
  while (earliest() != kNever) {
    if (timers_[(line_is_next() ? line_.front() : heap_[1]).timer].wanted) return;
    static_cast<void>(take_first());
  }
}

}  // namespace weft::adapter
