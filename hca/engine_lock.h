// hca/engine_lock.h -- the lock of one device. Uncontended, taking it is one exchange and releasing it one
// plain store. No thread sleeps in the kernel for it, so releasing never makes a system call.
#pragma once

#include <atomic>
#include <cstdint>

namespace weft::hca {

/// Fits std::lock_guard. Held for at most one bounded turn of an adapter, and never during a system call
/// except those that docs/consumer.md names.
class EngineLock {
 public:
  void lock() noexcept {
    while (!take(UINT32_MAX)) {
    }
  }
  /// Waits for the lock for at least one second. False when it is still taken then.
  [[nodiscard]] bool lock_within_a_second() noexcept { return take(kRoundsOfASecond); }
  [[nodiscard]] bool try_lock() noexcept { return !held_.exchange(true, std::memory_order_acquire); }
  void unlock() noexcept { held_.store(false, std::memory_order_release); }

 private:
  static constexpr uint32_t kRoundsOfASecond = 20'200;  // the first 144 do not sleep, the others 50 us each

  [[nodiscard]] bool take(uint32_t rounds) noexcept {
    // A thread that polls without a pause would otherwise take the lock again before a waiting thread has
    // woken.
    if (waiters_.load(std::memory_order_relaxed) != 0) [[unlikely]]
      give_way();
    // Pairs with the store in unlock().
    return !held_.exchange(true, std::memory_order_acquire) || wait(rounds);
  }
  void give_way() const noexcept;
  /// Makes up to `rounds` attempts. False when the lock is still taken.
  [[nodiscard]] bool wait(uint32_t rounds) noexcept;

  alignas(64) std::atomic<bool> held_{false};
  std::atomic<uint32_t> waiters_{0};  // threads in wait()
};

}  // namespace weft::hca
