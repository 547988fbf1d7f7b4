// What the helper thread hears while it sleeps: it may have begun to when callers drove, and then one of them
// waits in the kernel.
#include <gtest/gtest.h>
#include <poll.h>

#include <vector>

#include "hca/progress_policy.h"
#include "tests/support/linked_devices.h"
#include "tests/support/temp_dir.h"

namespace weft::test {
using adapter::WcStatus;
using hca::Answer;
using hca::DeviceCounter;
namespace {

/// The descriptors that the helper waits for, as it begins to.
std::vector<pollfd> waits_of(Consumer& side) {
  std::vector<pollfd> fds;
  side.device.wait_fds(fds);
  return fds;
}

class HelperSleep : public TwoDevices {
 protected:
  static void look(Consumer& side) {
    adapter::WorkCompletion none;
    EXPECT_EQ(side.cq->poll(std::span(&none, 0)), 0);
  }
  /// The helper looks, or drives until it has nothing to do, then waits.
  static void rest(Consumer& side) {
    while (side.device.help(false).until == Instant::min()) {
    }
    static_cast<void>(waits_of(side));
  }
};

TEST_F(HelperSleep, is_ended_by_a_caller_that_waits_if_it_is_deaf_to_arrivals) {
  static_cast<void>(connected());
  clock.advance(1ms);
  look(a());
  rest(a());
  const int before = a().helper.kicks;
  ASSERT_EQ(a().cq->arm(false), Answer::kOk);
  EXPECT_EQ(a().helper.kicks, before + 1) << "it waits for kicks alone";
  rest(a());
  ASSERT_EQ(a().cq->arm(false), Answer::kOk);
  EXPECT_EQ(a().helper.kicks, before + 1) << "it hears";
  rest(a());
  look(a());
  static_cast<void>(a().device.help(false));
  ASSERT_EQ(a().cq->arm(false), Answer::kOk);
  EXPECT_EQ(a().device.count(DeviceCounter::kHelperKicks), static_cast<uint64_t>(a().helper.kicks));
  EXPECT_EQ(a().helper.kicks, before + 2) << "it has looked, and what it waits for next is not told yet";
}

/// A QP in error completes what is posted at once. Only the thread that posts knows of it.
TEST_F(HelperSleep, does_not_keep_the_completion_of_a_posted_receive_back) {
  const auto [qa, qb] = connected();
  ASSERT_EQ(qa->modify({.state = adapter::QpState::kErr}, adapter::kQpAttrState), Answer::kOk);
  look(a());
  ASSERT_EQ(a().cq->arm(false), Answer::kOk);
  EXPECT_FALSE(readable(a().channel->fd()));
  ASSERT_EQ(a().recv(*qa, 1), Answer::kOk);
  EXPECT_TRUE(readable(a().channel->fd()));
}

/// Links of shared memory are always heard. The helper would look again after the packet is to be repeated.
TEST(HelperSleepBesideLinks, is_ended_by_a_caller_that_waits_if_something_is_due_before) {
  const TempDir dir;
  LinkedDevices world("shm:" + dir.path() + "/s");
  ASSERT_TRUE(world.join());
  ASSERT_TRUE(world.transfer(100));
  Consumer& a = world.a;
  EXPECT_EQ(a.send(*world.qps[0], 7), Answer::kOk);  // to a switch that stands still from now on
  world.clock.advance(hca::kCallerPause);
  Instant due = Instant::min();
  while (due <= world.clock.now()) due = a.device.help(false).until;
  ASSERT_GT(due - world.clock.now(), 500us) << "when the packet is repeated";
  world.clock.set(due - 500us);
  EXPECT_EQ(poll_both(a, world.b), 0);
  ASSERT_GT(a.device.help(false).until, due) << "a caller drives";
  const int before = a.helper.kicks;
  EXPECT_EQ(poll_both(a, world.b), 0);
  EXPECT_EQ(a.helper.kicks, before);
  ASSERT_EQ(a.cq->arm(false), Answer::kOk);
  EXPECT_EQ(a.helper.kicks, before + 1);
}

/// A message through a window ended the sleep of its receiver's helper only when the helper looked again,
/// after 2 ms.
TEST(HelperSleepBesideWindows, is_ended_by_a_message_to_a_caller_that_waits) {
  const TempDir dir;
  LinkedDevices world("shm:" + dir.path() + "/s", 0, dir.path());
  ASSERT_TRUE(world.join());
  Consumer& b = world.b;
  ASSERT_TRUE(post_one(world.a, b, world.qps, 6));
  int arrived = 0;
  for (int i = 0; i < 100 && arrived == 0; ++i) {  // the window is made meanwhile
    world.turn(1ms);
    arrived = poll_both(world.a, b);
  }
  ASSERT_EQ(arrived, 1);
  for (Duration polled{}; polled <= hca::kPollRun; polled += hca::kPollGap) {  // callers drive
    world.clock.advance(hca::kPollGap);
    ASSERT_EQ(poll_both(world.a, b), 0);
  }
  while (b.device.help(false).until <= world.clock.now()) {
  }
  const uint64_t looks = b.device.count(DeviceCounter::kHelperLooks);
  static_cast<void>(b.device.help(false));
  ASSERT_EQ(b.device.count(DeviceCounter::kHelperLooks), looks + 1);
  std::vector<pollfd> fds = waits_of(b);
  const auto ready = [&] { return ::poll(fds.data(), fds.size(), 0); };
  EXPECT_EQ(ready(), 0);
  ASSERT_EQ(b.cq->arm(false), Answer::kOk);
  EXPECT_EQ(ready(), 0);
  ASSERT_TRUE(post_one(world.a, b, world.qps, 7));
  EXPECT_GT(ready(), 0);
  EXPECT_GT(b.device.help(true).work, 0);
  EXPECT_EQ(ready(), 0) << "it has taken the wake-up";
  hca::Cq* told = nullptr;
  ASSERT_EQ(b.channel->get_event(told), Answer::kOk);
  b.cq->ack_events(1);
}

}  // namespace
}  // namespace weft::test
