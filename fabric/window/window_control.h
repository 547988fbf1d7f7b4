// fabric/window/window_control.h -- the page before a window memory that two processes map: what a bridge has
// as registers. docs/window.md.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "fabric/window/device.h"

namespace weft::fabric {

/// One side's; each part alone in two cache lines. A peer may write all of it at any time.
struct WindowControl {
  alignas(128) std::array<std::atomic<uint64_t>, kScratchpads> scratchpads;  // big-endian; the owner writes
  alignas(128) std::atomic<uint64_t> bell;      // notifications since start-up; the peer adds
  alignas(128) std::atomic<uint32_t> sleeping;  // 1: the owner wants a wake-up; both exchange
  // Of a shared file alone, written by the owner:
  alignas(128) std::atomic<uint64_t> incarnation;  // of the owner's device; 0: none
  std::atomic<uint64_t> joined;                    // the peer's incarnation that the owner is joined with
  std::atomic<uint64_t> heartbeat;                 // counts while the owner polls
};
static_assert(sizeof(WindowControl) == 512 && offsetof(WindowControl, bell) == 128 &&
              offsetof(WindowControl, sleeping) == 256);
inline constexpr size_t kWindowControlBytes = 4096;
static_assert(sizeof(WindowControl) <= kWindowControlBytes);

/// The owner's use of its doorbell.
class Doorbell {
 public:
  explicit Doorbell(WindowControl& own) noexcept : own_(own), seen_(own.bell.load()) {}
  /// True when the peer has rung since the last call.
  [[nodiscard]] bool take() noexcept {
    const uint64_t rung = own_.bell.load(std::memory_order_acquire);
    return std::exchange(seen_, rung) != rung;
  }
  [[nodiscard]] const std::atomic<uint64_t>& word() const noexcept { return own_.bell; }
  [[nodiscard]] bool rung() const noexcept { return own_.bell.load(std::memory_order_acquire) != seen_; }
  /// Asks for a wake-up, then looks once more: false when the bell has rung. Exchange and look have one order
  /// with the two accesses of ring(): one of the two sides sees the other's.
  [[nodiscard]] bool prepare_sleep() noexcept {
    own_.sleeping.exchange(1, std::memory_order_seq_cst);
    return own_.bell.load(std::memory_order_seq_cst) == seen_;
  }
  /// An exchange: a store would end the release sequence of ring()'s (slot_ring.cc).
  void finish_sleep() noexcept { own_.sleeping.exchange(0, std::memory_order_relaxed); }
  /// The caller has stored something that the peer looks at after prepare_sleep(), in one order with this.
  [[nodiscard]] static bool sleeps(const WindowControl& peer) noexcept {
    return peer.sleeping.load(std::memory_order_seq_cst) != 0;
  }
  /// Rings the peer's. True when it sleeps and must be woken. An awake peer's flag is only read, so it stays
  /// in the caches of both sides.
  [[nodiscard]] static bool ring(WindowControl& peer) noexcept {
    peer.bell.fetch_add(1, std::memory_order_seq_cst);
    return sleeps(peer) && peer.sleeping.exchange(0, std::memory_order_seq_cst) != 0;
  }

 private:
  WindowControl& own_;
  uint64_t seen_;
};

}  // namespace weft::fabric
