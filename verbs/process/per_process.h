// verbs/process/per_process.h -- an object that each process has once, created at first use.
#pragma once

#include <pthread.h>

#include <atomic>
#include <memory>
#include <mutex>

namespace weft::verbs {

/// A mutex that is free in a child after fork(), even if a thread of the parent held it. Never destroyed.
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

/// Holds the process's one T. T::forked() is true in a child after fork() for the parent's object: the child
/// then makes its own and leaves the parent's untouched, because the threads of that object do not exist in
/// the child. Never destroyed, because threads of the program may use it until the process ends. Any thread
/// may call.
template <class T>
class PerProcess {
 public:
  static PerProcess& make() { return *std::make_unique<PerProcess>().release(); }

  /// The object of this process; null when there is none yet.
  [[nodiscard]] T* known() const noexcept {
    T* one = last();
    return one != nullptr && !one->forked() ? one : nullptr;
  }
  /// The object made last, even if it is the parent's.
  [[nodiscard]] T* last() const noexcept { return one_.load(std::memory_order_acquire); }

  /// The object of this process, made by `create` if there is none yet; null if `create` returns null.
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
