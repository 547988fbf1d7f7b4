// tests/support/watched_devices.h -- a suite that makes calls of two devices in a child process, to which the
// kernel shows each of its system calls. What it sees it writes into memory that both processes have.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <functional>
#include <string>
#include <utility>

#include "hca/device_core.h"
#include "tests/support/linked_devices.h"
#include "tests/support/system_call_filter.h"
#include "tests/support/system_call_watch.h"
#include "tests/support/temp_dir.h"

namespace weft::test {

template <class Report>
class WatchedDevices : public ::testing::Test {
 public:
  static inline Report* report = nullptr;
  static inline std::array<hca::DeviceLock*, 2> locks{};  // of the devices

  /// There is one thread: a lock that is taken is its own.
  static bool held() {
    return std::any_of(locks.begin(), locks.end(), [](hca::DeviceLock* lock) {
      if (lock == nullptr) return false;
      if (!lock->try_lock()) return true;
      lock->unlock();
      return false;
    });
  }

 protected:
  void SetUp() override {
#if defined(WEFT_DEEP_CHECKS)  // the sanitizer builds set it
    GTEST_SKIP() << "a sanitizer's runtime enters the kernel by itself; the release build runs it";
#elif !defined(__x86_64__)
    GTEST_SKIP() << "no watch over system calls here";
#endif
    void* shared = mmap(nullptr, sizeof(Report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(shared, MAP_FAILED);
    report = new (shared) Report();
  }
  void TearDown() override {
    if (report != nullptr) munmap(std::exchange(report, nullptr), sizeof(Report));
  }
  /// A child makes the devices, joins them to a switch and makes `calls` while `look` sees its system calls.
  /// @param how  "shm:" or "ipc://"
  /// @return     0; 1: no link; 2: no watch; else what a call has ended the child with
  static int in_child(const std::string& how, uint32_t flit_payload_bytes, LookAtCall look,
                      const std::function<void(LinkedDevices&)>& calls, bool joined = true) {
    const TempDir dir;
    const pid_t child = fork();
    EXPECT_GE(child, 0);
    if (child == 0) {
      LinkedDevices world(how + dir.path() + "/s", flit_payload_bytes);
      if (joined && (!world.join() || !world.transfer(10))) _exit(1);
      locks = {&world.a.pd->context().core().lock, &world.b.pd->context().core().lock};
      if (!watch_system_calls(look)) _exit(2);
      calls(world);
      _exit(0);
    }
    return outcome_of(child);
  }
};

}  // namespace weft::test
