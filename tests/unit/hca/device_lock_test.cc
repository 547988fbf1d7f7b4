#include "hca/device_lock.h"

#include <gtest/gtest.h>

#include <array>
#include <mutex>
#include <thread>

namespace weft::test {
namespace {

/// Run under the thread sanitizer too: the counter is not atomic.
TEST(DeviceLock, guards_what_eight_threads_write) {
  hca::DeviceLock lock;
  constexpr uint32_t kRounds = 2000;
  uint64_t counter = 0;
  std::array<std::thread, 8> threads;
  for (std::thread& thread : threads) {
    thread = std::thread([&] {
      for (uint32_t i = 0; i < kRounds; ++i) {
        const std::lock_guard held(lock);
        ++counter;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counter, threads.size() * kRounds);
}

/// The owner keeps it longer than anybody spins or yields: the other one sleeps and gets it all the same.
TEST(DeviceLock, is_got_by_who_had_to_sleep) {
  hca::DeviceLock lock;
  lock.lock();
  EXPECT_FALSE(lock.try_lock());
  std::atomic<bool> got{false};
  std::thread other([&] {
    const std::lock_guard held(lock);
    got = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_FALSE(got);
  lock.unlock();
  other.join();
  EXPECT_TRUE(got);
  EXPECT_TRUE(lock.try_lock());
}

/// A thread that takes the lock again and again leaves room for one that asks once. Without an end of its
/// own, so that it fails by never ending.
TEST(DeviceLock, a_thread_that_polls_without_a_pause_does_not_keep_others_out) {
  hca::DeviceLock lock;
  std::atomic<bool> got{false};
  std::thread poller([&] {
    while (!got) {
      const std::lock_guard held(lock);
      for (uint32_t i = 0; i < 200; ++i) static_cast<void>(got.load());
    }
  });
  for (int i = 0; i < 20; ++i) {
    const std::lock_guard held(lock);
  }
  got = true;
  poller.join();
  EXPECT_TRUE(lock.try_lock());
}

}  // namespace
}  // namespace weft::test
