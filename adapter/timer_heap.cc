#include "adapter/timer_heap.h"

#include <utility>

#include "adapter/queues/queue_pair.h"

namespace weft::adapter {

void TimerHeap::put(uint32_t slot, Entry entry) noexcept {
  heap_[slot] = entry;
  entry.qp->timer_slot = slot;
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

void TimerHeap::arm(QueuePair& qp, Instant at) noexcept {
  if (qp.timer_slot == 0) {
    heap_.push_back({at, &qp});
    sift_up(static_cast<uint32_t>(heap_.size() - 1));
  } else if (at < heap_[qp.timer_slot].at) {
    heap_[qp.timer_slot].at = at;
    sift_up(qp.timer_slot);
  }
}

void TimerHeap::remove(QueuePair& qp) noexcept {
  const uint32_t slot = std::exchange(qp.timer_slot, 0);
  if (slot == 0) return;
  const Entry last = heap_.back();
  heap_.pop_back();
  if (slot == heap_.size()) return;
  put(slot, last);
  sift_up(slot);
  sift_down(last.qp->timer_slot);
}

QueuePair* TimerHeap::pop_due(Instant now) noexcept {
  if (heap_.size() == 1 || heap_[1].at > now) return nullptr;
  QueuePair* qp = heap_[1].qp;
  remove(*qp);
  return qp;
}

}  // namespace weft::adapter
