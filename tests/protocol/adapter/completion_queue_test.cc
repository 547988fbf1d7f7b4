// Completion queues from their owner's side: size, notification, and the entries of a queue pair that has
// ended.
#include <array>
#include <chrono>
#include <utility>
#include <vector>

#include "tests/support/adapter_pair.h"

namespace weft::test {
using namespace adapter;
namespace {

class CompletionQueues : public ::testing::Test {
 protected:
  explicit CompletionQueues(const AdapterLimits& limits = {}) : pair(256, limits) {}
  ChannelAdapter& adapter() { return *pair.side(0).adapter; }
  /// @return a QP of side 0 that completes on `cq`, connected to one of side 1 with `receives` posted
  QueuePair* connect(CompletionQueue* cq, uint64_t receives, QueuePair** other = nullptr) {
    const QpConfig config{.send_cq = cq, .recv_cq = cq};
    QueuePair* qp = pair.make_qp(0, config);
    QueuePair* peer = pair.make_qp(1, {});
    if (other != nullptr) *other = peer;
    pair.bring_up(0, *qp, config, pair.side(1).adapter->qpn(*peer), Lid(2), Psn(1), Psn(2));
    pair.bring_up(1, *peer, {}, adapter().qpn(*qp), Lid(1), Psn(2), Psn(1));
    for (uint64_t i = 0; i < receives; ++i)
      EXPECT_EQ(pair.post_recv(1, *peer, i, {pair.side(1).sge(0, 64)}), PostResult::kOk);
    return qp;
  }
  void send(QueuePair& qp, uint64_t wr_id) {
    const Sge sge = pair.side(0).sge(0, 64);
    ASSERT_EQ(adapter().post_send(qp, {.wr_id = wr_id, .sges = {&sge, 1}}), PostResult::kOk);
  }
  /// @return the wr_ids of all entries in `cq`, oldest first
  std::vector<uint64_t> drain(CompletionQueue& cq) {
    std::array<WorkCompletion, 16> got;
    std::vector<uint64_t> ids;
    while (const uint32_t count = adapter().cqs().poll(cq, got)) {
      for (uint32_t i = 0; i < count; ++i) ids.push_back(got[i].wr_id);
    }
    return ids;
  }
  using Ids = std::vector<uint64_t>;

  AdapterPair pair;
};

TEST_F(CompletionQueues, resizing_keeps_the_entries_or_is_refused) {
  CompletionQueue* cq = adapter().cqs().create(4).value();
  QueuePair* qp = connect(cq, 12);
  for (uint64_t i = 0; i < 3; ++i) send(*qp, i);
  pair.run(20);
  ASSERT_EQ(adapter().cqs().query(*cq).fill, 3U);
  for (const uint32_t cqes : {0U, 2U, adapter().limits().cqes_per_queue + 1}) {
    EXPECT_FALSE(adapter().cqs().resize(*cq, cqes)) << cqes;
    EXPECT_EQ(adapter().cqs().query(*cq).depth, 4U);
  }
  EXPECT_FALSE(pair.side(1).adapter->cqs().resize(*cq, 8));
  ASSERT_TRUE(adapter().cqs().resize(*cq, 8));
  EXPECT_EQ(adapter().cqs().query(*cq).depth, 8U);
  for (uint64_t i = 3; i < 8; ++i) send(*qp, i);
  pair.run(20);
  EXPECT_FALSE(adapter().cqs().query(*cq).overrun);
  EXPECT_EQ(drain(*cq), (Ids{0, 1, 2, 3, 4, 5, 6, 7}));
  // An empty queue can be made smaller; then fewer entries fill it.
  ASSERT_TRUE(adapter().cqs().resize(*cq, 2));
  for (uint64_t i = 8; i < 11; ++i) send(*qp, i);
  pair.run(20);
  EXPECT_TRUE(adapter().cqs().query(*cq).overrun);
}

TEST_F(CompletionQueues, the_smallest_size_is_that_of_what_waits) {
  CompletionQueue* cq = adapter().cqs().create(16).value();
  QueuePair* qp = connect(cq, 12);
  for (uint64_t i = 0; i < 4; ++i) send(*qp, i);
  pair.run(20);
  ASSERT_EQ(adapter().cqs().query(*cq).fill, 4U);
  ASSERT_TRUE(adapter().cqs().resize(*cq, 4));
  EXPECT_EQ(adapter().cqs().query(*cq).depth, 4U);
  EXPECT_EQ(drain(*cq), (Ids{0, 1, 2, 3}));
  ASSERT_TRUE(adapter().cqs().resize(*cq, adapter().limits().cqes_per_queue)) << "the largest";
}

TEST_F(CompletionQueues, what_cannot_be_made_or_destroyed_is_refused) {
  EXPECT_FALSE(adapter().cqs().create(0));
  EXPECT_FALSE(adapter().cqs().create(adapter().limits().cqes_per_queue + 1));
  EXPECT_FALSE(adapter().cqs().create(8, adapter().limits().completion_vectors));
  CompletionQueue* cq = adapter().cqs().create(8, adapter().limits().completion_vectors - 1).value();
  QueuePair* qp = connect(cq, 0);
  EXPECT_FALSE(adapter().cqs().destroy(cq));
  ASSERT_TRUE(adapter().destroy_qp(qp));
  EXPECT_FALSE(pair.side(1).adapter->cqs().destroy(cq));
  EXPECT_TRUE(adapter().cqs().destroy(cq));
}

TEST_F(CompletionQueues, entries_of_a_queue_pair_that_is_reset_or_destroyed_go_with_it) {
  CompletionQueue* cq = adapter().cqs().create(16).value();
  for (const bool destroyed : {false, true}) {
    QueuePair* a = connect(cq, 8);
    QueuePair* b = connect(cq, 8);
    for (uint64_t i = 0; i < 6; ++i) {
      send(i % 2 == 0 ? *a : *b, i);
      pair.run(5);
    }
    ASSERT_EQ(adapter().cqs().query(*cq).fill, 6U);
    if (destroyed) {
      ASSERT_TRUE(adapter().destroy_qp(a));
    } else {
      ASSERT_EQ(adapter().modify_qp(*a, {.state = QpState::kReset}, kQpAttrState), ModifyResult::kOk);
    }
    EXPECT_EQ(drain(*cq), (Ids{1, 3, 5})) << destroyed;
  }
}

TEST_F(CompletionQueues, entries_of_a_queue_pair_in_error_stay) {
  CompletionQueue* cq = adapter().cqs().create(16).value();
  QueuePair* qp = connect(cq, 1);
  send(*qp, 1);
  pair.run(5);
  const Sge sge = pair.side(0).sge(0, 64);
  ASSERT_EQ(pair.post_recv(0, *qp, 2, {sge}), PostResult::kOk);
  ASSERT_EQ(adapter().modify_qp(*qp, {.state = QpState::kErr}, kQpAttrState), ModifyResult::kOk);
  EXPECT_EQ(drain(*cq), (Ids{1, 2}));
}

TEST_F(CompletionQueues, arming_for_any_entry_outlasts_arming_for_solicited_ones) {
  CompletionQueue* cq = adapter().cqs().create(16).value();
  QueuePair* qp = connect(cq, 8);
  const auto notified_by_plain_entry = [&] {
    send(*qp, 1);
    pair.run(5);
    const bool told = adapter().cqs().take_notification(*cq);
    EXPECT_EQ(drain(*cq), Ids{1});
    return told;
  };
  adapter().cqs().arm(*cq, CqNotify::kNext);
  adapter().cqs().arm(*cq, CqNotify::kSolicited);
  EXPECT_TRUE(notified_by_plain_entry());
  adapter().cqs().arm(*cq, CqNotify::kSolicited);
  EXPECT_FALSE(notified_by_plain_entry());
  adapter().cqs().arm(*cq, CqNotify::kNext);
  EXPECT_TRUE(notified_by_plain_entry());
  EXPECT_FALSE(notified_by_plain_entry());  // one notification per arming
  adapter().cqs().arm(*cq, CqNotify::kNext);
  adapter().cqs().arm(*cq, CqNotify::kOff);
  EXPECT_FALSE(notified_by_plain_entry());
}

/// A program polls until the queue is empty, arms it and waits. What came in between must not be lost on it.
TEST_F(CompletionQueues, what_waits_and_was_not_told_is_told_by_the_next_arming) {
  CompletionQueue* cq = adapter().cqs().create(16).value();
  QueuePair* qp = connect(cq, 8);
  const auto told = [&](CqNotify when) {
    adapter().cqs().arm(*cq, when);
    return adapter().cqs().take_notification(*cq);
  };
  const auto arrives = [&](uint64_t wr_id) {
    send(*qp, wr_id);
    pair.run(5);
  };
  arrives(1);
  EXPECT_FALSE(told(CqNotify::kSolicited)) << "a plain entry";
  EXPECT_TRUE(told(CqNotify::kNext));
  EXPECT_FALSE(told(CqNotify::kNext)) << "told once";
  arrives(2);
  EXPECT_TRUE(adapter().cqs().take_notification(*cq));
  arrives(3);
  EXPECT_TRUE(told(CqNotify::kNext)) << "the queue was not armed when it came";
  const Sge sge = pair.side(0).sge(0, 64);
  ASSERT_EQ(pair.post_recv(0, *qp, 4, {sge}), PostResult::kOk);
  ASSERT_EQ(adapter().modify_qp(*qp, {.state = QpState::kErr}, kQpAttrState), ModifyResult::kOk);
  pair.run(5);
  EXPECT_TRUE(told(CqNotify::kSolicited)) << "a failed entry counts as solicited";
  EXPECT_EQ(drain(*cq), (Ids{1, 2, 3, 4}));
  EXPECT_FALSE(told(CqNotify::kNext)) << "nothing waits";
}

TEST_F(CompletionQueues, those_that_were_notified_stand_in_a_list) {
  std::array<CompletionQueue*, 4> cqs{};
  std::array<QueuePair*, 4> qps{};
  for (size_t i = 0; i < cqs.size(); ++i) {
    cqs[i] = adapter().cqs().create(16).value();
    qps[i] = connect(cqs[i], 8);
  }
  EXPECT_EQ(adapter().cqs().next_notified(), nullptr);
  for (const size_t i : {3U, 0U, 2U}) adapter().cqs().arm(*cqs[i], CqNotify::kNext);
  for (const size_t i : {2U, 1U, 0U, 3U}) {
    for (uint64_t n = 0; n < 2; ++n) send(*qps[i], n);
    pair.run(5);
  }
  // Taken from the queue itself, so the list does not report it.
  EXPECT_TRUE(adapter().cqs().take_notification(*cqs[0]));
  EXPECT_EQ(adapter().cqs().next_notified(), cqs[2]);
  EXPECT_FALSE(adapter().cqs().take_notification(*cqs[2]));
  EXPECT_EQ(adapter().cqs().next_notified(), cqs[3]);
  EXPECT_EQ(adapter().cqs().next_notified(), nullptr);
  // Armed again before its place in the list was read: it is listed once.
  for (int round = 0; round < 2; ++round) {
    adapter().cqs().arm(*cqs[1], CqNotify::kNext);
    send(*qps[1], 9);
    pair.run(5);
    EXPECT_TRUE(round == 1 || adapter().cqs().take_notification(*cqs[1]));
  }
  EXPECT_EQ(adapter().cqs().next_notified(), cqs[1]);
  EXPECT_EQ(adapter().cqs().next_notified(), nullptr);
  // A destroyed queue leaves the list.
  adapter().cqs().arm(*cqs[1], CqNotify::kNext);
  send(*qps[1], 9);
  pair.run(5);
  ASSERT_TRUE(adapter().destroy_qp(qps[1]));
  ASSERT_TRUE(adapter().cqs().destroy(cqs[1]));
  EXPECT_EQ(adapter().cqs().next_notified(), nullptr);
}

class FewCompletionQueues : public CompletionQueues {
 protected:
  FewCompletionQueues() : CompletionQueues({.completion_queues = 4}) {}
};

/// The list has one place for each queue: a queue that is notified again and again, and asked by itself,
/// takes no
/// other queue's place.
TEST_F(FewCompletionQueues, one_takes_one_place_in_the_list) {
  CompletionQueue* often = adapter().cqs().create(16).value();
  CompletionQueue* seldom = adapter().cqs().create(16).value();
  QueuePair* busy = connect(often, 8);
  QueuePair* quiet = connect(seldom, 1);
  for (uint64_t n = 0; n < 8; ++n) {
    adapter().cqs().arm(*often, CqNotify::kNext);
    send(*busy, n);
    pair.run(5);
    EXPECT_TRUE(adapter().cqs().take_notification(*often));
  }
  adapter().cqs().arm(*seldom, CqNotify::kNext);
  send(*quiet, 9);
  pair.run(5);
  EXPECT_EQ(adapter().cqs().next_notified(), seldom);
}

/// A QP ends because its send queue's CQ overran. Its flushed receives overrun a second CQ, whose other QP
/// the adapter has looked at already. That QP ends, too.
TEST_F(CompletionQueues, an_overrun_by_the_end_of_another_qp_ends_all_that_complete_there) {
  CompletionQueue* one = adapter().cqs().create(1).value();
  CompletionQueue* two = adapter().cqs().create(2).value();
  const QpConfig config{.send_cq = one, .recv_cq = two};
  QueuePair* ends = pair.make_qp(0, config);
  QueuePair* peer = pair.make_qp(1, {});
  pair.bring_up(0, *ends, config, pair.side(1).adapter->qpn(*peer), Lid(2), Psn(1), Psn(2));
  pair.bring_up(1, *peer, {}, adapter().qpn(*ends), Lid(1), Psn(2), Psn(1));
  QueuePair* other = connect(two, 0);
  for (uint64_t i = 0; i < 3; ++i) {
    ASSERT_EQ(pair.post_recv(0, *ends, i, {pair.side(0).sge(0, 64)}), PostResult::kOk);
    ASSERT_EQ(pair.post_recv(1, *peer, i, {pair.side(1).sge(0, 64)}), PostResult::kOk);
    send(*ends, i);
  }
  pair.run(20);
  EXPECT_TRUE(adapter().cqs().query(*one).overrun);
  ASSERT_EQ(adapter().query_qp(*ends).state, QpState::kErr);
  EXPECT_TRUE(adapter().cqs().query(*two).overrun);
  EXPECT_EQ(adapter().query_qp(*other).state, QpState::kErr);
}

/// Side 1's program answers a Send as soon as it sees it. At side 0 the Send and the receive of the answer
/// complete on one queue.
class AnsweredSends : public CompletionQueues {
 protected:
  static constexpr uint64_t kSend = 1, kReceive = 2;

  AnsweredSends() {
    cq = adapter().cqs().create(16).value();
    qp = connect(cq, 1, &peer);
    EXPECT_EQ(pair.post_recv(0, *qp, kReceive, {pair.side(0).sge(64, 64)}), PostResult::kOk);
  }
  /// Side 1's program answers in this turn of its adapter, unless it has done so already.
  void answer() {
    PairSide& far = pair.side(1);
    if (far.completions.empty() || std::exchange(answered, true)) return;
    const Sge sge = far.sge(64, 64);
    ASSERT_EQ(far.adapter->post_send(*peer, {.wr_id = kSend, .sges = {&sge, 1}}), PostResult::kOk);
  }
  /// @return the wr_ids of side 0's completions after `turns` turns, oldest first
  Ids run(int turns) {
    for (int turn = 0; turn < turns; ++turn) {
      for (const int side : {0, 1}) pair.run_one(side);
      answer();
      pair.clock.advance(std::chrono::microseconds(10));
      for (const uint64_t id : drain(*cq)) seen.push_back(id);
    }
    return seen;
  }

  CompletionQueue* cq;
  QueuePair* qp;
  QueuePair* peer = nullptr;
  bool answered = false;
  Ids seen;
};

/// Programs depend on this order, which no specification promises: the acknowledgement leaves before the
/// answer,
/// also when both wait for credit.
TEST_F(AnsweredSends, complete_before_the_answer_is_received) {
  send(*qp, kSend);
  EXPECT_EQ(run(10), (Ids{kSend, kReceive}));
}

TEST_F(AnsweredSends, complete_before_an_answer_that_waited_for_credit) {
  pair.pipe.set_room(1, 0);
  send(*qp, kSend);
  ASSERT_EQ(run(10), Ids{});
  ASSERT_TRUE(answered);
  for (const Ids& wanted : {Ids{kSend}, Ids{kSend, kReceive}}) {
    pair.pipe.set_room(1, 1);
    EXPECT_EQ(run(10), wanted);
  }
}

/// An answer acknowledges nothing, because it is a request in the other direction.
TEST_F(AnsweredSends, complete_after_the_answer_if_the_acknowledgement_is_lost) {
  bool lost = false;
  pair.pipe.set_filter([&lost](int from, std::vector<std::byte>& bytes) {
    CellView cell;
    (void)decode_cell(bytes, CrcCheck::kAlreadyVerified, cell);
    const bool ack = from == 1 && cell.opcode == Opcode::kAck;
    return ack && !std::exchange(lost, true) ? Verdict::kDrop : Verdict::kPass;
  });
  send(*qp, kSend);
  EXPECT_EQ(run(20), Ids{kReceive});
  ASSERT_TRUE(lost);
  EXPECT_EQ(run(20'000), (Ids{kReceive, kSend}));
}

/// A program whose polls find nothing is told of this (docs/verbs.md).
TEST(CompletionQueueLoads, tell_what_the_queue_pairs_of_a_queue_wait_for) {
  AdapterPair pair;
  adapter::CompletionQueues& cqs = pair.side(0).adapter->cqs();
  const QpConfig config{.signal_all = false, .hold_places = true};
  const auto qps = pair.connect(config);
  CompletionQueue* const other = cqs.create(16).value();
  QueuePair* const apart = pair.make_qp(0, {.recv_cq = other});
  for (uint64_t i = 0; i < 3; ++i)
    ASSERT_EQ(pair.post_recv(0, *qps[0], i, {pair.side(0).sge(0, 64)}), PostResult::kOk);
  for (uint64_t i = 0; i < 2; ++i)
    ASSERT_EQ(pair.post_recv(1, *qps[1], i, {pair.side(1).sge(0, 64)}), PostResult::kOk);
  const Sge sge = pair.side(0).sge(0, 64);
  for (uint64_t i = 0; i < 3; ++i)  // without a completion; the third finds no receive request
    ASSERT_EQ(pair.side(0).adapter->post_send(*qps[0], {.wr_id = i, .sges = {&sge, 1}}), PostResult::kOk);
  pair.run(20);
  std::array<QpLoad, 4> loads;
  ASSERT_EQ(cqs.loads(*pair.side(0).cq, loads), 2U);
  const QpLoad& busy = loads[loads[0].qpn == pair.side(0).adapter->qpn(*qps[0]) ? 0 : 1];
  EXPECT_EQ(busy.qpn, pair.side(0).adapter->qpn(*qps[0]));
  EXPECT_EQ(busy.state, QpState::kRts);
  EXPECT_TRUE(busy.sends_here && busy.receives_here);
  EXPECT_EQ(busy.sends, 1U);
  EXPECT_EQ(busy.silent, 2U);
  EXPECT_EQ(busy.receives, 3U);
  ASSERT_EQ(cqs.loads(*other, loads), 1U);
  EXPECT_EQ(loads[0].qpn, pair.side(0).adapter->qpn(*apart));
  EXPECT_EQ(loads[0].state, QpState::kReset);
  EXPECT_FALSE(loads[0].sends_here);
  EXPECT_TRUE(loads[0].receives_here);
  EXPECT_EQ(cqs.loads(*pair.side(0).cq, std::span(loads).first(1)), 2U) << "one found no room in the list";
}

}  // namespace
}  // namespace weft::test
