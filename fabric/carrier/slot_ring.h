// fabric/carrier/slot_ring.h -- a single-producer, single-consumer ring of slots in memory that two processes
// share. Positions run freely in 64 bits. Each side keeps its own position, the mask and the sizes outside
// the shared memory, and checks every value that it reads there (house style 13, 14). docs/shared_memory.md.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "fabric/link/carrier.h"
#include "fabric/link/link_handshake.h"

namespace weft::fabric {

/// The shared part. Each field has two cache lines of its own, so that neither writes to a neighbour nor the
/// prefetcher of adjacent lines disturb it.
struct RingControl {
  alignas(128) std::atomic<uint64_t> head;      // slots published; the producer writes
  alignas(128) std::atomic<uint64_t> tail;      // slots given back; the consumer writes
  alignas(128) std::atomic<uint32_t> sleeping;  // 1: the consumer wants a wake-up; both sides exchange it
};
static_assert(sizeof(RingControl) == 384 && alignof(RingControl) == 128);
static_assert(offsetof(RingControl, tail) == 128 && offsetof(RingControl, sleeping) == 256);
static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<uint32_t>::is_always_lock_free);

/// Owner: the producing thread.
class RingProducer {
 public:
  RingProducer(RingControl& control, std::byte* slots, RingGeometry shape) noexcept
      : control_(control), slots_(slots), shape_(shape) {}

  /// See Carrier::claim().
  [[nodiscard]] TxRun claim(uint32_t reserve) noexcept;
  void commit(uint32_t slots) noexcept { written_ += slots; }
  /// Publishes all committed slots. @return true when the consumer sleeps and must be woken.
  [[nodiscard]] bool publish() noexcept;
  /// As publish(), but does not ask for the wake-up of a sleeping consumer.
  void publish_quietly() noexcept;
  /// The consumer has given back the slots before this position.
  [[nodiscard]] uint64_t taken_before() const noexcept {
    return control_.tail.load(std::memory_order_relaxed);
  }
  /// The consumer's tail was beyond the published slots.
  [[nodiscard]] bool faulty() const noexcept { return faulty_; }

 private:
  RingControl& control_;
  std::byte* slots_;
  RingGeometry shape_;
  uint64_t written_ = 0;
  uint64_t published_ = 0;
  uint64_t tail_seen_ = 0;
  bool faulty_ = false;
};

/// Owner: the consuming thread.
class RingConsumer {
 public:
  RingConsumer(RingControl& control, const std::byte* slots, RingGeometry shape) noexcept
      : control_(control), slots_(slots), shape_(shape) {}

  /// See Carrier.
  [[nodiscard]] uint32_t receive(std::span<RxSlot> out) noexcept;
  void release(uint64_t before) noexcept;
  void reread(uint64_t from) noexcept;
  /// Asks for a wake-up, then loads the head again: false when there is something to receive.
  [[nodiscard]] bool prepare_sleep() noexcept;
  void finish_sleep() noexcept;
  /// Loads the head: true when slots are published that receive() has not handed out.
  [[nodiscard]] bool waits() noexcept;
  /// The producer's head went backwards or beyond the ring.
  [[nodiscard]] bool faulty() const noexcept { return faulty_; }

 private:
  void look() noexcept;

  RingControl& control_;
  const std::byte* slots_;
  RingGeometry shape_;
  uint64_t cursor_ = 0;
  uint64_t tail_ = 0;
  uint64_t head_seen_ = 0;
  bool asked_ = false;  // prepare_sleep() has asked for a wake-up
  bool faulty_ = false;
};

}  // namespace weft::fabric
