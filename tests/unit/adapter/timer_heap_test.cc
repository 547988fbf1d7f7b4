// Timers of QPs, against a plain table of what each wants.
#include "adapter/timer_heap.h"

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <memory>
#include <vector>

#include "adapter/queues/queue_pair.h"
#include "adapter/transport/unreliable/unreliable_service.h"
#include "base/rng.h"

namespace weft::test {
using namespace adapter;
namespace {

using namespace std::chrono_literals;

class TimerHeapTest : public ::testing::Test {
 protected:
  QueuePair& make() {
    const QpConfig config{.type = QpType::kUd, .send_wqes = 1, .recv_wqes = 1, .sges = 1};
    qps.push_back(std::make_unique<QueuePair>(config, kUdRow, nullptr, 0));
    timers.enter(*qps.back());
    return *qps.back();
  }
  static Instant at(Duration after) { return Instant{} + after; }
  TimerHeap timers;
  std::vector<std::unique_ptr<QueuePair>> qps;
};

TEST_F(TimerHeapTest, comes_up_by_its_earliest_time) {
  QueuePair& first = make();
  QueuePair& second = make();
  timers.arm(first, at(20ms));
  timers.arm(second, at(30ms));  // behind it in the line
  timers.arm(second, at(10ms));  // sooner than it stands there
  timers.arm(second, at(40ms));  // later than it stands anywhere: it stays
  EXPECT_EQ(timers.earliest(), at(10ms));
  EXPECT_EQ(timers.pop_due(at(9ms)), nullptr);
  EXPECT_EQ(timers.pop_due(at(10ms)), &second);
  EXPECT_EQ(timers.pop_due(at(19ms)), nullptr);
  EXPECT_EQ(timers.pop_due(at(20ms)), &first);
  EXPECT_EQ(timers.pop_due(at(50ms)), nullptr) << "nobody has armed it since it came up";
  EXPECT_EQ(timers.earliest(), kNever);
}

TEST_F(TimerHeapTest, at_rest_does_not_come_up_and_wakes_nobody) {
  QueuePair& first = make();
  QueuePair& second = make();
  timers.arm(first, at(10ms));
  timers.arm(second, at(20ms));
  timers.rest(first);
  timers.drop_resting();
  EXPECT_EQ(timers.earliest(), at(20ms));
  timers.rest(second);
  timers.arm(second, at(25ms));  // wanted again: where it stands is early enough
  timers.drop_resting();
  EXPECT_EQ(timers.earliest(), at(20ms));
  EXPECT_EQ(timers.pop_due(at(20ms)), &second);
  timers.arm(first, at(30ms));
  timers.rest(first);
  EXPECT_EQ(timers.pop_due(at(1s)), nullptr);
  EXPECT_EQ(timers.earliest(), kNever);
}

/// A QP that ends leaves nothing that could come up; who gets its timer is told at the right time.
TEST_F(TimerHeapTest, of_a_qp_that_has_ended_is_nobodys) {
  QueuePair& ends = make();
  timers.arm(ends, at(10ms));
  timers.leave(ends);
  QueuePair& next = make();
  EXPECT_EQ(next.timer, ends.timer);
  EXPECT_EQ(timers.pop_due(at(15ms)), nullptr);
  timers.arm(next, at(20ms));
  EXPECT_EQ(timers.pop_due(at(20ms)), &next);
}

/// A time before that of the newest timer in the line is kept in the heap, which the QP leaves when it ends.
TEST_F(TimerHeapTest, of_a_qp_that_has_ended_is_not_kept_in_the_heap) {
  timers.arm(make(), at(30ms));
  QueuePair& ends = make();
  timers.arm(ends, at(10ms));
  timers.leave(ends);
  EXPECT_EQ(timers.earliest(), at(30ms));
  QueuePair& next = make();
  ASSERT_EQ(next.timer, ends.timer);
  timers.arm(next, at(20ms));
  EXPECT_EQ(timers.earliest(), at(20ms));
  EXPECT_EQ(timers.pop_due(at(20ms)), &next);
}

/// The entry that fills a place of the heap comes from another branch, and may be due before those above it.
TEST_F(TimerHeapTest, in_the_place_of_one_that_has_ended_is_not_late) {
  timers.arm(make(), at(100ms));  // the line's; those before it are kept in the heap
  QueuePair* ends = nullptr;
  for (const int64_t due : {1, 20, 2, 21, 22, 3, 4, 23, 24, 25, 26, 5, 6, 7, 8}) {  // 21 stands below 20
    QueuePair& qp = make();
    if (due == 21) ends = &qp;
    timers.arm(qp, at(std::chrono::milliseconds(due)));
  }
  timers.leave(*ends);
  for (int64_t due = 1; due <= 8; ++due)
    EXPECT_NE(timers.pop_due(at(std::chrono::milliseconds(due))), nullptr) << due << " ms";
  EXPECT_EQ(timers.earliest(), at(20ms));
}

TEST_F(TimerHeapTest, of_many_come_up_when_they_are_wanted_and_never_late) {
  constexpr size_t kQps = 300;
  SeededRandom random(7);
  std::map<const QueuePair*, Instant> wanted;
  for (size_t i = 0; i < kQps; ++i) make();
  Instant now = at(0ms);
  uint64_t fired = 0;
  for (int step = 0; step < 20'000; ++step) {
    QueuePair& qp = *qps[random.next() % kQps];
    const uint64_t act = random.next() % 8;
    if (act == 0) {
      timers.rest(qp);
      wanted.erase(&qp);
    } else {  // mostly at one distance, as retransmission is
      const Instant due =
          now + (act < 6 ? Duration(10ms) : Duration(std::chrono::microseconds(random.next() % 9000)));
      const auto [entry, fresh] = wanted.emplace(&qp, due);
      if (!fresh) entry->second = std::min(entry->second, due);
      timers.arm(qp, due);
    }
    now += 3us;
    while (const QueuePair* up = timers.pop_due(now)) {
      ASSERT_TRUE(wanted.contains(up)) << "at rest";
      wanted.erase(up);  // it may have come early: whoever is asked then arms it anew
      ++fired;
    }
    for (const auto& [waiting, due] : wanted) ASSERT_GT(due, now) << "late";
  }
  EXPECT_GT(fired, 1000U);
}

}  // namespace
}  // namespace weft::test
