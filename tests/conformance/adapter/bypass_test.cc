// PUSH-WQ-09: transfers between registered buffers need neither the kernel nor new memory. A child process
// makes ten thousand transfers under a seccomp filter; the kernel ends the process at its first system call.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>

#include "tests/support/adapter_sides.h"
#include "tests/support/allocation_counter.h"
#include "tests/support/requirement.h"
#include "tests/support/switch_box.h"
#include "tests/support/system_call_filter.h"
#include "tests/support/temp_dir.h"

namespace weft::test {
using namespace adapter;
namespace {

using namespace std::chrono_literals;

constexpr uint64_t kTransfers = 10'000;
constexpr uint64_t kBatch = 40;

/// Two adapters around a switch over shared memory, like two processes of a fabric.
class ShmSides final : public AdapterSides {
 public:
  ShmSides() {
    for (Station* station : {&a, &b}) add_side(station->port);
    for (int turn = 0; turn < 2000 && !(a.port.up() && b.port.up()); ++turn) run(1, 1ms);
    EXPECT_TRUE(a.port.up() && b.port.up());
  }
  ~ShmSides() override { remove_sides(); }

  ManualClock clock;
  SeededRandom random{1};
  TempDir dir;
  SwitchBox box{"shm:" + dir.path() + "/s", small_switch(), nodes_with({Guid(1), Guid(2)})};
  Station a{box.endpoint(Guid(1)), random};
  Station b{box.endpoint(Guid(2)), random};

 private:
  [[nodiscard]] Instant now() const override { return clock.now(); }
  void pass(Duration step) override {
    box.poll(clock.now());
    clock.advance(step);
  }
};

class Bypass : public ::testing::Test {
 protected:
  /// One turn of both adapters and of the switch core alone; admission, which opens links, is not polled.
  void turn() {
    sides.clock.advance(Duration(1));
    for (PairSide& side : sides.sides) side.adapter->poll(sides.clock.now());
    sides.box.core.poll(sides.clock.now());
  }
  uint64_t take(int side) {
    std::array<WorkCompletion, kBatch> got;
    const uint32_t count = sides.side(side).adapter->cqs().poll(*sides.side(side).cq, got);
    for (uint32_t i = 0; i < count; ++i) bad += got[i].status != WcStatus::kSuccess ? 1U : 0U;
    return count;
  }
  /// Sends, writes and reads in turn; true when all have completed.
  bool transfer(uint64_t count) {
    PairSide& near = sides.side(0);
    PairSide& far = sides.side(1);
    uint64_t done = 0;
    uint64_t posted = 0;
    for (uint64_t turns = 0; done < count && turns < 100 * count; ++turns) {
      for (; posted < count && posted < done + kBatch; ++posted) {
        constexpr std::array kOpcodes{SendOpcode::kSend, SendOpcode::kRdmaWrite, SendOpcode::kRdmaRead};
        const Sge into = far.sge(4096, 600);
        const Sge data = near.sge(0, 600);
        const SendOpcode opcode = kOpcodes[posted % kOpcodes.size()];
        if (opcode == SendOpcode::kSend &&
            far.adapter->post_recv(*qps[1], {.wr_id = posted, .sges = {&into, 1}}) != PostResult::kOk)
          return false;
        const SendRequest request{.wr_id = posted,
                                  .opcode = opcode,
                                  .sges = {&data, 1},
                                  .remote_addr = far.region.addr,
                                  .rkey = far.region.rkey};
        if (near.adapter->post_send(*qps[0], request) != PostResult::kOk) return false;
      }
      turn();
      done += take(0);
      take(1);
    }
    return done == count && bad == 0;
  }

  ShmSides sides;
  std::array<QueuePair*, 2> qps = sides.connect({});
  uint64_t bad = 0;
};

TEST_F(Bypass, PUSH_WQ_09_ten_thousand_transfers_enter_no_kernel_and_take_no_memory) {
#if defined(WEFT_DEEP_CHECKS)  // set by the sanitizer builds
  GTEST_SKIP() << "a sanitizer's runtime enters the kernel by itself; the release build runs it";
#endif
  covers("PUSH-WQ-09");
  ASSERT_TRUE(transfer(100)) << "all is warm";
  const uint64_t calls = sides.side(0).adapter->counters().get(AdapterCounter::kAgentCalls);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (!forbid_system_calls()) _exit(2);
    const uint64_t before = allocations();
    if (!transfer(kTransfers)) _exit(3);
    if (allocations() != before) _exit(4);
    if (sides.side(0).adapter->counters().get(AdapterCounter::kAgentCalls) != calls) _exit(5);
    _exit(0);
  }
  EXPECT_EQ(outcome_of(child), 0) << "-31: a system call; 3: not all completed; 4: memory was taken";
}

/// Checks the filter itself: without it the test above would prove nothing.
TEST(BypassFilter, a_system_call_under_the_filter_ends_the_process) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (!forbid_system_calls()) _exit(2);
    (void)syscall(SYS_getpid);
    _exit(0);
  }
  EXPECT_EQ(outcome_of(child), -SIGSYS);
}

}  // namespace
}  // namespace weft::test
