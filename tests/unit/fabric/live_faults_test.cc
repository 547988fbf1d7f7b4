#include "fabric/switch/live_faults.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <vector>

#include "base/stats_page.h"
#include "tests/support/shaped_fabric.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_fabric.h"

namespace weft::test {
using namespace fabric;
namespace {

/// Node 0 sends numbered cells to node 1 through a switch that has rules.
class LiveFaultsInASwitch : public ShapedFabric {
 protected:
  uint32_t set(FaultRule rule) {
    if (rule.port == 0) rule.port = 2;  // node 1's
    Result<uint32_t> id = fabric_.fabric->faults().add(rule, fabric_.clock.now());
    EXPECT_TRUE(id.ok());
    return id ? *id : 0;
  }
  /// Lets everything arrive; numbers of the cells that node `to` got, in order, each with its CRC right.
  std::vector<uint32_t> arrived(uint32_t to = 1, int turns = 2000) {
    fabric_.run(turns, 10us);
    fabric_.expect_conserved();
    std::vector<uint32_t> numbers;
    for (const std::vector<std::byte>& bytes : fabric_.received[to]) {
      CellView view;
      EXPECT_EQ(decode_cell(bytes, CrcCheck::kVerify, view), CellError::kNone);
      numbers.push_back(view.psn.value());
    }
    return numbers;
  }
  uint64_t fault_drops() { return fabric_.total(SwitchPortCounter::kDropFault); }
};

INSTANTIATE_TEST_SUITE_P(Links, LiveFaultsInASwitch, ShapedFabric::shapes(), ShapedFabric::name_of);

TEST_P(LiveFaultsInASwitch, every_tenth_cell_is_lost_and_counted_at_its_port) {
  set({.every = 10});
  send(100);
  const std::vector<uint32_t> got = arrived();
  EXPECT_EQ(got.size(), 90U);
  for (const uint32_t number : got) EXPECT_NE(number % 10, 9U);
  EXPECT_EQ(fault_drops(), 10U);
  EXPECT_EQ(fabric_.count(1, SwitchPortCounter::kDropFault), 10U);
  EXPECT_EQ(fabric_.fabric->faults().rules()[0].struck, 10U);
  EXPECT_EQ(fabric_.fabric->faults().rules()[0].matched, 100U);
}

TEST_P(LiveFaultsInASwitch, the_same_seed_strikes_the_same_cells) {
  std::array<std::vector<uint32_t>, 2> got;
  for (std::vector<uint32_t>& each : got) {
    const uint32_t id = set({.chance_ppm = 200'000, .seed = 7});
    next_ = 0;
    fabric_.received[1].clear();
    send(200);
    each = arrived();
    EXPECT_TRUE(fabric_.fabric->faults().remove(id));
  }
  EXPECT_EQ(got[0], got[1]);
  EXPECT_GT(got[0].size(), 120U);
  EXPECT_LT(got[0].size(), 190U);
}

TEST_P(LiveFaultsInASwitch, a_corrupt_cell_is_dropped_at_the_next_hop_or_where_a_cell_is_a_flit_here) {
  set({.kind = FaultKind::kCorrupt, .every = 5});
  send(50);
  EXPECT_EQ(arrived().size(), 40U);
  EXPECT_EQ(fabric_.total(SwitchPortCounter::kPoisonOut), GetParam().flit_payload_bytes == 0 ? 0U : 10U);
  EXPECT_EQ(fault_drops(), GetParam().flit_payload_bytes == 0 ? 10U : 0U);
}

TEST_P(LiveFaultsInASwitch, a_duplicate_comes_whole_and_soon) {
  set({.kind = FaultKind::kDuplicate, .every = 4});
  send(40);
  const std::vector<uint32_t> got = arrived();
  EXPECT_EQ(got.size(), 50U);
  std::vector<uint32_t> times(40);
  for (const uint32_t number : got) ++times[number];
  for (uint32_t i = 0; i < 40; ++i) EXPECT_EQ(times[i], i % 4 == 3 ? 2U : 1U) << i;
}

TEST_P(LiveFaultsInASwitch, a_reordered_cell_lets_the_next_pass_and_never_waits_for_long) {
  set({.kind = FaultKind::kReorder, .every = 3});
  send(7);
  const std::vector<uint32_t> got = arrived();
  ASSERT_EQ(got.size(), 7U);
  const auto place = [&got](uint32_t number) {
    return std::find(got.begin(), got.end(), number) - got.begin();
  };
  EXPECT_EQ(place(0), 0);
  EXPECT_EQ(place(1), 1);
  EXPECT_GT(place(2), place(3));
  EXPECT_GT(place(5), place(6));
  send(2);  // the second is struck, and nothing follows it
  EXPECT_EQ(arrived().back(), 8U);
}

TEST_P(LiveFaultsInASwitch, one_cell_overtakes_all_that_wait_for_it) {
  set({.kind = FaultKind::kReorder, .limit = 3});
  for (int i = 0; i < 3; ++i) {
    send(1);
    fabric_.run(3);
  }
  EXPECT_EQ(fabric_.fabric->faults().held(), 3U);
  send(1);
  EXPECT_EQ(arrived(1, 20), (std::vector<uint32_t>{3, 0, 1, 2})) << "long before a millisecond";
}

/// Its order is that of one output: what goes elsewhere does not pass it.
TEST_P(LiveFaultsInASwitch, a_reordered_cell_waits_for_one_of_its_own_output) {
  set({.kind = FaultKind::kReorder, .limit = 1});
  send(1);
  send(1, 2);
  fabric_.run(5);
  EXPECT_EQ(fabric_.fabric->faults().held(), 1U);
  send(1);
  EXPECT_EQ(arrived(), (std::vector<uint32_t>{2, 0}));
}

TEST_P(LiveFaultsInASwitch, the_first_rule_that_strikes_decides) {
  FaultRule late;
  late.kind = FaultKind::kDelay;
  late.delay_min = late.delay_max = 1ms;
  late.limit = 5;
  set(late);
  set({});
  send(8);
  EXPECT_EQ(arrived(), (std::vector<uint32_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(fault_drops(), 3U);
  EXPECT_EQ(fabric_.fabric->faults().rules()[1].matched, 3U);
}

TEST_P(LiveFaultsInASwitch, a_delay_keeps_the_order_when_it_is_even_and_not_when_it_is_not) {
  FaultRule rule;
  rule.kind = FaultKind::kDelay;
  rule.delay_min = rule.delay_max = 5ms;
  const uint32_t even = set(rule);
  const Instant before = fabric_.clock.now();
  send(50);
  while (fabric_.received[1].empty()) fabric_.step();
  EXPECT_GE(fabric_.clock.now() - before, 5ms);
  std::vector<uint32_t> got = arrived();
  EXPECT_EQ(got.size(), 50U);
  EXPECT_TRUE(std::is_sorted(got.begin(), got.end()));
  ASSERT_TRUE(fabric_.fabric->faults().remove(even));
  rule.delay_min = 1us;
  set(rule);
  fabric_.received[1].clear();
  send(50);
  got = arrived();
  EXPECT_EQ(got.size(), 50U);
  EXPECT_FALSE(std::is_sorted(got.begin(), got.end()));
}

TEST_P(LiveFaultsInASwitch, a_cell_that_was_late_leaves_between_the_cells_of_others) {
  if (GetParam().flit_payload_bytes == 0) return send(1);  // a cell is one flit: nothing comes between
  FaultRule rule;
  rule.port = 1;  // of node 0 alone
  rule.kind = FaultKind::kDelay;
  rule.delay_min = rule.delay_max = 1ms;
  set(rule);
  send(1);
  const std::vector<std::byte> other =
      make_cell({.dlid = Lid(2), .slid = Lid(3), .number = 77, .payload_bytes = 200});
  send_flit(fabric_.link(2, kNode), other, 0);
  fabric_.run(300, 10us);  // the first is due, the other one half across
  for (size_t i = 1; i * 96 < other.size(); ++i) send_flit(fabric_.link(2, kNode), other, i);
  EXPECT_EQ(arrived().size(), 2U);
  EXPECT_EQ(fault_drops(), 0U);
}

TEST_P(LiveFaultsInASwitch, a_rate_lets_so_many_cells_pass_in_a_second) {
  set({.kind = FaultKind::kRate, .cells_per_second = 2000});
  const Instant start = fabric_.clock.now();
  send(30);
  while (fabric_.received[1].size() < 30 && fabric_.clock.now() - start < 1s) fabric_.step(10us);
  EXPECT_GE(fabric_.clock.now() - start, 14ms);
  EXPECT_LE(fabric_.clock.now() - start, 15ms);
  EXPECT_EQ(arrived().size(), 30U);
}

TEST_P(LiveFaultsInASwitch, a_cut_takes_one_direction_or_both) {
  // From node 1: what node 0 sends it is not concerned.
  const uint32_t id = set({.kind = FaultKind::kCut, .direction = FaultDirection::kFrom});
  send(10);
  EXPECT_EQ(arrived().size(), 10U);
  ASSERT_TRUE(fabric_.fabric->faults().remove(id));
  set({.kind = FaultKind::kCut, .direction = FaultDirection::kTo});
  send(10);
  EXPECT_EQ(arrived().size(), 10U);
  EXPECT_EQ(fault_drops(), 10U);
  send(10, 2);
  EXPECT_EQ(arrived(2).size(), 10U) << "another node's";
}

TEST_P(LiveFaultsInASwitch, a_flap_passes_and_cuts_in_turn) {
  FaultRule rule;
  rule.kind = FaultKind::kFlap;
  rule.up = rule.down = 1ms;
  set(rule);
  for (int i = 0; i < 100; ++i) {
    send(1);
    fabric_.run(10, 10us);
  }
  const auto got = static_cast<double>(arrived().size());
  EXPECT_GT(got, 35);
  EXPECT_LT(got, 65);
}

TEST_P(LiveFaultsInASwitch, lane_operation_number_and_time_choose_the_cells) {
  FaultRule lane;
  lane.lanes = 1U << 2;
  const uint32_t id = set(lane);
  send(5, 1, 2);
  send(5, 1, 0);
  EXPECT_EQ(arrived().size(), 5U);
  ASSERT_TRUE(fabric_.fabric->faults().remove(id));
  FaultRule other;
  other.opcode = static_cast<uint8_t>(Opcode::kUdSend);
  set(other);
  FaultRule limited;
  limited.limit = 3;
  set(limited);
  send(10);
  EXPECT_EQ(arrived().size(), 12U);
  FaultRule timed;
  timed.lasts = 1ms;
  set(timed);
  fabric_.run(200, 10us);
  send(5);
  EXPECT_EQ(arrived().size(), 17U);
}

TEST_P(LiveFaultsInASwitch, more_than_it_can_hold_is_lost_and_counted) {
  FaultRule rule;
  rule.kind = FaultKind::kDelay;
  rule.delay_min = rule.delay_max = 1s;
  set(rule);
  send(kFaultHeldMax + 10);
  EXPECT_EQ(fault_drops(), 10U);
  EXPECT_EQ(fabric_.fabric->faults().held(), kFaultHeldMax);
  fabric_.fabric->faults().clear();
  for (int i = 0; i < 20'000 && fabric_.fabric->faults().held() != 0; ++i) fabric_.run(100, 10us);
  EXPECT_EQ(fabric_.fabric->faults().held(), 0U);
  EXPECT_EQ(arrived().size(), kFaultHeldMax);
}

TEST_P(LiveFaultsInASwitch, what_is_held_for_a_link_that_goes_is_dropped) {
  FaultRule rule;
  rule.kind = FaultKind::kDelay;
  rule.delay_min = rule.delay_max = 5ms;
  set(rule);
  send(20);
  fabric_.link(1, kSwitch).take_down();
  fabric_.run(3000, 10us);
  fabric_.expect_conserved();
  EXPECT_EQ(fabric_.fabric->faults().held(), 0U);
  EXPECT_EQ(fabric_.total(SwitchPortCounter::kDropLinkReset), 20U);
}

TEST_P(LiveFaultsInASwitch, what_never_comes_whole_is_counted_and_not_held) {
  if (GetParam().flit_payload_bytes == 0) return send(1);  // a cell is one flit
  FaultRule rule;
  rule.kind = FaultKind::kDelay;
  rule.delay_min = rule.delay_max = 1ms;
  set(rule);
  send_flit(fabric_.link(2, kNode), make_cell({.dlid = Lid(2), .slid = Lid(3), .payload_bytes = 200}), 0);
  fabric_.run(5);
  ASSERT_EQ(fabric_.fabric->faults().held(), 1U);
  fabric_.link(2, kSwitch).take_down();
  fabric_.run(300, 10us);
  EXPECT_EQ(fabric_.fabric->faults().held(), 0U);
  EXPECT_TRUE(arrived().empty());
  EXPECT_EQ(fabric_.total(SwitchPortCounter::kDropLinkReset), 1U);
}

TEST_P(LiveFaultsInASwitch, what_is_held_from_a_link_that_goes_still_arrives) {
  FaultRule rule;
  rule.kind = FaultKind::kDelay;
  rule.delay_min = rule.delay_max = 5ms;
  set(rule);
  send(20);
  fabric_.link(0, kSwitch).take_down();
  EXPECT_EQ(arrived().size(), 20U);
  EXPECT_EQ(fabric_.total(SwitchPortCounter::kDropLinkReset), 0U);
}

TEST(LiveFaultRules, nonsense_is_refused_by_name) {
  LiveFaults faults;
  const auto refused = [&faults](auto change) {
    FaultRule rule;
    rule.port = 1;
    change(rule);
    return !faults.add(rule, Instant{}).ok();
  };
  EXPECT_TRUE(refused([](FaultRule& rule) { rule.chance_ppm = 0; }));
  EXPECT_TRUE(refused([](FaultRule& rule) { rule.chance_ppm = 1'000'001; }));
  EXPECT_TRUE(refused([](FaultRule& rule) { rule.every = 0; }));
  EXPECT_TRUE(refused([](FaultRule& rule) { rule.lanes = 0; }));
  EXPECT_TRUE(refused([](FaultRule& rule) { rule.opcode = 0xFE; }));
  EXPECT_TRUE(refused([](FaultRule& rule) { rule.kind = FaultKind::kDelay; }));
  EXPECT_TRUE(refused([](FaultRule& rule) { rule.kind = FaultKind::kRate; }));
  EXPECT_TRUE(refused([](FaultRule& rule) {
    rule.kind = FaultKind::kRate;
    rule.cells_per_second = 1;
    rule.bits_per_second = 1;
  })) << "one or the other";
  EXPECT_TRUE(refused([](FaultRule& rule) { rule.kind = FaultKind::kFlap; }));
  EXPECT_TRUE(faults.rules().empty());
  for (size_t i = 0; i < kFaultRulesMax; ++i) EXPECT_FALSE(refused([](FaultRule&) {}));
  EXPECT_TRUE(refused([](FaultRule&) {}));
  EXPECT_FALSE(faults.remove(999));
}

/// Cells pass by the shorter way again when no rule is left.
TEST(LiveFaultRules, rules_that_ended_are_not_active) {
  LiveFaults faults;
  const auto add = [&](FaultRule rule) { return faults.add(rule, Instant{}).value(); };
  EXPECT_FALSE(faults.active());
  const uint32_t one = add({.port = 1});
  const uint32_t two = add({.port = 1});
  EXPECT_TRUE(faults.remove(one));
  EXPECT_TRUE(faults.active());
  EXPECT_TRUE(faults.remove(two));
  EXPECT_FALSE(faults.active());
  add({.port = 1});
  add({.port = 2, .guid = Guid(9)});
  faults.left(2);
  EXPECT_TRUE(faults.active());
  faults.clear();
  EXPECT_FALSE(faults.active());
  EXPECT_FALSE(faults.remove(one));
  EXPECT_FALSE(faults.active());
}

TEST(LiveFaultRules, words_are_read_as_they_are_written) {
  for (const FaultKindInfo& row : kFaultKinds) EXPECT_EQ(fault_kind(to_string(row.kind)), row.kind);
  for (const FaultDirection direction : {FaultDirection::kBoth, FaultDirection::kFrom, FaultDirection::kTo})
    EXPECT_EQ(fault_direction(to_string(direction)), direction);
  EXPECT_FALSE(fault_kind("dropp"));
}

/// A program reads there which rules strike, without asking the switch.
TEST(FaultPage, shows_the_rules_in_force_and_what_they_have_struck) {
  const TempDir dir;
  StatsPage page = StatsPage::create(dir.path() + "/s.stats").value();
  LiveFaults faults;
  const auto shown = [&] {
    const auto entries = read_stats_page(dir.path() + "/s.stats").value();
    return std::map<std::string, uint64_t>(entries.begin(), entries.end());
  };
  ASSERT_TRUE(faults.add({.kind = FaultKind::kCut, .port = 2}, Instant{}).ok());
  ASSERT_TRUE(faults.publish(page));
  ASSERT_TRUE(faults.add({.kind = FaultKind::kCut, .port = 3, .guid = Guid(9)}, Instant{}).ok());
  EXPECT_EQ(shown().at("fault.0.number"), 1U);
  EXPECT_EQ(shown().at("fault.0.port"), 2U);
  EXPECT_EQ(shown().at("fault.1.number"), 2U);
  EXPECT_EQ(shown().at("fault.1.guid"), 9U);
  EXPECT_EQ(faults.judge(1, 3, VirtualLane(0), {}, Instant{}), FaultVerdict::kDrop);
  EXPECT_EQ(shown().at("fault.0.struck"), 0U);
  EXPECT_EQ(shown().at("fault.1.struck"), 1U);
  ASSERT_TRUE(faults.remove(1));
  EXPECT_EQ(shown().at("fault.0.number"), 2U);
  EXPECT_EQ(shown().at("fault.0.struck"), 1U);
  EXPECT_EQ(shown().at("fault.1.number"), 0U);
  faults.left(3);
  EXPECT_EQ(shown().at("fault.0.number"), 0U);
}

}  // namespace
}  // namespace weft::test
