// Switches that are neighbours: cells across both, either one dying, who may have the port.
#include <gtest/gtest.h>

#include "tests/support/switch_row.h"

namespace weft::test {
using namespace fabric;
namespace {

TEST_F(SwitchRow, cells_cross_both_switches_both_ways) {
  expect_both_ways(1, 500);
  EXPECT_EQ(s1->core.port(2).link->params().lid, kLidNone) << "no endnode is on this link";
  EXPECT_EQ(s1->core.port(2).link->params().peer_guid, kGuid2);
  EXPECT_EQ(s2->core.port(2).counters.get(SwitchPortCounter::kCellsOut), 500U);
}

TEST_F(SwitchRow, sources_are_checked_where_cells_enter_the_fabric) {
  ASSERT_TRUE(a->send({.dlid = Lid(2), .slid = Lid(2)}));
  run(5);
  EXPECT_TRUE(b->received.empty());
  EXPECT_EQ(s1->count(1, SwitchPortCounter::kDropForeignSource), 1U);
}

TEST_F(SwitchRow, a_neighbour_speaks_only_for_the_nodes_behind_it) {
  s1.reset();
  connector.reset();
  run(20);
  LinkEndpointConfig in_place_of_s1 = endpoint(kGuid1, kLidNone, "s2");
  in_place_of_s1.link.is_switch = true;
  auto liar = std::make_unique<Station>(in_place_of_s1, random);
  const auto run_both = [&] {
    for (int i = 0; i < 40; ++i) {
      run(1);
      liar->poll(clock.now());
    }
  };
  run_both();
  ASSERT_TRUE(liar->port.up());
  ASSERT_TRUE(liar->send({.dlid = Lid(2), .slid = Lid(2), .number = 1}));  // the node itself
  ASSERT_TRUE(liar->send({.dlid = Lid(2), .slid = Lid(7), .number = 2}));  // nobody
  ASSERT_TRUE(liar->send({.dlid = Lid(2), .slid = kLidNone, .number = 3}));
  ASSERT_TRUE(liar->send({.dlid = Lid(2), .slid = Lid(1), .number = 4}));
  run_both();
  EXPECT_EQ(b->received, std::vector<uint32_t>{4});
  EXPECT_EQ(s2->count(2, SwitchPortCounter::kDropReversePath), 3U);
  liar.reset();
  run(20);
  start_s1();
  run(200);
  expect_both_ways(1, 50);
}

TEST_F(SwitchRow, a_cell_never_goes_back_to_the_switch_it_came_from) {
  s2->core.forwarding().set(Lid(9), 2);
  s1->core.forwarding().set(Lid(9), 2);
  ASSERT_TRUE(a->send({.dlid = Lid(9), .slid = Lid(1)}));
  run(5);
  EXPECT_EQ(s2->count(2, SwitchPortCounter::kDropLoop), 1U);
}

TEST_F(SwitchRow, a_frozen_node_is_given_up_by_the_switch_next_to_it) {
  b->frozen = true;
  for (int i = 0; i < 500; ++i) {  // 2.5 s
    while (a->send({.number = 1})) {
    }
    run(1);
  }
  EXPECT_GT(s2->count(2, SwitchPortCounter::kDropLifetime), 0U);
  EXPECT_EQ(s1->count(1, SwitchPortCounter::kDropLifetime), 0U) << "others behind s2 may be awake";
  b->frozen = false;
  run(50);
  expect_both_ways(1000, 50);
}

TEST_F(SwitchRow, either_switch_may_die_and_come_back) {
  for (const bool first : {true, false}) {
    if (first) {
      s1.reset();
    } else {
      s2.reset();
    }
    run(20);
    if (first) {
      start_s1();
    } else {
      start_s2();
    }
    run(200);
    expect_both_ways(1000, 100);
  }
}

TEST_F(SwitchRow, only_the_neighbour_itself_gets_its_port) {
  s1.reset();
  run(20);
  const auto refused = [this] { return s2->admission.counters().get(AdmissionCounter::kRefusedNotAllowed); };
  LinkEndpointConfig endnode = endpoint(kGuid1, kLidNone, "s2");  // its GUID, but no switch
  Station liar(endnode, random);
  for (int i = 0; i < 40; ++i) {
    run(1);
    liar.poll(clock.now());
  }
  EXPECT_FALSE(liar.port.up());
  EXPECT_GT(refused(), 0U);
  start_s1();
  run(200);
  const uint64_t before = s1->admission.counters().get(AdmissionCounter::kRefusedNotAllowed);
  LinkEndpointConfig reverse = endpoint(kGuid2, kLidNone, "s1");  // s1 goes to s2, not the other way round
  reverse.link.is_switch = true;
  Station backwards(reverse, random);
  for (int i = 0; i < 40; ++i) {
    run(1);
    backwards.poll(clock.now());
  }
  EXPECT_GT(s1->admission.counters().get(AdmissionCounter::kRefusedNotAllowed), before);
  expect_both_ways(1, 10);
}

}  // namespace
}  // namespace weft::test
