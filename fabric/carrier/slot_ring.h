// fabric/carrier/slot_ring.h -- a single-producer, single-consumer ring of slots in memory that two processes
// share. Positions run freely in 64 bits; each side keeps its own position, the mask and the sizes outside
// the shared memory and trusts nothing it reads there (house style 13, 14). docs/shared_memory.md.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "fabric/link/carrier.h"
#include "fabric/link/link_handshake.h"

namespace weft::fabric {

/// The shared part; each field alone in two cache lines, so that neighbours and the prefetcher keep apart.
struct RingControl {
  alignas(128) std::atomic<uint64_t> head;      // slots published; the producer writes
  alignas(128) std::atomic<uint64_t> tail;      // slots given back; the consumer writes
  alignas(128) std::atomic<uint32_t> sleeping;  // 1: the consumer wants a wake-up; both exchange
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
  /// Shows the consumer everything committed. @return true when it sleeps and must be woken.
  [[nodiscard]] bool publish() noexcept;
  /// As publish(), and lets a consumer that sleeps sleep on.
  void publish_quietly() noexcept;
  /// The consumer has given back the slots before this position.
  [[nodiscard]] uint64_t taken_before() const noexcept {
    return control_.tail.load(std::memory_order_relaxed);
  }
  /// The consumer gave back what it never had.
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
  /// Asks for a wake-up, then looks once more: false when there is something to receive.
  [[nodiscard]] bool prepare_sleep() noexcept;
  void finish_sleep() noexcept;
  /// Looks whether something is published that receive() has not handed out.
  [[nodiscard]] bool waits() noexcept;
  /// The producer published what it cannot have.
  [[nodiscard]] bool faulty() const noexcept { return faulty_; }

 private:
  void look() noexcept;

  RingControl& control_;
  const std::byte* slots_;
  RingGeometry shape_;
  uint64_t cursor_ = 0;
  uint64_t tail_ = 0;
  uint64_t head_seen_ = 0;
  bool asked_ = false;  // for a wake-up
  bool faulty_ = false;
};

}  // namespace weft::fabric
