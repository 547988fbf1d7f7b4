// hca/device_lock.h -- the lock of one device. Uncontended, taking it is one compare-and-exchange and
// releasing it one plain store. No thread sleeps in the kernel for it, so release never enters it.
#pragma once

#include <atomic>
#include <cstdint>

namespace weft::hca {

/// Its address identifies a thread among those that live.
inline thread_local constinit char this_thread [[gnu::tls_model("initial-exec")]] = 0;

/// Fits std::lock_guard. Held for at most one bounded turn of an adapter, and never during a system call
/// except those that docs/consumer.md names.
class DeviceLock {
 public:
  /// A thread that has the lock would wait for itself: lock() then says so and ends the process.
  void lock() noexcept {
    if (!take(kRoundsOfASecond)) [[unlikely]]
      lock_patiently();
  }
  /// The calling thread has the lock: a signal handler has interrupted it.
  [[nodiscard]] bool is_mine() const noexcept {
    return holder_.load(std::memory_order_relaxed) == &this_thread;
  }
  /// Some thread has the lock.
  [[nodiscard]] bool is_taken() const noexcept { return holder_.load(std::memory_order_relaxed) != nullptr; }
  /// Waits for the lock for at least one second. False when it is still taken then.
  [[nodiscard]] bool lock_within_a_second() noexcept { return take(kRoundsOfASecond); }
  [[nodiscard]] bool try_lock() noexcept {
    const char* none = nullptr;
    return holder_.compare_exchange_strong(none, &this_thread, std::memory_order_acquire,
                                           std::memory_order_relaxed);
  }
  void unlock() noexcept { holder_.store(nullptr, std::memory_order_release); }

 private:
  static constexpr uint32_t kRoundsOfASecond = 20'200;  // the first 144 do not sleep, the others 50 us each

  [[nodiscard]] bool take(uint32_t rounds) noexcept {
    // A thread that polls without a pause would otherwise take the lock again before a waiting thread has
    // woken.
    if (waiters_.load(std::memory_order_relaxed) != 0) [[unlikely]]
      give_way();
    // Pairs with the store in unlock().
    return try_lock() || wait(rounds);
  }
  [[gnu::cold]] void lock_patiently() noexcept;
  void give_way() const noexcept;
  /// Makes up to `rounds` attempts. False when the lock is still taken.
  [[nodiscard]] bool wait(uint32_t rounds) noexcept;

  alignas(64) std::atomic<const char*> holder_{nullptr};  // this_thread of the one that has it
  std::atomic<uint32_t> waiters_{0};                      // threads in wait()
};

}  // namespace weft::hca
