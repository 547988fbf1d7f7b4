// A QP that ends acknowledges what it has received: its user ends it right after the last message, and the
// peer
// still waits for the acknowledgement.
#include <gtest/gtest.h>

#include "adapter/limits.h"
#include "tests/support/adapter_pair.h"

namespace weft::test {
using namespace adapter;
using namespace std::chrono_literals;
namespace {

class LastWords : public ::testing::Test {
 protected:
  /// Side 0 sends. On return the message is received; the acknowledgement, which has `room` cells of credit,
  /// has
  /// not been sent if `room` is 0.
  void send_and_receive() {
    qps_ = pair_.connect({});
    send_one_more();
  }
  void send_one_more(uint32_t room = 0) {
    ASSERT_EQ(pair_.post_recv(1, *qps_[1], 7, {pair_.side(1).sge(0, 64)}), PostResult::kOk);
    const Sge from = pair_.side(0).sge(0, 64);
    ASSERT_EQ(pair_.side(0).adapter->post_send(*qps_[0], {.wr_id = 1, .sges = std::span(&from, 1)}),
              PostResult::kOk);
    pair_.pipe.set_room(1, room);
    for (int turns = 0; turns < 10 && pair_.side(1).completions.empty(); ++turns) pair_.run(1, Duration{});
    pair_.run(2, Duration{});
    pair_.pipe.set_room(1, UINT32_MAX);
    ASSERT_EQ(pair_.side(1).completions.size(), 1U);
    ASSERT_TRUE(pair_.side(0).completions.empty());
  }
  void expect_success() {
    pair_.run(20, Duration{});
    ASSERT_EQ(pair_.side(0).completions.size(), 1U);
    EXPECT_EQ(pair_.side(0).completions[0].status, WcStatus::kSuccess);
  }

  AdapterPair pair_;
  std::array<QueuePair*, 2> qps_{};
};

TEST_F(LastWords, are_said_by_a_qp_that_is_destroyed) {
  send_and_receive();
  ASSERT_TRUE(pair_.side(1).adapter->destroy_qp(qps_[1]).ok());
  expect_success();
}

TEST_F(LastWords, are_said_by_a_qp_that_is_moved_to_error_or_reset) {
  for (const QpState to : {QpState::kErr, QpState::kReset}) {
    pair_.side(0).completions.clear();
    pair_.side(1).completions.clear();
    send_and_receive();
    ASSERT_EQ(pair_.side(1).adapter->modify_qp(*qps_[1], {.state = to}, kQpAttrState), ModifyResult::kOk);
    expect_success();
  }
}

/// A program that exits leaves its QPs in their state.
TEST_F(LastWords, are_said_for_all_qps_when_their_owner_ends) {
  send_and_receive();
  pair_.side(1).adapter->say_last_words();
  EXPECT_EQ(pair_.side(1).adapter->query_qp(*qps_[1]).state, QpState::kRts);
  expect_success();
}

/// Neither acknowledgement reaches the sender. The first one is repeated when the sender asks again. The
/// second
/// one must be sent several times at once, because the QP has ended when the sender asks again.
TEST_F(LastWords, are_said_several_times_where_cells_were_lost) {
  int losses = 1;
  pair_.pipe.set_filter([&](int from, std::vector<std::byte>&) {
    return from == 1 && losses > 0 ? (--losses, Verdict::kDrop) : Verdict::kPass;
  });
  send_and_receive();
  for (int turns = 0; turns < 1000 && pair_.side(0).completions.empty(); ++turns) pair_.run(1, 1ms);
  ASSERT_EQ(pair_.side(0).completions.size(), 1U);
  pair_.side(0).completions.clear();
  pair_.side(1).completions.clear();
  losses = 3;
  send_one_more(UINT32_MAX);
  ASSERT_EQ(losses, 2);
  ASSERT_TRUE(pair_.side(1).adapter->destroy_qp(qps_[1]).ok());
  expect_success();
  EXPECT_EQ(losses, 0);
}

/// A fabric without losses carries no additional cell.
TEST_F(LastWords, are_not_repeated_where_no_cell_was_lost) {
  int said = 0;
  pair_.pipe.set_filter([&](int from, std::vector<std::byte>&) {
    said += from == 1 ? 1 : 0;
    return Verdict::kPass;
  });
  send_and_receive();
  ASSERT_TRUE(pair_.side(1).adapter->destroy_qp(qps_[1]).ok());
  expect_success();
  EXPECT_EQ(said, 1);
}

/// Two QPs of side 0 and their peers. The first peer owes an ACK and ends, or its owner does (kRts); the
/// second one owes its ACK later.
class LastWordsAmongOthers : public ::testing::TestWithParam<QpState> {
 protected:
  void write(int index, uint32_t flags) {
    const Sge from = pair_.side(0).sge(0, 64);
    ASSERT_EQ(pair_.side(0).adapter->post_send(*qp(0, index), {.opcode = SendOpcode::kRdmaWrite,
                                                               .flags = flags,
                                                               .sges = {&from, 1},
                                                               .remote_addr = pair_.side(1).region.addr,
                                                               .rkey = pair_.side(1).region.rkey}),
              PostResult::kOk);
    pair_.run(2, Duration{});
  }
  void end_first_peer() {
    ChannelAdapter& far = *pair_.side(1).adapter;
    if (GetParam() == QpState::kRts) return far.say_last_words();
    ASSERT_EQ(far.modify_qp(*qp(1, 0), {.state = GetParam()}, kQpAttrState), ModifyResult::kOk);
  }
  void expect_acks_of_second() {
    pair_.pipe.clear_trace();
    write(1, 0);
    EXPECT_TRUE(pair_.pipe.sent_by(1, Opcode::kAck).empty()) << "it is not wanted at once";
    pair_.run(20, kAckDelay / 10);
    EXPECT_EQ(pair_.pipe.sent_by(1, Opcode::kAck).size(), 1U);
  }
  QueuePair* qp(size_t side, int index) { return qps_[static_cast<size_t>(index)][side]; }

  AdapterPair pair_;
  std::array<std::array<QueuePair*, 2>, 2> qps_{pair_.connect({.signal_all = false}),
                                                pair_.connect({.signal_all = false})};
};
INSTANTIATE_TEST_SUITE_P(ends, LastWordsAmongOthers,
                         ::testing::Values(QpState::kErr, QpState::kReset, QpState::kRts));

TEST_P(LastWordsAmongOthers, said_before_their_time_hold_up_no_other_ack) {
  write(0, 0);
  ASSERT_TRUE(pair_.pipe.sent_by(1).empty());
  end_first_peer();
  EXPECT_EQ(pair_.pipe.sent_by(1, Opcode::kAck).size(), 1U);
  expect_acks_of_second();
}

TEST_P(LastWordsAmongOthers, said_while_the_qp_waits_for_credit_hold_up_no_other_ack) {
  pair_.pipe.set_room(1, 0);
  write(0, kSendSignaled);
  ASSERT_TRUE(pair_.pipe.sent_by(1).empty());
  pair_.pipe.set_room(1, UINT32_MAX);
  end_first_peer();
  EXPECT_EQ(pair_.pipe.sent_by(1, Opcode::kAck).size(), 1U);
  pair_.run(2, Duration{});
  expect_acks_of_second();
}

/// The losses of the first life are no reason to repeat an ACK in the second.
TEST_F(LastWords, of_a_second_life_that_received_nothing_are_none) {
  int losses = 1;
  pair_.pipe.set_filter([&](int from, std::vector<std::byte>&) {
    return from == 1 && losses > 0 ? (--losses, Verdict::kDrop) : Verdict::kPass;
  });
  send_and_receive();
  for (int turns = 0; turns < 1000 && pair_.side(0).completions.empty(); ++turns) pair_.run(1, 1ms);
  ASSERT_EQ(pair_.side(0).completions.size(), 1U);
  ChannelAdapter& far = *pair_.side(1).adapter;
  ASSERT_EQ(far.modify_qp(*qps_[1], {.state = QpState::kReset}, kQpAttrState), ModifyResult::kOk);
  pair_.bring_up(1, *qps_[1], {}, pair_.side(0).adapter->qpn(*qps_[0]), Lid(1), Psn(7), Psn(9));
  pair_.run(20);
  pair_.pipe.clear_trace();
  ASSERT_TRUE(far.destroy_qp(qps_[1]).ok());
  EXPECT_TRUE(pair_.pipe.sent_by(1).empty());
}

}  // namespace
}  // namespace weft::test
