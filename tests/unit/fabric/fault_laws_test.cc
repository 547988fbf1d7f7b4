// Faults on demand do what they say, in figures: how many cells each kind strikes, what a rate lets pass
// whatever is offered, how late a delay is; whom a rule is for, and when it ends.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <vector>

#include "fabric/switch/live_faults.h"
#include "tests/support/test_fabric.h"

namespace weft::test {
using namespace fabric;
namespace {

using namespace std::chrono_literals;

constexpr double kLaw = 0.05;  // what a fault may differ from its figure
constexpr uint32_t kCellPayload = 200;

/// Nodes 0, 1, 2 with ports 1, 2, 3. Time is virtual.
class FaultLaws : public ::testing::Test {
 protected:
  explicit FaultLaws(uint32_t flit_payload_bytes = 0) : fabric_(config(flit_payload_bytes)) {}

  static TestFabricConfig config(uint32_t flit_payload_bytes) {
    TestFabricConfig out;
    out.switching = small_switch(flit_payload_bytes);
    out.nodes = 3;
    return out;
  }
  static uint64_t cell_bits() {
    return make_cell({.dlid = Lid(2), .payload_bytes = kCellPayload}).size() * 8;
  }
  LiveFaults& faults() { return fabric_.fabric->faults(); }
  uint32_t set(const FaultRule& rule) {
    Result<uint32_t> id = faults().add(rule, fabric_.clock.now());
    EXPECT_TRUE(id.ok());
    return id ? *id : 0;
  }
  bool send(uint32_t from, uint32_t to, VirtualLane vl = VirtualLane(0)) {
    TestCell cell;
    cell.vl = vl;
    cell.dlid = Lid(static_cast<uint16_t>(to + 1));
    cell.number = next_++;
    cell.payload_bytes = kCellPayload;
    if (fabric_.send(from, cell)) return true;
    --next_;
    return false;
  }
  /// Sends until the lane has no credit left. Returns the number of cells.
  uint32_t fill(uint32_t from, uint32_t to, VirtualLane vl = VirtualLane(0)) {
    constexpr uint32_t kMost = 1000;
    uint32_t sent = 0;
    for (; sent < kMost && send(from, to, vl); ++sent) fabric_.step(1us);
    EXPECT_LT(sent, kMost) << "no credit is kept";
    return sent;
  }
  void expect_in_order(uint32_t node, size_t cells) {
    const auto& got = fabric_.received[node];
    ASSERT_EQ(got.size(), cells);
    for (size_t i = 1; i < cells; ++i) EXPECT_LT(cell_number(got[i - 1]), cell_number(got[i]));
  }
  /// No credit of this node's lanes is missing.
  void expect_all_credit(uint32_t node) {
    fabric_.run(100, 1ms);
    EXPECT_FALSE(faults().busy());
    for (uint8_t lane = 0; lane < 2; ++lane)
      EXPECT_EQ(fabric_.link(node, kNode).credits(VirtualLane(lane)),
                fabric_.link(node, kNode).params().credits_per_lane);
    fabric_.expect_conserved();
  }
  /// Sends `per_ms` cells each millisecond for a second; how many arrive meanwhile.
  size_t offer(uint32_t per_ms, uint32_t from = 0, uint32_t to = 1) {
    const size_t before = fabric_.received[to].size();
    for (uint32_t ms = 0; ms < 1000; ++ms) {
      for (uint32_t i = 0; i < per_ms; ++i) static_cast<void>(send(from, to));
      fabric_.run(4, 250us);
    }
    return fabric_.received[to].size() - before;
  }
  void expect_law(double measured, double figure) { EXPECT_NEAR(measured, figure, figure * kLaw); }

  TestFabric fabric_;
  uint32_t next_ = 0;
};

/// Cells of several flits.
class FaultLawsInFlits : public FaultLaws {
 protected:
  FaultLawsInFlits() : FaultLaws(96) {}
  /// The first flit of a cell that will not be whole.
  void send_half(uint32_t from, uint32_t to) {
    const auto slid = static_cast<uint16_t>(from + 1);
    const auto dlid = static_cast<uint16_t>(to + 1);
    const auto cell =
        make_cell({.dlid = Lid(dlid), .slid = Lid(slid), .number = 999, .payload_bytes = kCellPayload});
    send_flit(fabric_.link(from, kNode), cell, 0);
    fabric_.link(from, kNode).flush(fabric_.clock.now());
    fabric_.run(5);
  }
};

// ---- how many

TEST_F(FaultLaws, a_chance_is_a_share_of_the_cells) {
  const uint32_t id = set({.kind = FaultKind::kDrop, .port = 2, .chance_ppm = 200'000});
  size_t got = 0;
  for (int second = 0; second < 10; ++second) got += offer(2);
  expect_law(static_cast<double>(20'000 - got), 4'000);
  ASSERT_TRUE(faults().remove(id));
  set({.kind = FaultKind::kDuplicate, .port = 2, .chance_ppm = 200'000});
  got = 0;
  for (int second = 0; second < 10; ++second) got += offer(2);
  expect_law(static_cast<double>(got) - 20'000, 4'000);
}

TEST_F(FaultLaws, a_flap_cuts_its_share_of_the_time) {
  set({.kind = FaultKind::kFlap, .port = 2, .up = 30ms, .down = 20ms});
  expect_law(static_cast<double>(offer(4)), 4000 * 0.6);
}

TEST_F(FaultLaws, a_delay_is_felt_by_each_cell_and_drawn_evenly_between_its_bounds) {
  set({.kind = FaultKind::kDelay, .port = 2, .delay_min = 1ms, .delay_max = 3ms});
  double sum = 0;
  for (int i = 0; i < 500; ++i) {
    const size_t before = fabric_.received[1].size();
    const Instant sent = fabric_.clock.now();
    ASSERT_TRUE(send(0, 1));
    while (fabric_.received[1].size() == before) fabric_.step(10us);
    const double took = std::chrono::duration<double, std::milli>(fabric_.clock.now() - sent).count();
    EXPECT_GE(took, 1.0);
    EXPECT_LE(took, 3.1);
    sum += took;
  }
  expect_law(sum / 500, 2.0);
}

/// Both are judged in one turn and due at one time.
TEST_F(FaultLaws, cells_that_are_due_at_once_leave_as_they_came) {
  set({.kind = FaultKind::kDelay, .port = 2, .delay_min = 1ms, .delay_max = 1ms});
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(send(0, 1));
  fabric_.run(200, 10us);
  ASSERT_EQ(fabric_.received[1].size(), 5U);
  for (uint32_t i = 0; i < 5; ++i) EXPECT_EQ(cell_number(fabric_.received[1][i]), i);
}

// ---- rates

/// Under four times the rate as much passes as the rule says, in each second.
TEST_F(FaultLaws, a_rate_holds_however_much_more_is_offered) {
  set({.kind = FaultKind::kRate, .port = 2, .cells_per_second = 1000});
  static_cast<void>(offer(4));
  for (int second = 0; second < 5; ++second) expect_law(static_cast<double>(offer(4)), 1000);
  expect_law(static_cast<double>(offer(1)), 1000);
}

TEST_F(FaultLaws, a_rate_in_bits_counts_whole_cells) {
  set({.kind = FaultKind::kRate, .port = 2, .bits_per_second = 500 * cell_bits()});
  static_cast<void>(offer(2));
  for (int second = 0; second < 3; ++second) expect_law(static_cast<double>(offer(2)), 500);
}

TEST_F(FaultLawsInFlits, a_rate_in_bits_counts_whole_cells_of_several_flits) {
  set({.kind = FaultKind::kRate, .port = 2, .bits_per_second = 500 * cell_bits()});
  static_cast<void>(offer(2));
  for (int second = 0; second < 3; ++second) expect_law(static_cast<double>(offer(2)), 500);
}

/// As a cable has it.
TEST_F(FaultLaws, each_way_of_a_link_has_the_rate_for_itself) {
  set({.kind = FaultKind::kRate, .port = 2, .cells_per_second = 1000});
  const size_t before = fabric_.received[0].size();
  for (uint32_t ms = 0; ms < 2000; ++ms) {
    for (int i = 0; i < 2; ++i) {
      static_cast<void>(send(0, 1));
      static_cast<void>(send(1, 0));
    }
    fabric_.run(4, 250us);
  }
  expect_law(static_cast<double>(fabric_.received[1].size()), 2000);
  expect_law(static_cast<double>(fabric_.received[0].size() - before), 2000);
}

/// What waits for its turn keeps its credit, so the sender waits too.
TEST_F(FaultLaws, a_rate_loses_nothing_and_keeps_the_order) {
  set({.kind = FaultKind::kRate, .port = 2, .cells_per_second = 2000});
  size_t sent = 0;
  for (uint32_t ms = 0; ms < 1000; ++ms) {
    for (int i = 0; i < 8; ++i) sent += send(0, 1) ? 1U : 0U;
    fabric_.run(4, 250us);
  }
  expect_law(static_cast<double>(fabric_.received[1].size()), 2000);
  fabric_.run(300, 1ms);
  expect_in_order(1, sent);
  EXPECT_EQ(fabric_.drops(), 0U);
  EXPECT_GT(fabric_.count(1, SwitchPortCounter::kCellsPaced), 1900U);
  expect_all_credit(0);
}

/// Of a sender that always has more, only what the queue may be waits in the switch.
TEST_F(FaultLaws, the_queue_in_front_of_a_rate_is_short) {
  for (const uint32_t rate : {100U, 2000U}) {
    const uint32_t id = set({.kind = FaultKind::kRate, .port = 2, .cells_per_second = rate});
    for (uint32_t ms = 0; ms < 2000; ++ms) {
      fill(0, 1);
      fabric_.run(4, 250us);
    }
    EXPECT_LE(faults().held(), std::max(2U, rate / 200)) << rate;
    EXPECT_GE(faults().held(), 1U) << rate;
    ASSERT_TRUE(faults().remove(id));
    fabric_.run(100, 1ms);
  }
  EXPECT_EQ(fabric_.drops(), 0U);
  expect_all_credit(0);
}

/// The credits that a slow rate has kept back return bit by bit when the rate grows, and none returns twice.
TEST_F(FaultLaws, a_rate_that_grows_gives_each_credit_back_once) {
  const auto offer_all = [this](uint32_t ms) {
    for (; ms > 0; --ms) {
      fill(0, 1);
      fabric_.run(4, 250us);
    }
  };
  const uint32_t slow = set({.kind = FaultKind::kRate, .port = 2, .cells_per_second = 100});
  offer_all(500);
  EXPECT_LE(faults().held(), 2U);
  ASSERT_TRUE(faults().remove(slow));
  const uint32_t fast = set({.kind = FaultKind::kRate, .port = 2, .cells_per_second = 2000});
  offer_all(500);
  EXPECT_GE(faults().held(), 6U) << "the queue has grown";
  EXPECT_LE(faults().held(), 11U) << "to 5 ms at this rate, and the cell on its way";
  ASSERT_TRUE(faults().remove(fast));
  EXPECT_EQ(fabric_.drops(), 0U);
  expect_all_credit(0);
}

/// The second cell comes when the link is at rest, and before the time of the first one has passed.
TEST_F(FaultLaws, a_cell_takes_its_time_though_none_waits_behind_it) {
  set({.kind = FaultKind::kRate, .port = 2, .cells_per_second = 1000});
  ASSERT_TRUE(send(0, 1));
  fabric_.run(10, 10us);
  ASSERT_EQ(fabric_.received[1].size(), 1U);
  ASSERT_TRUE(send(0, 1));
  fabric_.run(80, 10us);
  EXPECT_EQ(fabric_.received[1].size(), 1U);
  fabric_.run(20, 10us);
  EXPECT_EQ(fabric_.received[1].size(), 2U);
}

TEST_F(FaultLaws, senders_take_turns_on_a_link_with_a_rate) {
  set({.kind = FaultKind::kRate, .port = 2, .direction = FaultDirection::kTo, .cells_per_second = 1000});
  for (const uint32_t from : {0U, 2U}) {
    for (int i = 0; i < 6; ++i) ASSERT_TRUE(send(from, 1));
  }
  fabric_.run(400, 100us);
  ASSERT_EQ(fabric_.received[1].size(), 12U);
  uint32_t of_second = 0;
  for (size_t i = 0; i < 8; ++i) of_second += cell_number(fabric_.received[1][i]) >= 6 ? 1U : 0U;
  EXPECT_GE(of_second, 3U) << "of the first eight";
  EXPECT_LE(of_second, 5U) << "of the first eight";
}

TEST_F(FaultLaws, cells_of_a_rate_that_ends_go_at_once_in_order) {
  const uint32_t id = set({.kind = FaultKind::kRate, .port = kFaultEveryPort, .cells_per_second = 10});
  for (int i = 0; i < 14; ++i) ASSERT_TRUE(send(0, 1));
  fabric_.run(150, 1ms);
  ASSERT_GT(faults().held(), 10U);
  ASSERT_TRUE(faults().remove(id));
  for (int i = 0; i < 14; ++i) ASSERT_TRUE(send(0, 1));
  fabric_.run(20);
  expect_in_order(1, 28);
  expect_all_credit(0);
}

/// Each sender has cells in front of its own link, and others that wait for the link of the receiver.
TEST_F(FaultLaws, cells_of_each_sender_keep_their_order_when_a_rate_for_a_whole_switch_ends) {
  constexpr uint32_t kEach = 14;
  const uint32_t id = set({.kind = FaultKind::kRate, .port = kFaultEveryPort, .cells_per_second = 100});
  for (const uint32_t from : {0U, 2U}) {
    for (uint32_t i = 0; i < kEach; ++i) ASSERT_TRUE(send(from, 1));
  }
  fabric_.run(60, 1ms);
  ASSERT_TRUE(faults().remove(id));
  fabric_.run(20);
  std::array<std::vector<uint32_t>, 2> got;
  for (const auto& cell : fabric_.received[1]) got.at(cell_number(cell) / kEach).push_back(cell_number(cell));
  for (const std::vector<uint32_t>& numbers : got) {
    EXPECT_EQ(numbers.size(), kEach);
    EXPECT_TRUE(std::is_sorted(numbers.begin(), numbers.end()));
  }
}

TEST_F(FaultLaws, cells_that_a_rate_does_not_strike_stay_behind_those_that_it_does) {
  set({.kind = FaultKind::kRate, .port = 2, .every = 2, .cells_per_second = 100});
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(send(0, 1));
  fabric_.run(200, 1ms);
  expect_in_order(1, 20);
}

/// One that is due later than a lifetime is given up, and no later one stays behind it.
TEST_F(FaultLaws, cells_that_wait_for_a_lifetime_are_given_up_with_their_credit) {
  set({.kind = FaultKind::kRate, .port = 2, .bits_per_second = cell_bits() / 10});
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(send(0, 1));
  fabric_.run(1900, 1ms);
  EXPECT_EQ(faults().held(), 4U);
  fabric_.run(200, 1ms);
  EXPECT_EQ(faults().held(), 0U);
  EXPECT_EQ(fabric_.received[1].size(), 1U);
  EXPECT_EQ(fabric_.count(1, SwitchPortCounter::kDropLifetime), 4U);
  expect_all_credit(0);
}

TEST_F(FaultLaws, a_link_that_goes_frees_what_waits_for_it) {
  set({.kind = FaultKind::kRate, .port = kFaultEveryPort, .cells_per_second = 10});
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(send(0, 1));
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(send(0, 2, VirtualLane(1)));
  fabric_.run(20);
  fabric_.cable(1).unplug();
  fabric_.run(20);
  EXPECT_EQ(fabric_.count(1, SwitchPortCounter::kDropPortDown) + fabric_.received[1].size(), 20U);
  EXPECT_LE(fabric_.received[1].size(), 1U);
  fabric_.run(1000, 1ms);
  EXPECT_EQ(fabric_.received[2].size(), 5U);
  expect_all_credit(0);
}

/// Programs end right after their last Send. The next one on the port needs the buffers.
TEST_F(FaultLaws, what_a_sender_that_goes_has_sent_arrives_until_the_next_one_joins) {
  set({.kind = FaultKind::kRate, .port = 2, .cells_per_second = 100});
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(send(0, 1));
  fabric_.run(20);
  fabric_.cable(0).unplug();
  fabric_.run(100, 1ms);
  EXPECT_NEAR(static_cast<double>(fabric_.received[1].size()), 11, 1);
  ASSERT_EQ(fabric_.cable(0).plug(fabric_.clock.now()), LinkRefusal::kNone);
  fabric_.run(300, 1ms);
  EXPECT_LE(fabric_.received[1].size(), 13U);
  EXPECT_EQ(faults().held(), 0U);
  EXPECT_EQ(fabric_.received[1].size() + fabric_.count(1, SwitchPortCounter::kDropLinkReset), 20U);
  ASSERT_TRUE(send(0, 1));
  fabric_.run(20, 1ms);
  expect_all_credit(0);
}

/// Both links of the cells are new ones when the switch looks, and it looks at their output first.
TEST_F(FaultLaws, a_new_link_gets_no_credit_of_cells_that_waited_for_another) {
  set({.kind = FaultKind::kRate, .port = 1, .cells_per_second = 10});
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(send(1, 0));
  fabric_.run(20);
  for (const size_t link : {size_t{0}, size_t{1}}) {
    fabric_.cable(link).unplug();
    ASSERT_EQ(fabric_.cable(link).plug(fabric_.clock.now()), LinkRefusal::kNone);
  }
  expect_all_credit(1);
  EXPECT_EQ(fabric_.link(1, kNode).counters().get(LinkCounter::kCreditBeyondSent), 0U);
  EXPECT_EQ(fabric_.link(1, kNode).incarnation(), 2U);
}

/// A rate lets a sender have few credits, and gives the others back after a pause.
TEST_F(FaultLaws, credits_that_were_kept_back_from_an_old_link_are_none_of_the_new_one) {
  set({.kind = FaultKind::kRate, .port = 2, .cells_per_second = 1000});
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(send(0, 1));
  fabric_.run(25, 1ms);
  ASSERT_EQ(fabric_.received[1].size(), 20U);
  ASSERT_LT(fabric_.link(0, kNode).credits(VirtualLane(0)), fabric_.link(0, kNode).params().credits_per_lane);
  fabric_.cable(0).unplug();
  fabric_.run(5);
  ASSERT_EQ(fabric_.cable(0).plug(fabric_.clock.now()), LinkRefusal::kNone);
  fabric_.run(5);
  ASSERT_TRUE(send(0, 1));
  expect_all_credit(0);
  EXPECT_EQ(fabric_.link(0, kNode).counters().get(LinkCounter::kCreditBeyondSent), 0U);
  EXPECT_EQ(fabric_.link(0, kNode).incarnation(), 2U);
}

/// Without the rate there is no reason to keep them back.
TEST_F(FaultLaws, credits_that_were_kept_back_return_at_once_when_the_rate_ends) {
  const uint32_t rate = set({.kind = FaultKind::kRate, .port = 2, .cells_per_second = 1000});
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(send(0, 1));
  fabric_.run(25, 1ms);
  const LinkEngine& sender = fabric_.link(0, kNode);
  ASSERT_LT(sender.credits(VirtualLane(0)), sender.params().credits_per_lane);
  ASSERT_TRUE(faults().remove(rate));
  fabric_.run(10, 50us);
  EXPECT_EQ(sender.credits(VirtualLane(0)), sender.params().credits_per_lane);
}

TEST_F(FaultLaws, the_lanes_of_a_slow_link_share_it_and_management_goes_first) {
  set({.kind = FaultKind::kRate, .port = 2, .cells_per_second = 1000});
  const auto by_lane = [this](uint8_t lane) {
    return std::count_if(fabric_.received[1].begin(), fabric_.received[1].end(), [lane](const auto& cell) {
      return CellHead(cell.data()).vl() == VirtualLane(lane);
    });
  };
  for (uint32_t ms = 0; ms < 1000; ++ms) {
    fill(0, 1, VirtualLane(0));
    fill(2, 1, VirtualLane(0));
    fill(0, 1, VirtualLane(1));
    fabric_.run(4, 250us);
  }
  expect_law(static_cast<double>(by_lane(0)), 500);
  expect_law(static_cast<double>(by_lane(1)), 500);
  ASSERT_TRUE(send(2, 1, kVlManagement));
  fabric_.run(10, 250us);
  EXPECT_EQ(by_lane(15), 1);
}

/// Lane 15 has no credits: what finds no room is lost, as elsewhere in the switch.
TEST_F(FaultLaws, management_cells_that_wait_have_a_bound) {
  set({.kind = FaultKind::kRate, .port = 2, .cells_per_second = 10});
  for (uint32_t i = 0; i < 60; ++i) {
    static_cast<void>(send(0, 1, kVlManagement));
    fabric_.run(2, 1ms);
  }
  EXPECT_LE(faults().held(), kManagementCellsMax);
  EXPECT_GT(fabric_.count(1, SwitchPortCounter::kDropManagementFull), 20U);
  fabric_.expect_conserved();
}

TEST_F(FaultLaws, a_rule_for_a_whole_switch_is_one_and_each_link_has_its_rate) {
  set({.kind = FaultKind::kRate, .port = kFaultEveryPort, .cells_per_second = 1000});
  EXPECT_EQ(faults().rules().size(), 1U);
  for (uint32_t ms = 0; ms < 2000; ++ms) {
    for (int i = 0; i < 2; ++i) {
      static_cast<void>(send(0, 1));
      static_cast<void>(send(1, 2));
      static_cast<void>(send(2, 0));
    }
    fabric_.run(4, 250us);
  }
  for (uint32_t node = 0; node < 3; ++node)
    expect_law(static_cast<double>(fabric_.received[node].size()), 2000);
  fabric_.expect_conserved();
}

/// Two that send to one share the rate of its link.
TEST_F(FaultLaws, a_rate_for_a_whole_switch_holds_where_several_send_to_one) {
  set({.kind = FaultKind::kRate, .port = kFaultEveryPort, .cells_per_second = 1000});
  for (uint32_t ms = 0; ms < 2000; ++ms) {
    static_cast<void>(send(0, 1));
    static_cast<void>(send(2, 1));
    fabric_.run(4, 250us);
  }
  expect_law(static_cast<double>(fabric_.received[1].size()), 2000);
}

TEST_F(FaultLaws, a_drop_for_a_whole_switch_strikes_each_cell_once) {
  set({.kind = FaultKind::kDrop, .port = kFaultEveryPort, .every = 4});
  EXPECT_EQ(offer(1), 750U);
  EXPECT_EQ(faults().rules()[0].matched, 1000U);
}

// ---- cells that never go

/// Of a sender that hangs, or is hostile. What others send passes, and the switch does not spin.
TEST_F(FaultLawsInFlits, a_half_cell_that_is_held_stops_nobody) {
  for (const FaultKind kind : {FaultKind::kDelay, FaultKind::kRate, FaultKind::kReorder}) {
    FaultRule rule{.kind = kind, .port = 2};
    if (kind == FaultKind::kDelay) rule.delay_min = rule.delay_max = 1ms;
    if (kind == FaultKind::kRate) rule.cells_per_second = 10'000;
    const uint32_t id = set(rule);
    const size_t before = fabric_.received[1].size();
    send_half(0, 1);
    ASSERT_EQ(faults().held(), 1U);
    for (int i = 0; i < 5; ++i) {
      ASSERT_TRUE(send(2, 1));
      fabric_.run(30, 100us);
    }
    EXPECT_EQ(fabric_.received[1].size(), before + 5) << to_string(kind);
    EXPECT_EQ(faults().deadline(), kNever) << "nothing is due";
    ASSERT_TRUE(faults().remove(id));
    fabric_.link(0, kSwitch).take_down();
    fabric_.run(50, 100us);
    EXPECT_EQ(faults().held(), 0U);
  }
}

/// Its sender appends flits without end; the switch gives it up when it is longer than any cell.
TEST_F(FaultLawsInFlits, a_cell_that_is_too_long_gives_its_credit_back) {
  set({.kind = FaultKind::kRate, .port = 2, .cells_per_second = 10'000});
  const auto cell = make_cell({.dlid = Lid(2), .slid = Lid(1), .number = 999, .payload_bytes = kCellPayload});
  send_half(0, 1);
  ASSERT_EQ(faults().held(), 1U);
  for (int flit = 0; flit < 100 && fabric_.count(1, SwitchPortCounter::kDropTooLong) == 0; ++flit) {
    send_flit(fabric_.link(0, kNode), cell, 1);
    fabric_.link(0, kNode).flush(fabric_.clock.now());
    fabric_.run(5);
  }
  EXPECT_EQ(fabric_.count(1, SwitchPortCounter::kDropTooLong), 1U);
  EXPECT_EQ(faults().held(), 0U);
  send_flit(fabric_.link(0, kNode), cell, cell.size() / 96);
  fabric_.link(0, kNode).flush(fabric_.clock.now());
  expect_all_credit(0);
}

/// A cell that was let pass by a half one, and the half one's rest comes after all.
TEST_F(FaultLawsInFlits, a_half_cell_that_becomes_whole_goes_when_it_is_due) {
  set({.kind = FaultKind::kDelay, .port = 2, .delay_min = 1ms, .delay_max = 1ms});
  const auto cell = make_cell({.dlid = Lid(2), .slid = Lid(1), .number = 999, .payload_bytes = kCellPayload});
  send_half(0, 1);
  fabric_.run(100, 100us);
  for (size_t flit = 1; flit * 96 < cell.size(); ++flit) send_flit(fabric_.link(0, kNode), cell, flit);
  fabric_.link(0, kNode).flush(fabric_.clock.now());
  fabric_.run(10);
  EXPECT_EQ(fabric_.received[1].size(), 1U);
  EXPECT_EQ(faults().held(), 0U);
}

/// The rest of a held cell comes when its output has a new link: the switch has lost nothing of the cell.
TEST_F(FaultLawsInFlits, a_half_cell_that_is_held_goes_over_the_next_link_of_its_output) {
  set({.kind = FaultKind::kDelay, .port = 2, .delay_min = 1ms, .delay_max = 1ms});
  const auto cell = make_cell({.dlid = Lid(2), .slid = Lid(1), .number = 999, .payload_bytes = kCellPayload});
  send_half(0, 1);
  fabric_.cable(1).unplug();
  fabric_.run(5);
  ASSERT_EQ(fabric_.cable(1).plug(fabric_.clock.now()), LinkRefusal::kNone);
  fabric_.run(5);
  for (size_t flit = 1; flit * 96 < cell.size(); ++flit) send_flit(fabric_.link(0, kNode), cell, flit);
  fabric_.link(0, kNode).flush(fabric_.clock.now());
  fabric_.run(20, 100us);
  EXPECT_EQ(fabric_.received[1].size(), 1U);
  EXPECT_EQ(faults().held(), 0U);
}

/// Its cells are tried again once a millisecond, not in every turn, and given up after their lifetime.
TEST_F(FaultLaws, cells_held_for_an_endnode_that_does_not_read_are_given_up) {
  set({.kind = FaultKind::kDelay, .port = 2, .delay_min = 1ms, .delay_max = 1ms});
  fabric_.freeze(1, true);
  for (int i = 0; i < 400; ++i) {
    static_cast<void>(send(0, 1));
    fabric_.step(10us);
  }
  fabric_.run(100, 1ms);
  ASSERT_GT(faults().held(), 0U);
  EXPECT_GT(faults().deadline(), fabric_.clock.now()) << "the switch sleeps between the tries";
  EXPECT_LE(faults().deadline(), fabric_.clock.now() + 1ms);
  fabric_.run(2500, 1ms);
  EXPECT_EQ(faults().held(), 0U);
  EXPECT_GT(fabric_.count(1, SwitchPortCounter::kDropLifetime), 0U);
  fabric_.expect_conserved();
}

// ---- whom a rule is for

/// The next endnode on the port has done nothing.
TEST_F(FaultLaws, a_rule_for_an_endnode_ends_with_its_link) {
  const Guid one = fabric_.link(1, kSwitch).params().peer_guid;
  const PortNumber port = fabric_.fabric->port_of(one);
  ASSERT_EQ(port, 2U);
  set({.kind = FaultKind::kCut, .port = port, .guid = one});
  set({.kind = FaultKind::kCut, .port = 3});
  EXPECT_EQ(offer(1), 0U);
  fabric_.link(1, kSwitch).take_down();
  fabric_.run(50, 100us);
  ASSERT_EQ(faults().rules().size(), 1U);
  EXPECT_EQ(faults().rules()[0].rule.port, 3U) << "a rule for a port stays";
  EXPECT_EQ(offer(1), 1000U);
}

TEST_F(FaultLaws, a_rule_can_wait_for_its_endnode) {
  const Guid one = fabric_.link(1, kSwitch).params().peer_guid;
  fabric_.cable(1).unplug();
  fabric_.run(5, 10us);
  EXPECT_EQ(fabric_.fabric->port_of(one), kPortNone);
  set({.kind = FaultKind::kCut, .port = kPortNone, .guid = one, .lasts = 500ms});
  fabric_.run(1000, 1ms);
  EXPECT_EQ(faults().rules()[0].matched, 0U) << "it is for nobody else";
  ASSERT_EQ(fabric_.cable(1).plug(fabric_.clock.now()), LinkRefusal::kNone);
  fabric_.run(5, 10us);
  EXPECT_EQ(faults().rules()[0].rule.port, 2U);
  EXPECT_NEAR(static_cast<double>(offer(1)), 500, 25) << "its time begins with the endnode";
}

}  // namespace
}  // namespace weft::test
