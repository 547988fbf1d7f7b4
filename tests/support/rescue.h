// tests/support/rescue.h -- shows that a call does not block: what a peer can make wait for ever would
// otherwise hang the test program.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace weft::test {

/// Calls `what`. @return whether it came back by itself; when it has not after ten seconds, far longer than
/// any machine is away, another thread calls `rescue`, which must let it go on.
inline bool returns_by_itself(const std::function<void()>& what, const std::function<void()>& rescue) {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  bool rescued = false;
  std::thread watch([&] {
    std::unique_lock lock(mutex);
    rescued = !changed.wait_for(lock, std::chrono::seconds(10), [&] { return done; });
    if (rescued) rescue();
  });
  what();
  {
    const std::lock_guard lock(mutex);
    done = true;
  }
  changed.notify_one();
  watch.join();
  return !rescued;
}

}  // namespace weft::test
