// Switches that are neighbours: cells across both, either one dying, who may have the port; the options that
// say so.
#include <gtest/gtest.h>

#include "node/switch_options.h"
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
  EXPECT_EQ(s1->drops(1, SwitchPortCounter::kDropForeignSource), 1U);
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
  EXPECT_EQ(s2->drops(2, SwitchPortCounter::kDropReversePath), 3U);
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
  EXPECT_EQ(s2->drops(2, SwitchPortCounter::kDropLoop), 1U);
}

TEST_F(SwitchRow, a_frozen_node_is_given_up_by_the_switch_next_to_it) {
  b->frozen = true;
  for (int i = 0; i < 500; ++i) {  // 2.5 s
    while (a->send({.number = 1})) {
    }
    run(1);
  }
  EXPECT_GT(s2->drops(2, SwitchPortCounter::kDropLifetime), 0U);
  EXPECT_EQ(s1->drops(1, SwitchPortCounter::kDropLifetime), 0U) << "others behind s2 may be awake";
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

node::SwitchOptions options_of(std::vector<std::string> nodes, std::vector<std::string> neighbours) {
  node::SwitchOptions out;
  out.guid = 1;
  out.nodes = std::move(nodes);
  out.neighbours = std::move(neighbours);
  return out;
}

TEST(SwitchOptions, nodes_come_first_then_neighbours) {
  node::SwitchOptions options = options_of({"h=2:1"}, {"s2=0x52:4,5", "s3=53:"});
  options.joins = {"s2=shm:/d/s2.sock"};
  Result<node::SwitchPlan> plan = node::plan_switch(options);
  ASSERT_TRUE(plan.ok()) << plan.error().text;
  EXPECT_EQ(plan->config.ports, 3U);
  ASSERT_EQ(plan->nodes.size(), 3U);
  EXPECT_EQ(plan->nodes[1].beyond, (std::vector<Lid>{Lid(4), Lid(5)}));
  EXPECT_TRUE(plan->nodes[1].we_join);
  EXPECT_TRUE(plan->nodes[2].is_switch() && !plan->nodes[2].we_join && plan->nodes[2].beyond.empty());
  ASSERT_EQ(plan->joins.size(), 1U);
  EXPECT_EQ(plan->joins[0].node, 1U);
  EXPECT_TRUE(plan->joins[0].endpoint.link.is_switch);
}

TEST(SwitchOptions, a_switch_between_switches_needs_no_node_of_its_own) {
  Result<node::SwitchPlan> plan = node::plan_switch(options_of({}, {"s1=51:1", "s3=53:2"}));
  ASSERT_TRUE(plan.ok()) << plan.error().text;
  EXPECT_EQ(plan->config.ports, 2U);
}

TEST(SwitchOptions, what_is_wrong_is_named) {
  const auto error = [](const node::SwitchOptions& options) {
    Result<node::SwitchPlan> plan = node::plan_switch(options);
    return plan.ok() ? std::string("good") : plan.error().text;
  };
  EXPECT_EQ(error(options_of({"h=2:1"}, {"s2=52:1"})), "nodes h and s2 share a name, GUID or LID");
  EXPECT_EQ(error(options_of({"h=2:1"}, {"s2=52:4,0"})),
            "--neighbour s2=52:4,0: LIDs are numbers from 1 to 65534");
  EXPECT_EQ(error(options_of({"h=2:1"}, {"s2"})), "--neighbour s2: write NAME=GUID:LID,LID,...");
  EXPECT_EQ(error(options_of({"h=2:1"}, {"s2=5x:4"})), "--neighbour s2=5x:4: the GUID is hexadecimal");
  node::SwitchOptions options = options_of({"h=2:1"}, {"s2=52:4"});
  options.joins = {"s3=shm:/d/s3.sock"};
  EXPECT_EQ(error(options), "--join s3=shm:/d/s3.sock: there is no --neighbour s3");
  options.joins = {"s2=tcp://192.0.2.1:7000"};
  EXPECT_NE(error(options).find("leaves this machine and needs keys"), std::string::npos);
  options.joins = {};
  options.neighbour_keys = {"s2=/k/s2.public"};
  EXPECT_EQ(error(options), "--neighbour-key s2=/k/s2.public: there is no --join s2");
  options = options_of({"h=2:1"}, {});
  options.curve_secret = "/k/s1.secret";
  EXPECT_EQ(error(options), "--curve-secret needs --curve-allow, or --neighbour-key to join with");
  options.curve_secret = "";
  options.curve_allow = "/k/allow";
  EXPECT_EQ(error(options), "--curve-allow needs --curve-secret");
}

}  // namespace
}  // namespace weft::test
