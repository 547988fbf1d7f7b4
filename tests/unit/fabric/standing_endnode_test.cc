// What a switch says for an endnode that takes no cells: to whom, when, and what it does not say.
#include <gtest/gtest.h>

#include "tests/support/test_fabric.h"

namespace weft::test {
using namespace fabric;
namespace {

constexpr Duration kTurn = 1ms;

/// Node 1 (LID 2) is the one that stands still.
class StandingEndnode : public ::testing::TestWithParam<LinkKind> {
 protected:
  void SetUp() override { skip_what_a_sanitizer_misreads(GetParam()); }
  static TestFabricConfig config_of(LinkKind kind) {
    TestFabricConfig config;
    config.links = kind;
    config.switching = small_switch();
    config.nodes = 3;
    return config;
  }
  /// Node `from` sends such a cell every millisecond for this long.
  void ask(Duration time, TestCell cell = request(), uint32_t from = 0) {
    for (Duration gone{}; gone < time; gone += kTurn) {
      static_cast<void>(fabric_.send(from, cell));
      fabric_.run(1, kTurn);
    }
  }
  static TestCell request() { return {.dlid = Lid(2), .number = 77, .flags = kCellAckWanted}; }
  [[nodiscard]] uint64_t answers(uint32_t node) const {
    return fabric_.count(node + 1, SwitchPortCounter::kStandstillAnswers);
  }

  TestFabric fabric_{config_of(GetParam())};
};

TEST_P(StandingEndnode, is_spoken_for_after_25_ms) {
  fabric_.freeze(1, true);
  ask(20ms);
  EXPECT_EQ(answers(0), 0U);
  EXPECT_TRUE(fabric_.received[0].empty());
  ask(30ms);
  EXPECT_GT(answers(0), 0U);
  fabric_.run(20, 100us);
  ASSERT_FALSE(fabric_.received[0].empty());
  CellView nak;
  ASSERT_EQ(decode_cell(fabric_.received[0].front(), CrcCheck::kVerify, nak), CellError::kNone);
  EXPECT_EQ(nak.opcode, Opcode::kNak);
  EXPECT_EQ(nak.ack.code, AckCode::kStandsStill);
  EXPECT_EQ(nak.ack.psn, Psn(77));
  EXPECT_EQ(nak.slid, Lid(2));
  EXPECT_EQ(nak.dlid, Lid(1));
  EXPECT_EQ(nak.dest_qpn, Qpn(0x200));
  EXPECT_EQ(nak.src_qpn, Qpn(0x100));
  EXPECT_EQ(nak.pkey, kPkeyDefault);
  EXPECT_TRUE(nak.payload.empty());
  fabric_.expect_conserved();
}

TEST_P(StandingEndnode, speaks_for_itself_when_it_goes_on) {
  fabric_.freeze(1, true);
  ask(60ms);
  const uint64_t before = answers(0);
  EXPECT_GT(before, 0U);
  fabric_.freeze(1, false);
  fabric_.run(100, 100us);
  const uint64_t thawed = answers(0);
  ask(100ms);
  EXPECT_EQ(answers(0), thawed);
  EXPECT_GE(fabric_.received[1].size(), 100U);
  fabric_.expect_conserved();
}

/// The switch looks at endnodes every 5 ms. One that goes on in between answers for itself at once.
TEST_P(StandingEndnode, speaks_for_itself_before_the_next_look) {
  fabric_.freeze(1, true);
  ask(62ms);
  EXPECT_GT(answers(0), 0U);
  fabric_.freeze(1, false);
  fabric_.run(20, 1us);
  const uint64_t thawed = answers(0);
  const uint64_t dropped = fabric_.count(1, SwitchPortCounter::kDropStandstill);
  for (int i = 0; i < 40; ++i) {
    static_cast<void>(fabric_.send(0, request()));
    static_cast<void>(fabric_.send(2, request()));
    fabric_.run(1, 1us);
  }
  EXPECT_EQ(answers(0), thawed);
  EXPECT_EQ(fabric_.count(1, SwitchPortCounter::kDropStandstill), dropped);
  fabric_.expect_conserved();
}

/// One request in its ring is enough, and the next one finds it out.
TEST_P(StandingEndnode, need_not_be_full) {
  fabric_.freeze(1, true);
  ASSERT_TRUE(fabric_.send(0, request()));
  fabric_.run(60, kTurn);
  EXPECT_EQ(answers(0), 0U) << "the switch says nothing unasked";
  ask(3ms);
  EXPECT_GT(answers(0), 0U);
}

TEST_P(StandingEndnode, is_spoken_for_to_connected_requests_that_want_an_answer) {
  fabric_.freeze(1, true);
  ask(60ms);
  const uint64_t before = answers(0);
  EXPECT_GT(before, 0U);
  TestCell silent = request();
  silent.flags = 0;
  ask(5ms, silent);
  for (const Opcode opcode : {Opcode::kAck, Opcode::kRdmaReadResponse, Opcode::kUdSend}) {
    TestCell other = request();
    other.opcode = opcode;
    ask(5ms, other);
  }
  EXPECT_EQ(answers(0), before);
  ask(5ms, {.dlid = Lid(3), .flags = kCellAckWanted});
  EXPECT_EQ(answers(0), before) << "others are there";
}

TEST_P(StandingEndnode, is_spoken_for_at_a_rate) {
  fabric_.freeze(1, true);
  ask(60ms);
  const uint64_t before = answers(0);
  for (int i = 0; i < 4000; ++i) {
    static_cast<void>(fabric_.send(0, request()));
    fabric_.run(1, 25us);
    fabric_.received[0].clear();
  }
  EXPECT_GT(answers(0) - before, 150U);
  EXPECT_LE(answers(0) - before, 256U + 200U) << "a burst, and 2,000 a second for 0.1 s";
  ask(20ms, request(), 2);
  EXPECT_GT(answers(2), 10U) << "of each port that asks";
}

/// The link of node 2 goes in the middle of a cell to node 0. In the same turn node 0 asks the endnode that
/// stands still. An answer in front of the cell's end would break the framing of node 0's link.
TEST(StandingEndnodeAnswer, leaves_behind_the_end_of_a_cell_that_was_broken_off) {
  TestFabricConfig config;
  config.switching = small_switch(96);
  config.switching.link.cut_through = true;
  config.nodes = 3;
  TestFabric fabric(config);
  const TestCell request{.dlid = Lid(2), .number = 77, .flags = kCellAckWanted};
  const auto answers = [&] { return fabric.count(1, SwitchPortCounter::kStandstillAnswers); };
  fabric.freeze(1, true);
  for (int i = 0; i < 60; ++i) {
    static_cast<void>(fabric.send(0, request));
    fabric.run(1, kTurn);
  }
  const uint64_t before = answers();
  ASSERT_GT(before, 0U);
  const auto cell = make_cell({.dlid = Lid(1), .slid = Lid(3), .payload_bytes = 200});
  send_flit(fabric.link(2, kNode), cell, 0);
  fabric.link(2, kNode).flush(fabric.clock.now());
  fabric.run(5);
  ASSERT_TRUE(fabric.send(0, request));
  fabric.cable(2).unplug();
  fabric.run(20);
  EXPECT_EQ(fabric.count(1, SwitchPortCounter::kPoisonOut), 1U);
  EXPECT_EQ(fabric.link(0, kNode).counters().get(LinkCounter::kBadFraming), 0U);
  EXPECT_EQ(fabric.link(0, kNode).incarnation(), 1U);
  fabric.run(5, kTurn);
  ASSERT_TRUE(fabric.send(0, request));
  fabric.run(5, kTurn);
  EXPECT_GT(answers(), before) << "the next question has its answer";
}

INSTANTIATE_TEST_SUITE_P(Links, StandingEndnode, ::testing::Values(LinkKind::kMem, LinkKind::kShm),
                         link_name);

}  // namespace
}  // namespace weft::test
