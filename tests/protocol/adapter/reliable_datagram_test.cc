// PSNs of reliable datagrams when a message is given up: an unanswered number is used again, so no late copy
// is
// executed a second time. A queue pair that ends does not block the others' way to the far side.
#include <algorithm>

#include "adapter/limits.h"
#include "tests/support/adapter_pair.h"

namespace weft::test {
using namespace adapter;
namespace {

using namespace std::chrono_literals;

constexpr size_t kPsnOffset = 24;  // in a cell's header, after one byte of flags

class ReliableDatagram : public ::testing::Test {
 protected:
  void SetUp() override {
    for (uint64_t i = 0; i < 4; ++i) {
      ASSERT_EQ(pair.post_recv(1, *peer, i, {pair.side(1).sge(0, 256)}), PostResult::kOk);
    }
  }
  ChannelAdapter& adapter(int index = 0) { return *pair.side(index).adapter; }
  /// @return a queue pair that gives up after one timeout or one "not ready"
  QueuePair* rd_qp(int index, QpConfig config = {}) {
    config.type = QpType::kRd;
    QpAttr attr;
    attr.ack_timeout = 8ms;
    attr.retry_count = attr.rnr_retry = 0;
    QueuePair* qp = pair.make_qp(index, config);
    pair.bring_up(index, *qp, config, Qpn(0), Lid(0), Psn(0), Psn(0), attr);
    return qp;
  }
  void send(QueuePair& qp, const QueuePair& to, uint32_t bytes = 64) {
    const Sge sge = pair.side(0).sge(0, bytes);
    const Destination dest{.lid = Lid(2), .qpn = adapter(1).qpn(to), .qkey = AdapterPair::kQkey};
    ASSERT_EQ(adapter().post_send(qp, {.sges = {&sge, 1}, .dest = dest}), PostResult::kOk);
  }
  void move_to(QueuePair& qp, QpState state) {
    QpAttr attr;
    attr.state = state;
    ASSERT_EQ(adapter().modify_qp(qp, attr, adapter::kQpAttrState), ModifyResult::kOk);
  }
  /// One message arrives, which fixes the far side's expected number; the next one is lost.
  void lose_the_second_message() {
    send(*from, *peer);
    pair.run(20);
    ASSERT_EQ(executed(), 1U);
    pair.pipe.set_filter([](int, std::vector<std::byte>&) { return Verdict::kDrop; });
    send(*from, *peer);
    pair.run(2);
  }
  /// Sends a message after the one that was given up, and repeats its first cell after its end.
  void expect_the_next_is_executed_once() {
    const size_t before = executed();
    std::vector<std::byte> copy;
    pair.pipe.set_filter([&copy](int sender, std::vector<std::byte>& cell) {
      if (sender == 0 && copy.empty()) copy = cell;
      return Verdict::kPass;
    });
    send(*other, *peer);
    pair.run(50);
    EXPECT_EQ(last_status(), WcStatus::kSuccess);
    EXPECT_EQ(executed(), before + 1);
    ASSERT_FALSE(copy.empty());
    pair.pipe.inject(1, copy);
    pair.run(50);
    EXPECT_EQ(executed(), before + 1) << "a late copy was executed";
  }
  /// @return the first message with a PSN that is larger by `numbers`
  [[nodiscard]] std::vector<std::byte> later_copy(uint32_t numbers) {
    const TracedCell& first = *pair.pipe.sent_by(0, Opcode::kRdSend).front();
    std::vector<std::byte> copy = first.bytes;
    store_be(copy.data() + kPsnOffset, first.view.psn.plus(numbers).value());
    return copy;
  }
  [[nodiscard]] Destination to_peer() {
    return {.lid = Lid(2), .qpn = adapter(1).qpn(*peer), .qkey = AdapterPair::kQkey};
  }
  [[nodiscard]] size_t executed() { return pair.side(1).completions.size(); }
  [[nodiscard]] WcStatus last_status() {
    const auto& done = pair.side(0).completions;
    return done.empty() ? WcStatus::kGeneral : done.back().status;
  }

  AdapterPair pair;
  QueuePair* from = rd_qp(0);
  QueuePair* other = rd_qp(0);
  QueuePair* peer = rd_qp(1);
};

TEST_F(ReliableDatagram, the_number_of_a_message_that_timed_out_is_not_counted_on_from) {
  lose_the_second_message();
  pair.run(100, 100us);
  ASSERT_EQ(last_status(), WcStatus::kRetryExceeded);
  expect_the_next_is_executed_once();
}

TEST_F(ReliableDatagram, the_number_of_a_message_that_was_flushed_is_not_counted_on_from) {
  lose_the_second_message();
  move_to(*from, QpState::kErr);
  pair.run(1);
  ASSERT_EQ(last_status(), WcStatus::kFlushed);
  expect_the_next_is_executed_once();
}

TEST_F(ReliableDatagram, the_number_a_destroyed_queue_pair_used_is_not_counted_on_from) {
  lose_the_second_message();
  ASSERT_TRUE(adapter().destroy_qp(from).ok());
  expect_the_next_is_executed_once();
}

TEST_F(ReliableDatagram, the_number_of_a_message_without_a_receive_is_not_counted_on_from) {
  QueuePair* unready = rd_qp(1);
  send(*from, *unready);
  pair.run(20);
  ASSERT_EQ(last_status(), WcStatus::kRnrRetryExceeded);
  expect_the_next_is_executed_once();
}

/// The far side has counted a message that it refused for its content.
TEST_F(ReliableDatagram, the_number_of_a_message_that_was_refused_is_counted_on_from) {
  send(*from, *peer, 256);
  pair.run(20);
  QueuePair* small = rd_qp(1);
  ASSERT_EQ(pair.post_recv(1, *small, 9, {pair.side(1).sge(0, 8)}), PostResult::kOk);
  send(*from, *small);
  pair.run(20);
  ASSERT_EQ(last_status(), WcStatus::kRemoteInvalidRequest);
  send(*other, *peer);
  pair.run(20);
  EXPECT_EQ(last_status(), WcStatus::kSuccess);
  const auto sent = pair.pipe.sent_by(0);
  ASSERT_EQ(sent.size(), 3U);
  EXPECT_EQ(sent[1]->view.psn, sent[0]->view.psn.plus(1));
  EXPECT_EQ(sent[2]->view.psn, sent[0]->view.psn.plus(2));
}

/// A refusal names the PSN that it refuses. If the sender applied it to the message in flight, that message
/// would
/// get the PSN of an executed message, whose answer would then be repeated.
TEST_F(ReliableDatagram, a_late_refusal_renumbers_nothing) {
  send(*from, *peer);
  pair.run(20);
  pair.pipe.inject(1, later_copy(100));
  pair.run(5);
  ASSERT_EQ(executed(), 2U);
  std::vector<std::byte> refusal;
  pair.pipe.set_filter([&refusal](int sender, std::vector<std::byte>& cell) {
    if (sender == 1 && refusal.empty()) refusal = cell;
    return Verdict::kPass;
  });
  send(*other, *peer);
  pair.run(50);
  ASSERT_EQ(executed(), 3U);
  CellView view;
  ASSERT_EQ(decode_cell(refusal, CrcCheck::kVerify, view), CellError::kNone);
  ASSERT_EQ(view.ack.code, AckCode::kSequenceError);

  pair.pipe.set_filter([](int, std::vector<std::byte>&) { return Verdict::kHold; });
  send(*other, *peer);
  pair.run_one(0);
  const size_t done = pair.side(0).completions.size();
  pair.pipe.inject(0, refusal);
  pair.pipe.set_filter(nullptr);
  pair.run(50);
  EXPECT_EQ(pair.side(0).completions.size(), done) << "it is not executed yet";
  EXPECT_EQ(executed(), 3U);
  pair.pipe.release_held();
  pair.run(50);
  EXPECT_EQ(pair.side(0).completions.size(), done + 1);
  EXPECT_EQ(executed(), 4U);
}

/// The PSN of a message that was given up is not given to another one: its late copy comes just before the
/// next.
TEST_F(ReliableDatagram, a_late_copy_of_a_message_that_was_given_up_is_not_answered_for_the_next) {
  lose_the_second_message();
  pair.pipe.set_filter([](int, std::vector<std::byte>&) { return Verdict::kHold; });
  pair.run(12, 1ms);  // repeated, then given up
  ASSERT_EQ(last_status(), WcStatus::kRetryExceeded);
  pair.pipe.set_filter([count = 0](int sender, std::vector<std::byte>&) mutable {
    return sender == 0 && count++ != 0 ? Verdict::kHold : Verdict::kPass;
  });
  send(*other, *peer, 32);
  pair.run(20);
  pair.pipe.set_filter(nullptr);
  pair.pipe.release_held();
  pair.run(50);
  EXPECT_EQ(last_status(), WcStatus::kSuccess);
  const auto& done = pair.side(1).completions;
  EXPECT_EQ(std::count_if(done.begin(), done.end(), [](const auto& one) { return one.byte_count == 32; }), 1)
      << "what succeeded was delivered";
}

/// After a restart of the sender's numbers the far side knows later numbers, and copies of earlier messages
/// are
/// still on their way.
TEST_F(ReliableDatagram, copies_from_before_a_new_start_are_not_answered_for_the_next) {
  send(*from, *peer);
  pair.run(20);
  pair.pipe.inject(1, later_copy(100));
  pair.run(5);
  pair.pipe.set_filter([count = 0](int sender, std::vector<std::byte>&) mutable {
    return sender == 0 && count++ != 0 ? Verdict::kHold : Verdict::kPass;
  });
  send(*other, *peer, 32);
  pair.run(5);
  ASSERT_EQ(executed(), 2U) << "its number was refused, and the one it has now is held";
  pair.pipe.inject(1, later_copy(101));
  pair.run(5);
  pair.pipe.set_filter(nullptr);
  pair.pipe.release_held();
  pair.run(20);
  ASSERT_EQ(executed(), 4U);
  EXPECT_EQ(pair.side(1).completions.back().byte_count, 32U);
  EXPECT_EQ(last_status(), WcStatus::kSuccess);
}

/// Two nodes with room for one context each.
struct OneContext {
  OneContext() {
    const QpConfig config{.type = QpType::kRd};
    for (int i = 0; i < 2; ++i) {
      QueuePair*& qp = qps[static_cast<size_t>(i)];
      qp = pair.make_qp(i, config);
      pair.bring_up(i, *qp, config, Qpn(0), Lid(0), Psn(0), Psn(0));
    }
    for (uint64_t i = 0; i < 2; ++i)
      EXPECT_EQ(pair.post_recv(1, *qps[1], i, {pair.side(1).sge(0, 256)}), PostResult::kOk);
  }
  void send() {
    const Sge sge = pair.side(0).sge(0, 64);
    const Destination dest{
        .lid = Lid(2), .qpn = pair.side(1).adapter->qpn(*qps[1]), .qkey = AdapterPair::kQkey};
    ASSERT_EQ(pair.side(0).adapter->post_send(*qps[0], {.sges = {&sge, 1}, .dest = dest}), PostResult::kOk);
  }
  /// The message that was sent, as if of another node.
  void inject_as_from_node_3() {
    std::vector<std::byte> cell = pair.pipe.sent_by(0, Opcode::kRdSend).front()->bytes;
    store_be(cell.data() + 10, uint16_t{3});
    pair.pipe.inject(1, cell);
  }
  [[nodiscard]] size_t executed() { return pair.side(1).completions.size(); }

  AdapterPair pair{256, {.rd_contexts = 1}};
  std::array<QueuePair*, 2> qps{};
};

/// An idle context goes to another node; a context in use stays, and its numbers keep late copies out.
TEST(ReliableDatagramContexts, one_that_rested_long_enough_is_given_to_another_remote) {
  AdapterLimits limits;
  limits.rd_contexts = 2;
  AdapterPair pair(256, limits);
  const QpConfig config{.type = QpType::kRd};
  std::array<QueuePair*, 2> qps{};
  for (int i = 0; i < 2; ++i) {
    qps[static_cast<size_t>(i)] = pair.make_qp(i, config);
    pair.bring_up(i, *qps[static_cast<size_t>(i)], config, Qpn(0), Lid(0), Psn(0), Psn(0));
  }
  for (uint64_t i = 0; i < 8; ++i) {
    ASSERT_EQ(pair.post_recv(1, *qps[1], i, {pair.side(1).sge(0, 256)}), PostResult::kOk);
  }
  const auto& counters = pair.side(1).adapter->counters();
  const Sge sge = pair.side(0).sge(0, 64);
  const Destination dest{
      .lid = Lid(2), .qpn = pair.side(1).adapter->qpn(*qps[1]), .qkey = AdapterPair::kQkey};
  const auto send = [&] {
    ASSERT_EQ(pair.side(0).adapter->post_send(*qps[0], {.sges = {&sge, 1}, .dest = dest}), PostResult::kOk);
    pair.run(20);
  };
  const auto from = [&](uint16_t lid) {
    std::vector<std::byte> cell = pair.pipe.sent_by(0, Opcode::kRdSend).back()->bytes;
    store_be(cell.data() + 10, lid);
    pair.pipe.inject(1, cell);
    pair.run(20);
    return pair.side(1).completions.size();
  };
  send();
  EXPECT_EQ(from(3), 2U);
  EXPECT_EQ(from(4), 2U) << "no context left";
  pair.clock.advance(kRdContextRest - 1s);
  send();
  EXPECT_EQ(from(4), 3U) << "no context has rested long enough";
  EXPECT_EQ(counters.get(AdapterCounter::kDropRdContext), 2U);
  pair.clock.advance(2s);
  EXPECT_EQ(from(4), 4U) << "the place of node 3";
  EXPECT_EQ(counters.get(AdapterCounter::kDropRdContext), 2U);
  EXPECT_EQ(from(1), 4U) << "a late copy of what node 1 has sent";
  send();
  EXPECT_EQ(pair.side(1).completions.size(), 5U);
  EXPECT_EQ(pair.side(0).completions.size(), 3U);
}

/// The number that the remote before it should have sent next means nothing for the new one.
TEST(ReliableDatagramContexts, one_that_is_given_to_another_remote_expects_any_number) {
  AdapterLimits limits;
  limits.rd_contexts = 1;
  AdapterPair pair(256, limits);
  const QpConfig config{.type = QpType::kRd};
  std::array<QueuePair*, 2> qps{};
  for (int i = 0; i < 2; ++i) {
    qps[static_cast<size_t>(i)] = pair.make_qp(i, config);
    pair.bring_up(i, *qps[static_cast<size_t>(i)], config, Qpn(0), Lid(0), Psn(0), Psn(0));
  }
  for (uint64_t i = 0; i < 2; ++i)
    ASSERT_EQ(pair.post_recv(1, *qps[1], i, {pair.side(1).sge(0, 256)}), PostResult::kOk);
  const Sge sge = pair.side(0).sge(0, 64);
  const Destination dest{
      .lid = Lid(2), .qpn = pair.side(1).adapter->qpn(*qps[1]), .qkey = AdapterPair::kQkey};
  ASSERT_EQ(pair.side(0).adapter->post_send(*qps[0], {.sges = {&sge, 1}, .dest = dest}), PostResult::kOk);
  pair.run(20);
  ASSERT_EQ(pair.side(1).completions.size(), 1U);
  const TracedCell& first = *pair.pipe.sent_by(0, Opcode::kRdSend).front();
  std::vector<std::byte> earlier = first.bytes;
  store_be(earlier.data() + kPsnOffset, first.view.psn.plus(Psn::kMask - 4).value());
  store_be(earlier.data() + 10, uint16_t{3});  // as if of another node
  pair.clock.advance(kRdContextRest + 1s);
  pair.pipe.inject(1, earlier);
  pair.run(20);
  EXPECT_EQ(pair.side(1).completions.size(), 2U);
}

/// The count of executed messages in an answer is that of the messages of this remote.
TEST(ReliableDatagramContexts, one_that_is_given_to_another_remote_counts_its_messages_anew) {
  OneContext at;
  at.send();
  at.pair.run(20);
  ASSERT_EQ(at.executed(), 1U);
  at.pair.clock.advance(kRdContextRest + 1s);
  at.inject_as_from_node_3();
  at.pair.run(20);
  ASSERT_EQ(at.executed(), 2U);
  const TracedCell& answer = *at.pair.pipe.sent_by(1, Opcode::kAck).back();
  ASSERT_EQ(answer.view.dlid, Lid(3));
  EXPECT_EQ(answer.view.ack.messages_completed, 1U);
}

/// Another remote would overwrite the answer, and the sender would have its message executed twice.
TEST(ReliableDatagramContexts, one_with_an_answer_that_could_not_leave_does_not_rest) {
  OneContext at;
  at.pair.pipe.set_room(1, 0);
  at.send();
  at.pair.run(2);
  ASSERT_EQ(at.executed(), 1U);
  at.pair.clock.advance(kRdContextRest + 1s);
  at.inject_as_from_node_3();
  at.pair.run_one(1);
  EXPECT_EQ(at.executed(), 1U);
  EXPECT_EQ(at.pair.side(1).adapter->counters().get(AdapterCounter::kDropRdContext), 1U);
  at.pair.pipe.set_room(1, UINT32_MAX);
  at.pair.run(20);
  EXPECT_EQ(at.pair.side(0).completions.size(), 1U);
}

/// A message may be in flight for longer than kRdContextRest: its context is not reassigned (SAN-XPORT-12).
TEST(ReliableDatagramContexts, one_with_a_message_in_flight_does_not_rest) {
  AdapterLimits limits;
  limits.rd_contexts = 1;
  AdapterPair pair(256, limits);
  const QpConfig config{.type = QpType::kRd};
  QpAttr attr;
  attr.ack_timeout = 3 * kRdContextRest;
  attr.retry_count = 0;
  std::array<QueuePair*, 2> qps{};
  for (int i = 0; i < 2; ++i) {
    QueuePair*& qp = qps[static_cast<size_t>(i)];
    qp = pair.make_qp(i, config);
    pair.bring_up(i, *qp, config, Qpn(0), Lid(0), Psn(0), Psn(0), attr);
    ASSERT_EQ(pair.post_recv(i, *qp, 0, {pair.side(i).sge(1024, 256)}), PostResult::kOk);
  }
  std::vector<std::byte> request;
  pair.pipe.set_filter([&request](int sender, std::vector<std::byte>& cell) {
    if (sender == 0) return Verdict::kHold;
    request = cell;
    return Verdict::kDrop;
  });
  for (int i = 0; i < 2; ++i) {
    const Sge sge = pair.side(i).sge(0, 64);
    const Destination dest{.lid = Lid(static_cast<uint16_t>(2 - i)),
                           .qpn = pair.side(1 - i).adapter->qpn(*qps[static_cast<size_t>(1 - i)]),
                           .qkey = AdapterPair::kQkey};
    ASSERT_EQ(
        pair.side(i).adapter->post_send(*qps[static_cast<size_t>(i)], {.sges = {&sge, 1}, .dest = dest}),
        PostResult::kOk);
  }
  pair.run(2);
  ASSERT_FALSE(request.empty());
  pair.clock.advance(kRdContextRest + 1s);
  store_be(request.data() + 10, uint16_t{3});  // as if from another node
  pair.pipe.inject(0, request);
  pair.run(2);
  EXPECT_EQ(pair.side(0).adapter->counters().get(AdapterCounter::kDropRdContext), 1U);
  pair.pipe.set_filter(nullptr);
  pair.pipe.release_held();
  pair.run(20);
  ASSERT_EQ(pair.side(0).completions.size(), 1U) << "its own message only";
  EXPECT_EQ(pair.side(0).completions[0].status, WcStatus::kSuccess);
}

/// Only the addressed queue pair on its own node can acknowledge a message.
TEST_F(ReliableDatagram, an_answer_of_another_queue_pair_is_ignored) {
  std::vector<std::byte> answer;
  pair.pipe.set_filter([&answer](int sender, std::vector<std::byte>& cell) {
    if (sender != 1) return Verdict::kPass;
    answer = cell;
    return Verdict::kHold;
  });
  send(*from, *peer);
  pair.run(5);
  ASSERT_FALSE(answer.empty());
  constexpr std::array<size_t, 2> kSlidAndQpn{11, 23};
  for (const size_t offset : kSlidAndQpn) {
    std::vector<std::byte> forged = answer;
    forged[offset] ^= std::byte{8};
    pair.pipe.inject(0, forged);
    pair.run(5);
  }
  EXPECT_EQ(adapter().counters().get(AdapterCounter::kDropSource), 2U);
  EXPECT_TRUE(pair.side(0).completions.empty());
  pair.pipe.set_filter(nullptr);
  pair.pipe.release_held();
  pair.run(5);
  EXPECT_EQ(last_status(), WcStatus::kSuccess);
}

/// The second message's completion overruns the queue while the third one is on its way.
TEST_F(ReliableDatagram, a_queue_pair_that_fails_gives_its_place_back) {
  QueuePair* failing = rd_qp(0, {.send_cq = adapter().cqs().create(1).value()});
  for (int i = 0; i < 3; ++i) send(*failing, *peer);
  pair.run(20);
  ASSERT_EQ(adapter().query_qp(*failing).state, QpState::kErr);
  expect_the_next_is_executed_once();
}

TEST_F(ReliableDatagram, a_queue_pair_that_ends_before_its_turn_passes_it_on) {
  lose_the_second_message();
  QueuePair* second = rd_qp(0);
  send(*second, *peer);
  send(*other, *peer);
  pair.run(2);
  pair.pipe.set_filter(nullptr);
  ASSERT_TRUE(adapter().destroy_qp(from).ok());
  ASSERT_TRUE(adapter().destroy_qp(second).ok());
  pair.run(50);
  EXPECT_EQ(executed(), 2U);
  EXPECT_EQ(last_status(), WcStatus::kSuccess);
}

/// The one that waits behind it is the last one of the line then.
TEST_F(ReliableDatagram, a_queue_pair_may_wait_after_the_last_one_in_line_has_ended) {
  lose_the_second_message();
  QueuePair* last = rd_qp(0);
  send(*last, *peer);
  pair.run(2);
  ASSERT_TRUE(adapter().destroy_qp(last).ok());
  send(*other, *peer);
  pair.run(2);
  pair.pipe.set_filter(nullptr);
  ASSERT_TRUE(adapter().destroy_qp(from).ok());
  pair.run(50);
  EXPECT_EQ(executed(), 2U);
  EXPECT_EQ(last_status(), WcStatus::kSuccess);
}

TEST_F(ReliableDatagram, a_key_for_one_operation_serves_one) {
  PairSide& far = pair.side(1);
  QpAttr attr;
  attr.access = Access::kRemoteWrite;
  ASSERT_EQ(adapter(1).modify_qp(*peer, attr, adapter::kQpAttrAccess), ModifyResult::kOk);
  MemoryTable& table = adapter(1).memory();
  const Rkey key = table.windows.alloc_rkey(far.pd).value();
  ASSERT_EQ(table.windows.bind_rkey(
                far.pd, {key, far.region.lkey, far.region.addr, 64, Access::kRemoteWrite | Access::kOneShot}),
            AccessFault::kNone);
  for (const WcStatus expected : {WcStatus::kSuccess, WcStatus::kRemoteAccess}) {
    const Sge sge = pair.side(0).sge(0, 16);
    ASSERT_EQ(adapter().post_send(*from, {.opcode = SendOpcode::kRdmaWrite,
                                          .sges = {&sge, 1},
                                          .remote_addr = far.region.addr,
                                          .rkey = key,
                                          .dest = to_peer()}),
              PostResult::kOk);
    pair.run(20);
    EXPECT_EQ(last_status(), expected);
  }
}

/// The Q_Key says which receiver a datagram is for; the sender of a wrong Q_Key gets an error.
TEST_F(ReliableDatagram, a_wrong_q_key_is_refused_and_stores_nothing) {
  pair.side(0).fill(0, 64, 5);
  const std::vector<std::byte> before = pair.side(1).memory;
  QpAttr attr;
  attr.access = Access::kRemoteWrite;
  ASSERT_EQ(adapter(1).modify_qp(*peer, attr, adapter::kQpAttrAccess), ModifyResult::kOk);
  QueuePair* writer = rd_qp(0);
  const Sge sge = pair.side(0).sge(0, 64);
  Destination dest = to_peer();
  dest.qkey ^= 1;
  const SendRequest bad_send{.sges = {&sge, 1}, .dest = dest};
  const SendRequest bad_write{.opcode = SendOpcode::kRdmaWrite,
                              .sges = {&sge, 1},
                              .remote_addr = pair.side(1).region.addr,
                              .rkey = pair.side(1).region.rkey,
                              .dest = dest};
  for (const auto& [qp, request] : {std::pair{from, bad_send}, std::pair{writer, bad_write}}) {
    ASSERT_EQ(adapter().post_send(*qp, request), PostResult::kOk);
    pair.run(20);
    EXPECT_EQ(last_status(), WcStatus::kRemoteInvalidRequest);
  }
  EXPECT_EQ(executed(), 0U);
  EXPECT_TRUE(pair.side(1).memory == before);
  EXPECT_EQ(adapter(1).counters().get(AdapterCounter::kDropQkey), 2U);
  EXPECT_EQ(adapter(1).counters(*peer).get(QpCounter::kRequestsRefused), 2U);
  expect_the_next_is_executed_once();
}

TEST_F(ReliableDatagram, a_send_that_invalidates_a_key_does_so) {
  PairSide& far = pair.side(1);
  MemoryTable& table = adapter(1).memory();
  const Rkey key = table.windows.alloc_rkey(far.pd).value();
  ASSERT_EQ(
      table.windows.bind_rkey(far.pd, {key, far.region.lkey, far.region.addr, 64, Access::kRemoteWrite}),
      AccessFault::kNone);
  const Sge sge = pair.side(0).sge(0, 16);
  const SendRequest request{
      .opcode = SendOpcode::kSendWithInvalidate, .sges = {&sge, 1}, .rkey = key, .dest = to_peer()};
  for (const WcStatus expected : {WcStatus::kSuccess, WcStatus::kRemoteAccess}) {
    ASSERT_EQ(adapter().post_send(*from, request), PostResult::kOk);
    pair.run(20);
    EXPECT_EQ(last_status(), expected) << "a key that is not bound cannot be invalidated";
  }
  ASSERT_EQ(executed(), 1U);
  EXPECT_EQ(far.completions[0].invalidated, key);
  EXPECT_FALSE(table.query(key.value())->valid);
}

/// The far side keeps its numbers per LID of the requester. A message that left under another LID is not
/// repeated,
/// because it would be executed again.
TEST_F(ReliableDatagram, a_completion_names_the_sender_and_the_service_level) {
  const Sge sge = pair.side(0).sge(0, 64);
  Destination dest = to_peer();
  dest.sl = ServiceLevel(3);
  ASSERT_EQ(adapter().post_send(*from, {.sges = {&sge, 1}, .dest = dest}), PostResult::kOk);
  pair.run(20);
  ASSERT_EQ(executed(), 1U);
  EXPECT_EQ(pair.side(1).completions[0].sl, ServiceLevel(3));
  EXPECT_EQ(pair.side(1).completions[0].src_lid, Lid(1));
  EXPECT_EQ(pair.side(1).completions[0].src_qpn, adapter().qpn(*from));
}

/// A message to a queue pair of the same port needs no link, and neither does its answer.
TEST_F(ReliableDatagram, a_message_to_the_own_port_is_answered_when_the_link_has_gone) {
  ASSERT_EQ(pair.post_recv(0, *other, 1, {pair.side(0).sge(1024, 64)}), PostResult::kOk);
  const Sge sge = pair.side(0).sge(0, 64);
  const Destination dest{.lid = Lid(1), .qpn = adapter().qpn(*other), .qkey = AdapterPair::kQkey};
  ASSERT_EQ(adapter().post_send(*from, {.sges = {&sge, 1}, .dest = dest}), PostResult::kOk);
  pair.run_one(0);
  ASSERT_TRUE(pair.side(0).completions.empty()) << "the message is on its way";
  pair.pipe.set_up(false);
  pair.run(4);
  EXPECT_EQ(pair.side(0).completions.size(), 2U);
  EXPECT_EQ(last_status(), WcStatus::kSuccess);
}

TEST_F(ReliableDatagram, a_message_that_left_under_another_lid_is_given_up) {
  for (const Lid lid : {Lid(1), Lid(9)}) {
    const bool other_lid = lid != Lid(1);
    pair.pipe.set_filter([](int sender, std::vector<std::byte>&) {
      return sender == 1 ? Verdict::kDrop : Verdict::kPass;  // the answer is lost
    });
    const size_t before = executed();
    send(*from, *peer);
    pair.run(2);
    ASSERT_EQ(executed(), before + 1);
    pair.pipe.set_up(false);
    pair.run(1);
    pair.pipe.set_lid(0, lid);
    pair.pipe.set_filter(nullptr);
    pair.pipe.set_up(true);
    pair.run(20);
    EXPECT_EQ(executed(), before + 1) << "a message was executed twice";
    EXPECT_EQ(last_status(), other_lid ? WcStatus::kRetryExceeded : WcStatus::kSuccess);
  }
  expect_the_next_is_executed_once();
}

}  // namespace
}  // namespace weft::test
