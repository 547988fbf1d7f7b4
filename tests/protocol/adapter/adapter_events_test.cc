// Asynchronous events of an adapter whose owner does not take them.
#include <gtest/gtest.h>

#include "adapter/limits.h"
#include "tests/support/adapter_pair.h"

namespace weft::test {
using namespace adapter;
namespace {

TEST(AdapterEvents, those_nobody_takes_are_bounded_and_their_loss_is_counted) {
  AdapterPair pair;
  for (int i = 0; i < 1400; ++i) {
    pair.pipe.set_up(i % 2 != 0);
    pair.run(1);
  }
  EXPECT_GT(pair.side(0).adapter->counters().get(AdapterCounter::kEventsLost), 0U);
  uint64_t taken = 0;
  AsyncEvent event;
  while (pair.side(0).adapter->next_event(event)) ++taken;
  EXPECT_EQ(taken, kAsyncEventsMax);
}

std::vector<AsyncEvent> events_of(PairSide& side) {
  std::vector<AsyncEvent> out;
  for (AsyncEvent event; side.adapter->next_event(event);) out.push_back(event);
  return out;
}

void come_back(AdapterPair& pair, Lid lid) {
  pair.pipe.set_up(false);
  pair.run(1);
  pair.pipe.set_lid(0, lid);
  static_cast<void>(events_of(pair.side(0)));
  pair.pipe.set_up(true);
  pair.run(1);
}

/// As InfiniBand has it: the event tells, and nobody moves a connection. Peers send to the old LID and take
/// nothing from the new one, so connections of both sides fail when their retries are used up.
TEST(AdapterEvents, another_lid_is_told_and_connections_fail_by_their_retries) {
  AdapterPair pair;
  const auto qps = pair.connect({});
  pair.run(2);
  come_back(pair, Lid(9));
  const std::vector<AsyncEvent> events = events_of(pair.side(0));
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0].kind, AsyncEventKind::kLidChange);
  EXPECT_EQ(events[0].port, 1);
  EXPECT_EQ(events[1].kind, AsyncEventKind::kPortUp);
  for (int i = 0; i < 2; ++i) {
    const auto index = static_cast<size_t>(i);
    const Sge sge = pair.side(i).sge(0, 64);
    ASSERT_EQ(pair.post_recv(i, *qps[index], 1, {pair.side(i).sge(4096, 64)}), PostResult::kOk);
    ASSERT_EQ(pair.side(i).adapter->post_send(*qps[index], {.wr_id = 2, .sges = {&sge, 1}}), PostResult::kOk);
  }
  pair.run(10, std::chrono::milliseconds(1));
  EXPECT_TRUE(pair.side(0).completions.empty()) << "not at once: SQD could still mend the path";
  pair.run(3000, std::chrono::milliseconds(2));
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(pair.side(i).completions.size(), 2U);
    EXPECT_EQ(pair.side(i).completions[0].wr_id, 2U);
    EXPECT_EQ(pair.side(i).completions[0].status, WcStatus::kRetryExceeded);
    EXPECT_EQ(pair.side(i).completions[1].status, WcStatus::kFlushed);
  }
}

TEST(AdapterEvents, connections_go_on_with_the_same_lid) {
  AdapterPair pair;
  const auto qps = pair.connect({});
  pair.run(2);
  come_back(pair, Lid(1));
  const std::vector<AsyncEvent> events = events_of(pair.side(0));
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].kind, AsyncEventKind::kPortUp);
  const Sge sge = pair.side(0).sge(0, 64);
  ASSERT_EQ(pair.post_recv(1, *qps[1], 1, {pair.side(1).sge(4096, 64)}), PostResult::kOk);
  ASSERT_EQ(pair.side(0).adapter->post_send(*qps[0], {.wr_id = 2, .sges = {&sge, 1}}), PostResult::kOk);
  pair.run(20);
  ASSERT_EQ(pair.side(0).completions.size(), 1U);
  EXPECT_EQ(pair.side(0).completions[0].status, WcStatus::kSuccess);
}

TEST(AdapterEvents, datagrams_leave_with_the_new_lid) {
  AdapterPair pair;
  const QpConfig config{.type = QpType::kUd};
  const std::array<QueuePair*, 2> qps{pair.make_qp(0, config), pair.make_qp(1, config)};
  for (int i = 0; i < 2; ++i)
    pair.bring_up(i, *qps[static_cast<size_t>(i)], config, Qpn(0), Lid(0), Psn(1), Psn(1));
  pair.run(2);
  come_back(pair, Lid(9));
  const Sge sge = pair.side(0).sge(0, 64);
  ASSERT_EQ(pair.post_recv(1, *qps[1], 1, {pair.side(1).sge(4096, 256)}), PostResult::kOk);
  ASSERT_EQ(
      pair.side(0).adapter->post_send(
          *qps[0],
          {.wr_id = 2,
           .sges = {&sge, 1},
           .dest = {.lid = Lid(2), .qpn = pair.side(1).adapter->qpn(*qps[1]), .qkey = AdapterPair::kQkey}}),
      PostResult::kOk);
  pair.run(20);
  ASSERT_EQ(pair.side(1).completions.size(), 1U);
  EXPECT_EQ(pair.side(1).completions[0].src_lid, Lid(9));
}

}  // namespace
}  // namespace weft::test
