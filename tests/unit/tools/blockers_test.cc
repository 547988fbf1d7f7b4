// What blocks, from made-up counters: lane, pool and peer are named.
#include "tools/show/blockers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "session/netdev_session.h"

namespace weft::tools {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr auto kOpen = static_cast<uint64_t>(session::SessionState::kOpen);

FabricView fabric() {
  using Life = FabricView::Life;
  return {.ports = {{"s.1", 1, "h1"}, {"s.1", 2, "u1"}},
          .lids = {{1, "h1"}, {2, "u1"}},
          .lives = {{"s.1", Life::kRuns}, {"h1", Life::kRuns}, {"u1", Life::kRuns}},
          .faults = {}};
}

TEST(Blockers, nothing_blocks_where_nothing_waits) {
  const CounterValues calm{{"h1.link.up", 1},
                           {"h1.link.vl.0.credits", 64},
                           {"h1.link.vl.0.credit_stalls", 7},
                           {"h1.unit.2.session.now.state", kOpen},
                           {"h1.unit.2.session.now.peer_free", 3}};
  EXPECT_THAT(find_blockers(fabric(), calm, calm, 1), IsEmpty());
}

TEST(Blockers, a_lane_without_credit_is_named_with_both_ends) {
  const CounterValues before{{"h1.link.vl.2.credit_stalls", 5}, {"s.1.port.2.link.vl.0.credit_stalls", 0}};
  const CounterValues after{{"h1.link.vl.2.credit_stalls", 15}, {"s.1.port.2.link.vl.0.credit_stalls", 100}};
  EXPECT_THAT(find_blockers(fabric(), before, after, 2),
              ElementsAre("lane 0 from s.1 to u1 waited for credit: u1 drains it too slowly "
                          "(s.1.port.2.link.vl.0.credit_stalls, 50/s)",
                          "lane 2 from h1 to s.1 waited for credit: s.1 drains it too slowly "
                          "(h1.link.vl.2.credit_stalls, 5/s)"));
}

TEST(Blockers, a_lane_that_stands_still_is_no_counter_that_grows) {
  const CounterValues look{{"s.1.port.2.link.vl.0.credits", 0},
                           {"s.1.port.2.link.vl.0.flits_sent", 9},
                           {"s.1.port.1.link.vl.0.credits", 0},
                           {"s.1.port.1.link.vl.0.flits_sent", 0}};
  EXPECT_THAT(find_blockers(fabric(), look, look, 1),
              ElementsAre("lane 0 from s.1 to u1 has no credit: u1 does not drain it"))
      << "a lane that never carried anything waits for nobody";
  CounterValues moved = look;
  moved["s.1.port.2.link.vl.0.flits_sent"] = 10;
  EXPECT_THAT(find_blockers(fabric(), look, moved, 1), IsEmpty());
}

TEST(Blockers, full_pools_are_named_from_both_halves) {
  const CounterValues look{{"h1.unit.2.session.now.peer_free", 0},
                           {"h1.unit.2.session.now.peer_elements", 4},
                           {"u1.unit.acceptor.session.3.now.peer_free", 0},
                           {"u1.unit.acceptor.session.3.now.peer_elements", 8},
                           {"u1.unit.acceptor.session.3.now.peer_lid", 1}};
  EXPECT_THAT(find_blockers(fabric(), look, look, 1),
              ElementsAre("the pools of u1 for h1 are full: none of their 4 elements is taken",
                          "the pools of h1 for u1 are full: none of their 8 elements is taken"));
}

TEST(Blockers, peers_that_are_gone_frozen_or_not_joined_come_first) {
  FabricView view = fabric();
  view.lives["u1"] = FabricView::Life::kGone;
  view.lives["h1"] = FabricView::Life::kFrozen;
  const CounterValues before{{"h1.link.slot_stalls", 0},
                             {"s.1.port.2.link.up", 0},
                             {"h1.unit.2.session.now.state", kOpen + 1},
                             {"s.1.port.1.drop_port_down", 2}};
  CounterValues after = before;
  after["s.1.port.1.drop_port_down"] = 12;
  EXPECT_THAT(find_blockers(view, before, after, 1),
              ElementsAre("h1 is frozen (stopped by a signal)", "u1 does not run",
                          "the session of h1 with u1 is not open", "the link between s.1 and u1 is down",
                          "s.1 dropped cells from h1: their destination has not joined, or has left "
                          "(s.1.port.1.drop_port_down, 10/s)"));
}

/// Its link is down because nobody has joined, or because a program has left, which is no blockade.
TEST(Blockers, a_spare_port_blocks_nothing_and_a_program_on_one_has_its_name) {
  FabricView view = fabric();
  view.ports.push_back({"s.1", 3, std::string(kSparePort)});
  view.ports.push_back({"s.1", 4, "one"});
  const CounterValues before{{"s.1.port.3.link.up", 0},
                             {"s.1.port.3.link.vl.0.credits", 0},
                             {"s.1.port.3.link.vl.0.flits_sent", 9},
                             {"s.1.port.3.link.slot_stalls", 0},
                             {"s.1.port.4.link.up", 0},
                             {"s.1.port.4.link.slot_stalls", 0}};
  EXPECT_THAT(find_blockers(view, before, before, 1), ElementsAre("the link between s.1 and one is down"));
  CounterValues after = before;
  after["s.1.port.3.link.slot_stalls"] = 1;
  after["s.1.port.4.link.slot_stalls"] = 2;
  EXPECT_THAT(find_blockers(view, before, after, 1),
              ElementsAre("the link between s.1 and one is down",
                          "the link from s.1 to one was full: one reads it too slowly "
                          "(s.1.port.4.link.slot_stalls, 2/s)",
                          "the link from s.1 to port 3 was full: port 3 reads it too slowly "
                          "(s.1.port.3.link.slot_stalls, 1/s)"));
}

TEST(Blockers, a_fault_comes_before_what_it_causes) {
  FabricView view = fabric();
  view.faults = {"fault s.1:1 at s.1:2 (u1): cut, both ways, seed 4 (9 of 9 cells)"};
  const CounterValues before{{"s.1.port.1.drop_fault", 2}};
  const CounterValues after{{"s.1.port.1.drop_fault", 9}};
  EXPECT_THAT(find_blockers(view, before, after, 1),
              ElementsAre(view.faults[0],
                          "cells from h1 were lost at s.1: a fault strikes them (weft fault list) "
                          "(s.1.port.1.drop_fault, 7/s)"));
}

TEST(Blockers, what_was_dropped_comes_before_what_waited_under_the_name_of_its_counter) {
  const CounterValues before{{"u1.unit.driver.nic_busy_turns", 0}, {"u1.unit.nic.socket_drops", 4}};
  const CounterValues after{{"u1.unit.driver.nic_busy_turns", 900},
                            {"u1.unit.nic.socket_drops", 24},
                            {"h1.unit.2.os.interface_read_drops", 40}};
  EXPECT_THAT(
      find_blockers(fabric(), before, after, 1),
      ElementsAre("the interface of h1 dropped frames that came in: h1 reads too slowly, or gave it no "
                  "carrier because its session or the unit's LAN is down "
                  "(h1.unit.2.os.interface_read_drops, 40/s)",
                  "the kernel dropped frames of the LAN: u1 reads its socket too slowly "
                  "(u1.unit.nic.socket_drops, 20/s)",
                  "the LAN interface of u1 took no frame (u1.unit.driver.nic_busy_turns, 900/s)"));
  EXPECT_TRUE(counts_losses("u1.unit.nic.socket_drops"));
  EXPECT_FALSE(counts_losses("u1.unit.driver.nic_busy_turns"));
}

TEST(Blockers, an_interface_is_gone_until_it_is_back_as_often) {
  CounterValues look{{"u1.unit.nic.interface_gone", 2}, {"u1.unit.nic.interface_back", 1}};
  EXPECT_THAT(find_blockers(fabric(), look, look, 1),
              ElementsAre("an interface of u1 is gone (deleted or renamed); weft status names it"));
  look["u1.unit.nic.interface_back"] = 2;
  EXPECT_THAT(find_blockers(fabric(), look, look, 1), IsEmpty());
}

TEST(Blockers, a_restarted_process_counts_from_zero) {
  EXPECT_EQ(growth({{"a", 5}}, "a", 7), 2U);
  EXPECT_EQ(growth({{"a", 5}}, "a", 3), 3U);
  EXPECT_EQ(growth({}, "a", 3), 3U);
}

}  // namespace
}  // namespace weft::tools
