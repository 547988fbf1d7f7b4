// Posting and polling through hca/ need neither the kernel nor memory: a child process makes ten thousand
// transfers over shared memory under a filter with which the kernel ends it at the first system call.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>

#include "fabric/switch/admission.h"
#include "fabric/switch/shm_acceptor.h"
#include "tests/support/allocation_counter.h"
#include "tests/support/system_call_filter.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_fabric.h"
#include "tests/support/two_devices.h"

namespace weft::test {
using hca::Answer;
namespace {

constexpr uint64_t kTransfers = 10'000;

/// Two devices around a switch that never sleeps, in one thread and virtual time. A helper is asked for and
/// kicked as ever, but has no descriptor behind it.
class ShmDevices {
 public:
  explicit ShmDevices(const std::string& path)
      : core(small_switch()), admission(core, {{"a", Guid(0x1001), Lid(1)}, {"b", Guid(0x1002), Lid(2)}}) {
    acceptor = std::move(fabric::ShmAcceptor::create(path, admission).value());
    for (Consumer* at : {&a, &b}) {
      fabric::LinkEndpointConfig config;
      config.link = small_switch().link;
      config.link.guid = Guid(at == &a ? 0x1001 : 0x1002);
      config.endpoint = "shm:" + path;
      EXPECT_TRUE(at->device.add_link(config).ok());
      at->open();
    }
  }
  bool join() {
    hca::PortState state[2];
    for (int i = 0; i < 2000 && !(state[0].up && state[1].up); ++i) {
      clock.advance(1ms);
      acceptor->poll(clock.now());
      core.poll(clock.now());
      static_cast<void>(a.device.help(true));
      static_cast<void>(b.device.help(true));
      static_cast<void>(a.device.query_port(1, state[0]));
      static_cast<void>(b.device.query_port(1, state[1]));
    }
    if (!state[0].up || !state[1].up) return false;
    qps = {a.make_qp(), b.make_qp()};
    return bring_up(*qps[0], qps[1]->number(), Lid(2)) == Answer::kOk &&
           bring_up(*qps[1], qps[0]->number(), Lid(1)) == Answer::kOk;
  }
  bool transfer(uint64_t count) {
    uint64_t posted = 0;
    uint64_t done = 0;
    for (uint64_t turns = 0; done < count && turns < 100 * count; ++turns) {
      for (; posted < count && posted < done + 32; ++posted) {
        if (b.recv(*qps[1], posted) != Answer::kOk || a.send(*qps[0], posted) != Answer::kOk) return false;
      }
      clock.advance(Duration(1));
      core.poll(clock.now());
      std::array<adapter::WorkCompletion, 16> got;
      static_cast<void>(a.cq->poll(got));
      const int arrived = b.cq->poll(got);
      for (int i = 0; i < arrived; ++i) {
        if (got[static_cast<size_t>(i)].status != adapter::WcStatus::kSuccess) return false;
      }
      done += static_cast<uint64_t>(arrived);
    }
    return done == count;
  }

  ManualClock clock;
  fabric::Switch core;
  fabric::Admission admission;
  std::unique_ptr<fabric::ShmAcceptor> acceptor;
  Consumer a{1, clock};
  Consumer b{2, clock};
  std::array<hca::Qp*, 2> qps{};
};

TEST(ConsumerBypass, ten_thousand_posts_and_polls_enter_no_kernel_and_take_no_memory) {
#if defined(WEFT_DEEP_CHECKS)  // the sanitizer builds set it
  GTEST_SKIP() << "a sanitizer's runtime enters the kernel by itself; the release build runs it";
#endif
  const TempDir dir;
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    // Made here: a child has no devices of its parent.
    ShmDevices world(dir.path() + "/s");
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
