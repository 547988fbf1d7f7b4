// Posting and polling through hca/ need neither the kernel nor memory: a child process makes ten thousand
// transfers over shared memory under a filter with which the kernel ends it at the first system call.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>

#include "tests/support/allocation_counter.h"
#include "tests/support/linked_devices.h"
#include "tests/support/system_call_filter.h"
#include "tests/support/temp_dir.h"

namespace weft::test {
namespace {

constexpr uint64_t kTransfers = 10'000;

TEST(ConsumerBypass, ten_thousand_posts_and_polls_enter_no_kernel_and_take_no_memory) {
#if defined(WEFT_DEEP_CHECKS)  // the sanitizer builds set it
  GTEST_SKIP() << "a sanitizer's runtime enters the kernel by itself; the release build runs it";
#endif
  const TempDir dir;
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    // Made here: a child has no devices of its parent.
    LinkedDevices world("shm:" + dir.path() + "/s");
    if (!world.join() || !world.transfer(100)) _exit(1);
    if (!forbid_system_calls()) _exit(2);
    const uint64_t before = allocations();
    if (!world.transfer(kTransfers)) _exit(3);
    _exit(allocations() == before ? 0 : 4);
  }
  EXPECT_EQ(outcome_of(child), 0)
      << "-31: a system call; 1: no link; 3: not all arrived; 4: memory was taken";
}

}  // namespace
}  // namespace weft::test
