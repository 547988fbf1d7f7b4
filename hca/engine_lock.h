// hca/engine_lock.h -- the lock of one device. Uncontended it is one exchange to take and a plain store to
// give back; no thread sleeps in the kernel on it, so giving back never makes a system call.
#pragma once

#include <atomic>
#include <cstdint>

namespace weft::hca {

/// Fits std::lock_guard. Held for one bounded turn of an adapter at most, and never over a system call, but
/// for what docs/consumer.md names.
class EngineLock {
 public:
  void lock() noexcept {
    while (!take(UINT32_MAX)) {
    }
  }
  /// Waits for the lock at least one second; false when it is still taken then.
  [[nodiscard]] bool lock_within_a_second() noexcept { return take(kRoundsOfASecond); }
  [[nodiscard]] bool try_lock() noexcept { return !held_.exchange(true, std::memory_order_acquire); }
  void unlock() noexcept { held_.store(false, std::memory_order_release); }

 private:
  static constexpr uint32_t kRoundsOfASecond = 20'200;  // the first 144 do not sleep, the others 50 us each

  [[nodiscard]] bool take(uint32_t rounds) noexcept {
    // A thread that polls without a pause would take the lock again before a waiting one is awake.
    if (waiters_.load(std::memory_order_relaxed) != 0) [[unlikely]]
      give_way();
    // Pairs with the store in unlock().
    return !held_.exchange(true, std::memory_order_acquire) || wait(rounds);
  }
  void give_way() const noexcept;
  /// False when the lock is still taken after `rounds` looks.
  [[nodiscard]] bool wait(uint32_t rounds) noexcept;

  alignas(64) std::atomic<bool> held_{false};
  std::atomic<uint32_t> waiters_{0};  // threads in wait()
};

}  // namespace weft::hca
