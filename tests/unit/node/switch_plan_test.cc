// From the configuration of a switch to what the process is built of.
#include "node/switch_plan.h"

#include <gtest/gtest.h>

#include "node/spec_codec.h"

namespace weft::node {
namespace {

/// A switch with these options.
SwitchSpec switch_of(std::vector<std::string> options) {
  options.insert(options.begin(), {"--name", "s1", "--guid", "1"});
  SwitchSpec out;
  EXPECT_EQ(decode(options, out), std::nullopt);
  return out;
}

TEST(SwitchPlan, nodes_come_first_then_neighbours) {
  const Result<SwitchPlan> plan =
      plan_switch(switch_of({"--neighbour", "s2=0x52:4,5", "--neighbour", "s3=53:", "--node", "h=2:1",
                             "--join", "s2=shm:/d/s2.sock"}));
  ASSERT_TRUE(plan.ok()) << plan.error().text;
  const SwitchPlan& got = plan.value();
  EXPECT_EQ(got.config.ports, 3U);
  ASSERT_EQ(got.nodes.size(), 3U);
  EXPECT_EQ(got.nodes[1].beyond, (std::vector<Lid>{Lid(4), Lid(5)}));
  EXPECT_TRUE(got.nodes[1].we_join);
  EXPECT_TRUE(got.nodes[2].is_switch() && !got.nodes[2].we_join && got.nodes[2].beyond.empty());
  ASSERT_EQ(got.joins.size(), 1U);
  EXPECT_EQ(got.joins[0].node, 1U);
  EXPECT_TRUE(got.joins[0].endpoint.link.is_switch);
}

TEST(SwitchPlan, spare_ports_come_last) {
  Result<SwitchPlan> plan = plan_switch(
      switch_of({"--node", "h=2:1", "--neighbour", "s2=52:4-6", "--spare-ports", "3", "--spare-lid", "100"}));
  ASSERT_TRUE(plan.ok()) << plan.error().text;
  EXPECT_EQ(plan->config.ports, 5U);
  EXPECT_EQ(plan->spare.ports, 3U);
  EXPECT_EQ(plan->spare.first_lid, Lid(100));
  EXPECT_EQ(plan->nodes[1].beyond, (std::vector<Lid>{Lid(4), Lid(5), Lid(6)}));
  const auto error = [](const std::vector<std::string>& options) {
    return plan_switch(switch_of(options)).error().text;
  };
  EXPECT_EQ(error({"--node", "h=2:120", "--spare-ports", "1", "--spare-lid", "100"}),
            "node h: LID 120 is one of the spare ports' (100 to 163)");
  EXPECT_EQ(error({"--spare-ports", "1"}),
            "spare ports need 64 LIDs in a row, from 1 to 65534: give --spare-lid FIRST");
  EXPECT_EQ(error({"--node", "h=2:1", "--spare-ports", "2", "--spare-lid", "100", "--ports", "2"}),
            "1 nodes and 2 spare ports do not fit 2 ports: give --ports 3");
}

/// The tables as text: lanes and weights of the high one, the limit, those of the low one.
std::string lanes_of(std::vector<std::string> options) {
  options.insert(options.end(), {"--node", "h=2:1"});
  const Result<SwitchPlan> plan = plan_switch(switch_of(std::move(options)));
  if (!plan.ok()) return plan.error().text;
  const fabric::VlArbitration& tables = plan.value().config.arbitration;
  std::string out;
  const auto add = [&out](const std::vector<fabric::VlWeight>& table) {
    for (const fabric::VlWeight& entry : table)
      out += std::to_string(entry.vl.value()) + ":" + std::to_string(entry.weight) + " ";
  };
  add(tables.high);
  out += "| " + std::to_string(tables.high_limit) + " | ";
  add(tables.low);
  return out;
}

TEST(SwitchPlan, lanes_are_served_as_the_configuration_says) {
  EXPECT_EQ(lanes_of({}), "| 255 | ") << "all alike";
  EXPECT_EQ(lanes_of({"--high-lane", "3:64"}), "3:64 | 255 | 0:128 1:128 2:128 ");
  EXPECT_EQ(lanes_of({"--high-lane", "3:64", "--high-lane", "1:2", "--high-limit", "7", "--lanes", "5"}),
            "3:64 1:2 | 7 | 0:128 2:128 4:128 ");
  EXPECT_EQ(lanes_of({"--high-lane", "3:64", "--low-lane", "2:1", "--low-lane", "1:9", "--low-lane", "0:255",
                      "--low-lane", "2:5"}),
            "3:64 | 255 | 2:1 1:9 0:255 2:5 ")
      << "in the order given, and a lane may stand twice";
  EXPECT_EQ(lanes_of({"--high-lane", "0:1", "--lanes", "1"}), "0:1 | 255 | ") << "no lane is left";
}

/// A switch applies the limit where it listens and where it joins a neighbour.
TEST(SwitchPlan, the_silence_limit_reaches_both_kinds_of_link_ends) {
  const std::vector<std::string> options{"--node",  "h=2:1",  "--neighbour",
                                         "s2=52:2", "--join", "s2=tcp://127.0.0.1:7000"};
  const SwitchPlan plain = plan_switch(switch_of(options)).value();
  EXPECT_EQ(plain.zmq.silence, Duration{});
  EXPECT_EQ(plain.joins.at(0).endpoint.silence, Duration{});
  std::vector<std::string> longer = options;
  longer.insert(longer.end(), {"--silence", "12s"});
  const SwitchPlan plan = plan_switch(switch_of(longer)).value();
  EXPECT_EQ(plan.zmq.silence, Duration(12s));
  EXPECT_EQ(plan.joins.at(0).endpoint.silence, Duration(12s));
}

TEST(SwitchPlan, a_switch_between_switches_needs_no_node_of_its_own) {
  const Result<SwitchPlan> plan =
      plan_switch(switch_of({"--neighbour", "s1=51:1", "--neighbour", "s3=53:2"}));
  ASSERT_TRUE(plan.ok()) << plan.error().text;
  EXPECT_EQ(plan.value().config.ports, 2U);
}

TEST(SwitchPlan, what_is_wrong_is_named) {
  const auto error = [](std::vector<std::string> options) {
    const Result<SwitchPlan> plan = plan_switch(switch_of(std::move(options)));
    return plan.ok() ? std::string("good") : plan.error().text;
  };
  EXPECT_EQ(error({"--node", "h=2:1", "--neighbour", "s2=52:1"}), "nodes h and s2 share a name, GUID or LID");
  EXPECT_NE(error({"--node", "h=2:1", "--neighbour", "s2=52:4", "--join", "s2=tcp://192.0.2.1:7000"})
                .find("leaves this machine and needs keys"),
            std::string::npos);
  EXPECT_EQ(error({"--node", "h=2:1", "--curve-secret", "/k/s1.secret"}),
            "--curve-secret needs --curve-allow, or --neighbour-key to join with");
  EXPECT_EQ(error({"--node", "h=2:1", "--curve-allow", "/k/allow"}), "--curve-allow needs --curve-secret");
}

}  // namespace
}  // namespace weft::node
