// hca/engine_lock.h -- the lock of one device. Uncontended it is one exchange to take and a plain store to
// give back; nobody sleeps in the kernel on it, so giving back never makes a system call.
#pragma once

#include <atomic>
#include <cstdint>

namespace weft::hca {

/// Fits std::lock_guard. Held for one bounded turn of an adapter at most, and never over a system call, but
/// for what docs/consumer.md names.
class EngineLock {
 public:
  void lock() noexcept {
    // A thread that polls without a pause would take the lock again before a waiting one is awake.
    if (waiters_.load(std::memory_order_relaxed) != 0) [[unlikely]]
      give_way();
    // Pairs with the store in unlock().
    if (held_.exchange(true, std::memory_order_acquire)) [[unlikely]]
      wait();
  }
  [[nodiscard]] bool try_lock() noexcept { return !held_.exchange(true, std::memory_order_acquire); }
  void unlock() noexcept { held_.store(false, std::memory_order_release); }

 private:
  void give_way() const noexcept;
  void wait() noexcept;

  alignas(64) std::atomic<bool> held_{false};
  std::atomic<uint32_t> waiters_{0};  // threads in wait()
};

}  // namespace weft::hca
