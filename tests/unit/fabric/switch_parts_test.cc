// Parts of a switch, each alone: which links are looked at, and what a cell must be to get through.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "fabric/switch/awake_links.h"
#include "fabric/switch/cell_check.h"
#include "messages/multicast.h"
#include "tests/support/test_cells.h"

namespace weft::test {
using namespace fabric;
namespace {

void add_ports(PortTable& ports, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i)
    ports.all.push_back(std::make_unique<Port>(static_cast<PortNumber>(i)));
}

/// Ports with links that are down and that nobody brings up.
class AwakeLinksOf : public ::testing::Test {
 public:
  AwakeLinksOf() {
    add_ports(ports, 3);
    for (uint32_t i = 0; i < 3; ++i) {
      links.push_back(std::make_unique<LinkEngine>());
      ports.all[i]->link = links.back().get();
      awake.add(*ports.all[i]);
    }
  }
  /// As a switch that looks at those that are awake.
  void turn() {
    ports.now += 1ms;
    awake.wake_due();
    awake.set().for_each([&](PortNumber number) { ports[number].looked_at = true; });
    awake.rest_idle();
  }
  PortTable ports;
  std::vector<std::unique_ptr<LinkEngine>> links;
  AwakeLinks awake{ports, 8};
};

TEST_F(AwakeLinksOf, a_link_rests_when_it_was_looked_at_and_is_woken_by_its_bell) {
  EXPECT_EQ(awake.set().size(), 3U);
  EXPECT_TRUE(awake.prepare_sleep()) << "nothing is due";
  awake.finish_sleep();
  turn();
  EXPECT_TRUE(awake.set().empty());
  EXPECT_FALSE(awake.any_rests()) << "links that are up, that is";
  EXPECT_EQ(awake.deadline(), kNever);
  links[1]->ring();
  EXPECT_EQ(awake.deadline(), ports.now);
  EXPECT_FALSE(awake.prepare_sleep()) << "a bell has rung";
  awake.wake_due();
  EXPECT_EQ(awake.set().size(), 1U);
  EXPECT_TRUE(awake.set().contains(1));
  links[2]->ring();
  awake.wake_due();
  EXPECT_EQ(awake.set().size(), 2U) << "others that are awake do not keep it from its look";
}

TEST_F(AwakeLinksOf, a_link_by_which_a_cell_goes_is_awake) {
  turn();
  ASSERT_TRUE(awake.set().empty());
  awake.need(ports[2]);
  EXPECT_TRUE(awake.set().contains(2));
  ports[2].waiting_lanes = 1;
  turn();
  EXPECT_TRUE(awake.set().contains(2)) << "something waits on it, and room comes without a bell";
  ports[2].waiting_lanes = 0;
  turn();
  EXPECT_TRUE(awake.set().empty());
}

class CellCheckOf : public ::testing::Test {
 public:
  static constexpr VirtualLane kLane{1};
  CellCheckOf() {
    add_ports(ports, 4);
    for (PortNumber number = 1; number < 4; ++number) {
      Port& port = ports[number];
      port.up = true;
      port.lanes = 4;
      port.lid = Lid(number);
      port.peer_is_endnode = true;
      port.gsi_rate = TokenBucket(1, 1);
      forwarding.set(Lid(number), number);
    }
  }
  SwitchPortCounter admit(PortNumber input, TestCell fields) {
    fields.vl = kLane;
    const std::vector<std::byte> cell = make_cell(fields);
    output = kPortNone;
    return check.admit(ports[input], kLane, CellHead(cell.data()), output);
  }
  SwitchConfig config;
  PortTable ports;
  ForwardingTable forwarding{1};
  AwakeLinks awake{ports, 8};
  CellOutputs outputs{config, ports, awake};
  Standstill standstill{config, 1, ports, outputs};
  CellCheck check{config, 1, ports, forwarding, standstill};
  PortNumber output = kPortNone;
};

TEST_F(CellCheckOf, an_endnode_speaks_for_its_own_lid) {
  EXPECT_EQ(admit(1, {.dlid = Lid(2), .slid = Lid(1)}), kAdmitted);
  EXPECT_EQ(output, 2);
  EXPECT_EQ(admit(1, {.dlid = Lid(2), .slid = Lid(3)}), SwitchPortCounter::kDropForeignSource);
  EXPECT_EQ(admit(1, {.dlid = Lid(9), .slid = Lid(1)}), SwitchPortCounter::kDropNoRoute);
}

TEST_F(CellCheckOf, a_neighbour_speaks_for_the_lids_behind_it_and_gets_nothing_back) {
  ports[1].peer_is_endnode = false;
  forwarding.set(Lid(7), 1);
  EXPECT_EQ(admit(1, {.dlid = Lid(2), .slid = Lid(7)}), kAdmitted);
  EXPECT_EQ(admit(1, {.dlid = Lid(2), .slid = Lid(3)}), SwitchPortCounter::kDropReversePath);
  EXPECT_EQ(admit(1, {.dlid = Lid(7), .slid = Lid(7)}), SwitchPortCounter::kDropLoop);
}

/// Otherwise one endnode could use up QP1 of all others, at no cost.
TEST_F(CellCheckOf, a_question_to_all_endnodes_costs_its_sender_what_a_datagram_to_qp1_costs) {
  constexpr Lid kOther{0xC005};
  const TestCell question{.dlid = kLidEverybody, .slid = Lid(1), .dest_qpn = kQpnMulticast};
  EXPECT_EQ(admit(1, question), kToGroup);
  EXPECT_EQ(admit(1, question), SwitchPortCounter::kDropGsiRate);
  EXPECT_EQ(admit(1, {.dlid = Lid(2), .slid = Lid(1), .dest_qpn = kQpnGsi}), SwitchPortCounter::kDropGsiRate)
      << "one share for both";
  EXPECT_EQ(admit(1, {.dlid = kOther, .slid = Lid(1), .dest_qpn = kQpnMulticast}), kToGroup)
      << "another group does not reach QP1";
  EXPECT_EQ(admit(2, {.dlid = kLidEverybody, .slid = Lid(2), .dest_qpn = kQpnMulticast}), kToGroup)
      << "others keep their share";

  ports[3].peer_is_endnode = false;
  forwarding.set(Lid(7), 3);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(admit(3, {.dlid = kLidEverybody, .slid = Lid(7), .dest_qpn = kQpnMulticast}), kToGroup)
        << "the switch before this one has counted it";
  }
}

TEST_F(CellCheckOf, an_output_must_be_up_and_have_the_lane) {
  ports[2].up = false;
  EXPECT_EQ(admit(1, {.dlid = Lid(2), .slid = Lid(1)}), SwitchPortCounter::kDropPortDown);
  ports[3].lanes = 1;
  EXPECT_EQ(admit(1, {.dlid = Lid(3), .slid = Lid(1)}), SwitchPortCounter::kDropNoLane);
}

}  // namespace
}  // namespace weft::test
