// verbs/per_process.h -- an object that a process has once, from its first use on.
#pragma once

#include <pthread.h>

#include <atomic>
#include <memory>
#include <mutex>

namespace weft::verbs {

/// A mutex that a child after fork() finds free, whatever thread of its parent held it. Never destroyed.
class ForkedMutex {
 public:
  ForkedMutex() : next_(all().load()) {
    static const int registered = pthread_atfork(nullptr, nullptr, free_all);
    static_cast<void>(registered);
    while (!all().compare_exchange_weak(next_, this)) {
    }
  }
  ForkedMutex(const ForkedMutex&) = delete;
  ForkedMutex& operator=(const ForkedMutex&) = delete;
  ~ForkedMutex() = default;
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  static std::atomic<ForkedMutex*>& all() noexcept {
    static std::atomic<ForkedMutex*> newest{nullptr};
    return newest;
  }
  static void free_all() noexcept {
    for (ForkedMutex* one = all().load(); one != nullptr; one = one->next_) std::construct_at(&one->mutex_);
  }

  std::mutex mutex_;
  ForkedMutex* next_;
};

/// Never destroyed: threads of the program may use it until the process ends. T::forked() tells a child after
/// fork() that the object is its parent's: the child gets one of its own and leaves the other as it is, for
/// its threads do not exist there. Any thread.
template <class T>
class PerProcess {
 public:
  static PerProcess& make() { return *std::make_unique<PerProcess>().release(); }

  /// The one of this process; null when there is none yet.
  [[nodiscard]] T* known() const noexcept {
    T* one = last();
    return one != nullptr && !one->forked() ? one : nullptr;
  }
  /// The one made last, be it the parent's.
  [[nodiscard]] T* last() const noexcept { return one_.load(std::memory_order_acquire); }

  /// The one of this process, from `create` if there is none yet; null when that gives none.
  template <class Create>
  T* get(Create&& create) {
    if (T* one = known(); one != nullptr) return one;
    const std::lock_guard one_at_a_time(creating_);
    if (T* one = known(); one != nullptr) return one;
    T* fresh = create().release();
    if (fresh != nullptr) one_.store(fresh, std::memory_order_release);
    return fresh;
  }

 private:
  ForkedMutex creating_;
  std::atomic<T*> one_{nullptr};
};

}  // namespace weft::verbs
