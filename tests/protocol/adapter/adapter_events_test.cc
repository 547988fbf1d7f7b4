// Asynchronous events: each is raised once and waits in its object until the consumer takes it. None is lost,
// however many there are.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "adapter/limits.h"
#include "adapter/queues/qp_rules.h"
#include "adapter/queues/queue_pair.h"
#include "adapter/queues/shared_receives.h"
#include "base/pending_list.h"
#include "tests/support/adapter_pair.h"

namespace weft::test {
using namespace adapter;
namespace {

using namespace std::chrono_literals;

class WaitingEvents : public ::testing::Test {
 protected:
  ChannelAdapter& adapter(int index = 0) { return *pair.side(index).adapter; }
  std::vector<AsyncEventKind> take(int index = 0) {
    std::vector<AsyncEventKind> kinds;
    for (AsyncEvent event; adapter(index).next_event(event);) kinds.push_back(event.kind);
    return kinds;
  }
  void move_to(int index, QueuePair& qp, QpState state) {
    ASSERT_EQ(adapter(index).modify_qp(qp, {.state = state}, kQpAttrState), ModifyResult::kOk);
  }
  AdapterPair pair;
};

TEST(PendingList, keeps_one_of_each_kind_in_the_order_of_the_newest) {
  PendingNews a;
  PendingNews b;
  PendingList list;
  EXPECT_TRUE(list.add(a, 1));
  EXPECT_TRUE(list.add(b, 7));
  EXPECT_TRUE(list.add(a, 2));
  EXPECT_FALSE(list.add(a, 1)) << "it waits already, and becomes the newest";
  EXPECT_EQ(&list.front(), &a);
  EXPECT_EQ(list.take_first(), 2);
  EXPECT_EQ(&list.front(), &b) << "others have waited too";
  EXPECT_EQ(list.take_first(), 7);
  EXPECT_EQ(&list.front(), &a);
  EXPECT_TRUE(list.add(b, 3));
  EXPECT_EQ(list.drop(a), 1U);
  EXPECT_EQ(list.drop(a), 0U);
  EXPECT_EQ(&list.front(), &b);
  EXPECT_EQ(list.take_first(), 3);
  EXPECT_TRUE(list.empty());
}

TEST_F(WaitingEvents, of_thousands_of_qps_that_fail_at_once_none_is_lost) {
  constexpr size_t kQps = 3000;
  std::map<Qpn, int> fatal;
  for (size_t i = 0; i < kQps; ++i) {
    const QpConfig config{.send_wqes = 1, .recv_wqes = 1, .sges = 1};
    QueuePair* qp = pair.make_qp(0, config);
    pair.bring_up(0, *qp, config, Qpn(0x222), Lid(2), Psn(1), Psn(2));
    fatal[adapter().qpn(*qp)] = 0;
  }
  pair.pipe.set_up(false);
  pair.run(12, 1s);
  pair.run(kQps / 64 + 2);
  for (AsyncEvent event; adapter().next_event(event);) {
    if (event.kind != AsyncEventKind::kQpFatal) continue;
    EXPECT_EQ(event.status, WcStatus::kRetryExceeded);
    ++fatal[event.qpn];
  }
  EXPECT_EQ(fatal.size(), kQps);
  for (const auto& [qpn, count] : fatal) ASSERT_EQ(count, 1) << qpn.value();
}

/// Events that are not taken coalesce, and the last event states the current condition.
TEST_F(WaitingEvents, of_a_port_coalesce_and_the_last_one_states_its_condition) {
  take();
  for (int i = 0; i <= 40; ++i) {
    pair.pipe.set_up(i % 2 != 0);
    pair.run(1);
  }
  EXPECT_EQ(take(), (std::vector{AsyncEventKind::kPortUp, AsyncEventKind::kPortDown}));
  pair.pipe.set_up(true);
  pair.run(1);
  EXPECT_EQ(take(), std::vector{AsyncEventKind::kPortUp});
}

TEST_F(WaitingEvents, communication_is_established_by_the_first_packet_in_rtr_and_only_then) {
  for (const QpType type : {QpType::kRc, QpType::kUc}) {
    const QpConfig config{.type = type};
    for (const bool rts : {false, true}) {
      std::array<QueuePair*, 2> qps{pair.make_qp(0, config), pair.make_qp(1, config)};
      pair.bring_up(0, *qps[0], config, adapter(1).qpn(*qps[1]), Lid(2), Psn(1), Psn(2));
      QpAttr attr{.access = Access::kRemoteWrite,
                  .dlid = Lid(1),
                  .rq_psn = Psn(1),
                  .sq_psn = Psn(2),
                  .dest_qpn = adapter().qpn(*qps[0])};
      for (const auto& [from, to] : {std::pair{QpState::kReset, QpState::kInit},
                                     {QpState::kInit, QpState::kRtr},
                                     {QpState::kRtr, QpState::kRts}}) {
        if (to == QpState::kRts && !rts) continue;
        attr.state = to;
        ASSERT_EQ(adapter(1).modify_qp(*qps[1], attr, kQpAttrState | find_qp_rule(type, from, to)->required),
                  ModifyResult::kOk);
      }
      take(1);
      const Sge sge = pair.side(0).sge(0, 64);
      const auto send = [&] {
        ASSERT_EQ(pair.post_recv(1, *qps[1], 1, {pair.side(1).sge(0, 64)}), PostResult::kOk);
        ASSERT_EQ(adapter().post_send(*qps[0], {.wr_id = 1, .sges = {&sge, 1}}), PostResult::kOk);
        pair.run(20);
      };
      send();
      AsyncEvent event;
      EXPECT_EQ(adapter(1).next_event(event), !rts) << int{rts};
      if (rts) continue;
      EXPECT_EQ(event.kind, AsyncEventKind::kCommEstablished);
      EXPECT_EQ(event.qpn, adapter(1).qpn(*qps[1]));
      send();
      EXPECT_FALSE(adapter(1).next_event(event)) << "once";
    }
  }
}

TEST_F(WaitingEvents, of_a_drained_send_queue_comes_when_it_was_asked_for) {
  const auto qps = pair.connect({});
  for (const bool wanted : {false, true}) {
    take();
    ASSERT_EQ(adapter().modify_qp(*qps[0], {.state = QpState::kSqd, .sqd_notify = wanted},
                                  kQpAttrState | kQpAttrSqdNotify),
              ModifyResult::kOk);
    pair.run(5);
    EXPECT_EQ(take().size(), wanted ? 1U : 0U);
    move_to(0, *qps[0], QpState::kRts);
    ASSERT_EQ(adapter().modify_qp(*qps[0], {.state = QpState::kSqd}, kQpAttrState), ModifyResult::kOk);
    pair.run(5);
    EXPECT_TRUE(take().empty()) << "the wish holds for one drain";
    move_to(0, *qps[0], QpState::kRts);
  }
}

TEST_F(WaitingEvents, of_a_drained_send_queue_does_not_come_if_the_mask_leaves_the_wish_out) {
  const auto qps = pair.connect({});
  take();
  ASSERT_EQ(adapter().modify_qp(*qps[0], {.state = QpState::kSqd, .sqd_notify = true}, kQpAttrState),
            ModifyResult::kOk);
  pair.run(5);
  EXPECT_TRUE(take().empty());
}

TEST_F(WaitingEvents, of_an_object_that_ends_go_with_it) {
  const auto qps = pair.connect({});
  SharedReceiveQueue* srq = adapter().srqs().create({.pd = pair.side(0).pd, .wqes = 4}).value();
  ASSERT_TRUE(adapter().srqs().modify(*srq, {.limit = 2}, kSrqLimit).ok());
  ASSERT_EQ(adapter().modify_qp(*qps[0], {.state = QpState::kSqd, .sqd_notify = true},
                                kQpAttrState | kQpAttrSqdNotify),
            ModifyResult::kOk);
  CompletionQueue* small = adapter().cqs().create(2).value();
  const QpConfig config{.send_cq = small};
  QueuePair* loser = pair.make_qp(0, config);
  pair.bring_up(0, *loser, config, Qpn(0x222222), Lid(2), Psn(1), Psn(2));
  const Sge sge = pair.side(0).sge(0, 64);
  for (uint64_t i = 0; i < 8; ++i)
    ASSERT_EQ(adapter().post_send(*loser, {.wr_id = i, .sges = {&sge, 1}}), PostResult::kOk);
  move_to(0, *loser, QpState::kErr);
  pair.run(5);
  ASSERT_TRUE(adapter().destroy_qp(qps[0]).ok());
  ASSERT_TRUE(adapter().destroy_qp(loser).ok());
  ASSERT_TRUE(adapter().cqs().destroy(small).ok());
  ASSERT_TRUE(adapter().srqs().destroy(srq).ok());
  EXPECT_EQ(take(), std::vector{AsyncEventKind::kPortUp});
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

/// As in InfiniBand, a changed LID raises an event and moves no connection. Peers send to the old LID and
/// accept
/// nothing from the new one, so connections on both sides fail when their retries are used up.
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

/// Connections over a port fail when it has been down for `kPortDownLimit`; the next ones must, too.
TEST(AdapterEvents, a_port_expires_each_time_that_it_stays_down) {
  AdapterPair pair;
  pair.run(2);
  for (int life = 0; life < 2; ++life) {
    static_cast<void>(events_of(pair.side(0)));
    const auto qps = pair.connect({});
    pair.pipe.set_up(false);
    pair.run(12, 1s);
    const std::vector<AsyncEvent> events = events_of(pair.side(0));
    EXPECT_EQ(
        std::count_if(events.begin(), events.end(),
                      [](const AsyncEvent& event) { return event.kind == AsyncEventKind::kPortExpired; }),
        1)
        << "life " << life;
    EXPECT_EQ(pair.side(0).adapter->query_qp(*qps[0]).state, QpState::kErr);
    pair.pipe.set_up(true);
    pair.run(1);
  }
}

/// The report names the request; the queue pair, which ends with it, has none of its own.
TEST(AdapterEvents, a_request_that_its_port_took_along_is_reported_once) {
  AdapterPair pair;
  const auto qps = pair.connect({});
  pair.run(2);
  pair.pipe.set_filter([](int, std::vector<std::byte>&) { return Verdict::kDrop; });
  const Sge sge = pair.side(0).sge(0, 64);
  ASSERT_EQ(pair.side(0).adapter->post_send(*qps[0], {.wr_id = 7, .sges = {&sge, 1}}), PostResult::kOk);
  pair.run(1);
  pair.pipe.set_up(false);
  pair.run(30, 1s);
  Failure failure;
  ASSERT_TRUE(pair.side(0).adapter->next_failure(failure));
  EXPECT_EQ(failure.reason, Reason::kPortDown);
  EXPECT_TRUE(failure.completes_wr);
  EXPECT_EQ(failure.wr_id, 7U);
  EXPECT_FALSE(pair.side(0).adapter->next_failure(failure));
}

/// A responder that sends nothing itself stays in RTR. It answers more reads than the cells of one turn.
TEST(AdapterEvents, a_responder_in_rtr_goes_on_with_its_answers_when_its_port_comes_up) {
  AdapterPair pair;
  const QpConfig config;
  QueuePair* asks = pair.make_qp(0, config);
  QueuePair* answers = pair.make_qp(1, config);
  QpAttr attr{.state = QpState::kInit,
              .access = Access::kRemoteRead,
              .dlid = Lid(1),
              .rq_psn = Psn(100),
              .dest_qpn = pair.side(0).adapter->qpn(*asks)};
  pair.bring_up(0, *asks, config, pair.side(1).adapter->qpn(*answers), Lid(2), Psn(100), Psn(5));
  for (QpState from = QpState::kReset; from != QpState::kRtr; from = attr.state) {
    attr.state = from == QpState::kReset ? QpState::kInit : QpState::kRtr;
    const uint32_t mask = kQpAttrState | find_qp_rule(config.type, from, attr.state)->required;
    ASSERT_EQ(pair.side(1).adapter->modify_qp(*answers, attr, mask), ModifyResult::kOk);
  }
  constexpr uint32_t kBytes = 2 * kCellsPerQpTurn * 256;
  pair.side(1).fill(0, kBytes, 7);
  const Sge to = pair.side(0).sge(kBytes, kBytes);
  ASSERT_EQ(pair.side(0).adapter->post_send(*asks, {.opcode = SendOpcode::kRdmaRead,
                                                    .sges = {&to, 1},
                                                    .remote_addr = pair.side(1).region.addr,
                                                    .rkey = pair.side(1).region.rkey}),
            PostResult::kOk);
  pair.run(1, Duration{});
  ASSERT_FALSE(pair.pipe.sent_by(1).empty());
  ASSERT_TRUE(answers->answers);
  pair.pipe.set_up(false);
  pair.run(2, Duration{});
  pair.pipe.set_up(true);
  for (int turns = 0; turns < 10; ++turns) pair.run_one(1);  // by itself: the requester repeats nothing yet
  EXPECT_FALSE(answers->answers);
  pair.run(10);
  ASSERT_EQ(pair.side(0).completions.size(), 1U);
  EXPECT_EQ(pair.side(0).completions[0].status, WcStatus::kSuccess);
  EXPECT_EQ(pair.side(0).bytes_at(kBytes, kBytes), pair.side(1).bytes_at(0, kBytes));
}

/// Its requests end, too: with the next expiry, which is a whole kPortDownLimit later.
TEST(AdapterEvents, a_connection_made_over_an_expired_port_fails_in_its_turn) {
  AdapterPair pair;
  pair.run(2);
  pair.pipe.set_up(false);
  pair.run(12, 1s);
  static_cast<void>(events_of(pair.side(0)));
  const auto qps = pair.connect({});
  const Sge sge = pair.side(0).sge(0, 64);
  ASSERT_EQ(pair.side(0).adapter->post_send(*qps[0], {.wr_id = 3, .sges = {&sge, 1}}), PostResult::kOk);
  pair.run(9, 1s);
  EXPECT_TRUE(pair.side(0).completions.empty());
  EXPECT_LE(pair.side(0).adapter->deadline(), pair.clock.now() + kPortDownLimit);
  pair.run(3, 1s);
  ASSERT_EQ(pair.side(0).completions.size(), 1U);
  EXPECT_EQ(pair.side(0).completions[0].status, WcStatus::kFlushed);
  EXPECT_EQ(pair.side(0).adapter->query_qp(*qps[0]).state, QpState::kErr);
  EXPECT_EQ(pair.side(0).adapter->deadline(), kNever);
}

/// The expiry is told to 64 QPs in a turn, and programs connect again as soon as they hear of it.
TEST(AdapterEvents, a_connection_made_while_a_port_expires_leaves_all_others_their_end) {
  AdapterPair pair;
  std::vector<QueuePair*> before;
  for (int i = 0; i < 200; ++i) before.push_back(pair.connect({})[0]);
  const auto failed = [&] {
    return std::count_if(before.begin(), before.end(), [&](QueuePair* qp) {
      return pair.side(0).adapter->query_qp(*qp).state == QpState::kErr;
    });
  };
  pair.run(2);
  pair.pipe.set_up(false);
  for (int second = 0; second < 12 && failed() == 0; ++second) pair.run(1, 1s);
  ASSERT_GT(failed(), 0);
  ASSERT_LT(failed(), 200);
  const auto qps = pair.connect({});
  pair.run(6, 1ms);
  EXPECT_EQ(failed(), 200);
  EXPECT_EQ(pair.side(0).adapter->query_qp(*qps[0]).state, QpState::kRts);
  pair.run(12, 1s);
  EXPECT_EQ(pair.side(0).adapter->query_qp(*qps[0]).state, QpState::kErr);
}

/// Inside a subnet endnodes are addressed by LID: connections survive a new GUID, but not a new subnet.
TEST(AdapterEvents, another_gid_is_told) {
  for (const bool other_subnet : {false, true}) {
    AdapterPair pair;
    const auto qps = pair.connect({});
    pair.run(2);
    static_cast<void>(events_of(pair.side(0)));
    pair.pipe.set_up(false);
    pair.run(1);
    if (other_subnet)
      pair.pipe.set_subnet(0, SubnetId(7));
    else
      pair.pipe.set_guid(0, Guid(0x77));
    pair.pipe.set_up(true);
    pair.run(1);
    const std::vector<AsyncEvent> events = events_of(pair.side(0));
    ASSERT_EQ(events.size(), 3U);
    EXPECT_EQ(events[0].kind, AsyncEventKind::kPortDown);
    EXPECT_EQ(events[1].kind, AsyncEventKind::kGidChange);
    EXPECT_EQ(events[1].port, 1);
    EXPECT_EQ(events[2].kind, AsyncEventKind::kPortUp);
    const Sge sge = pair.side(0).sge(0, 64);
    ASSERT_EQ(pair.post_recv(1, *qps[1], 1, {pair.side(1).sge(4096, 64)}), PostResult::kOk);
    ASSERT_EQ(pair.side(0).adapter->post_send(*qps[0], {.wr_id = 2, .sges = {&sge, 1}}), PostResult::kOk);
    pair.run(20);
    EXPECT_EQ(pair.side(0).completions.size(), other_subnet ? 0U : 1U);
    EXPECT_EQ(pair.side(1).completions.size(), other_subnet ? 0U : 1U);
  }
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
