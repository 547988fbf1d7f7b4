// How it works: the producer fills slots and publishes them by one release store of the head. The consumer
// reads the slots after its acquire load of the head. It gives slots back by a release store of the tail.
// Each side remembers the other's last position and loads it again only when the remembered one says full or
// empty, so that the cache lines travel once per burst. Before a sleep the consumer exchanges its flag to 1
// and then loads the head again. The producer stores the head and then exchanges the flag to 0. All exchanges
// of the flag have one order, so the side whose exchange comes second sees the other's store.
#include "fabric/carrier/slot_ring.h"

#include <algorithm>

namespace weft::fabric {

TxRun RingProducer::claim(uint32_t reserve) noexcept {
  auto free = static_cast<uint32_t>(shape_.slots - (written_ - tail_seen_));
  if (free <= reserve) {
    // Pairs with the release store in RingConsumer::release(): slots before the tail are no longer read.
    const uint64_t tail = control_.tail.load(std::memory_order_acquire);
    if (tail - tail_seen_ > published_ - tail_seen_) {
      faulty_ = true;
      return {};
    }
    tail_seen_ = tail;
    free = static_cast<uint32_t>(shape_.slots - (written_ - tail_seen_));
    if (free <= reserve) return {};
  }
  const auto index = static_cast<uint32_t>(written_ & (shape_.slots - 1));
  return {slots_ + size_t{index} * shape_.slot_bytes, shape_.slot_bytes,
          std::min(free - reserve, shape_.slots - index)};
}

void RingProducer::publish_quietly() noexcept {
  published_ = written_;
  // Pairs with the acquire load in RingConsumer::look(): the slots are filled before the head shows them.
  control_.head.store(published_, std::memory_order_release);
}

bool RingProducer::publish() noexcept {
  publish_quietly();
  // Pairs with the exchange in prepare_sleep(); see "How it works".
  return control_.sleeping.exchange(0, std::memory_order_seq_cst) != 0;
}

void RingConsumer::look() noexcept {
  // Pairs with the release store in RingProducer::publish().
  const uint64_t head = control_.head.load(std::memory_order_acquire);
  if (head - tail_ > shape_.slots || head - tail_ < head_seen_ - tail_) {
    faulty_ = true;
    return;
  }
  head_seen_ = head;
}

uint32_t RingConsumer::receive(std::span<RxSlot> out) noexcept {
  if (cursor_ == head_seen_) look();
  const auto count = static_cast<uint32_t>(std::min<uint64_t>(out.size(), head_seen_ - cursor_));
  for (uint32_t i = 0; i < count; ++i, ++cursor_) {
    out[i] = {slots_ + (cursor_ & (shape_.slots - 1)) * shape_.slot_bytes, shape_.slot_bytes, cursor_};
  }
  return count;
}

void RingConsumer::release(uint64_t before) noexcept {
  if (before <= tail_) return;
  tail_ = before;
  // Pairs with the acquire load in RingProducer::claim().
  control_.tail.store(tail_, std::memory_order_release);
}

void RingConsumer::reread(uint64_t from) noexcept {
  cursor_ = std::clamp(from, tail_, cursor_);
}

bool RingConsumer::prepare_sleep() noexcept {
  control_.sleeping.exchange(1, std::memory_order_seq_cst);
  asked_ = true;
  look();
  return cursor_ == head_seen_ && !faulty_;
}

bool RingConsumer::waits() noexcept {
  look();
  return cursor_ != head_seen_ && !faulty_;
}

/// The value does not matter, but a plain store would end the release sequence of the producer's exchange in
/// publish(). The next prepare_sleep() might then miss slots published before that exchange.
void RingConsumer::finish_sleep() noexcept {
  if (!asked_) return;
  asked_ = false;
  control_.sleeping.exchange(0, std::memory_order_relaxed);
}

}  // namespace weft::fabric
