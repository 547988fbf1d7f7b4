// As many ports as there can be: cells reach each of them, and what a turn costs depends on the links that
// have something to do, not on those that are there.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "fabric/switch/port_timers.h"
#include "tests/support/script_carrier.h"
#include "tests/support/test_fabric.h"

namespace weft::test {
using namespace fabric;
namespace {

constexpr uint32_t kMost = Switch::kPortsMax;

TestFabricConfig fabric_of(uint32_t nodes, uint32_t links_awake = 8) {
  TestFabricConfig config;
  config.switching = small_switch(0, 8);
  config.switching.ports = nodes;
  config.switching.links_awake = links_awake;
  config.nodes = nodes;
  config.ring_slots = 32;
  return config;
}

TEST(ManyPorts, every_port_reaches_every_other_through_254) {
  TestFabric fabric(fabric_of(kMost));
  for (const uint32_t distance : {1U, 7U, kMost - 1}) {
    for (uint32_t i = 0; i < kMost; ++i) {
      const Lid to(static_cast<uint16_t>((i + distance) % kMost + 1));
      ASSERT_TRUE(fabric.send(i, {.dlid = to, .number = i}));
    }
    fabric.run(20, 200us);
  }
  for (uint32_t i = 0; i < kMost; ++i) ASSERT_EQ(fabric.received[i].size(), 3U) << i;
  EXPECT_EQ(fabric.drops(), 0U);
  fabric.expect_conserved();
}

TEST(ManyPorts, no_more_than_254_can_be_had) {
  SwitchConfig config = small_switch();
  config.ports = kMost;
  EXPECT_TRUE(Switch::check(config).ok());
  config.ports = kMost + 1;
  EXPECT_FALSE(Switch::check(config).ok());
}

/// Looks at links while two nodes talk, after everything has settled.
uint64_t looks_of_two_that_talk(uint32_t nodes) {
  TestFabric fabric(fabric_of(nodes));
  fabric.run(10, 1ms);
  const uint64_t before = fabric.fabric->looks();
  for (uint32_t i = 0; i < 200; ++i) {
    EXPECT_TRUE(fabric.send(0, {.dlid = Lid(2), .number = i}));
    fabric.run(3, 5us);
  }
  EXPECT_EQ(fabric.received[1].size(), 200U);
  return fabric.fabric->looks() - before;
}

TEST(ManyPorts, a_turn_costs_what_the_busy_links_cost) {
  const uint64_t few = looks_of_two_that_talk(8);
  const uint64_t many = looks_of_two_that_talk(kMost);
  EXPECT_LE(many, few) << "looks at links in 600 turns";
  EXPECT_GE(many, 2U * 590U) << "those that talk are looked at in every turn";
}

TEST(ManyPorts, a_switch_with_nothing_to_do_looks_at_nothing) {
  TestFabric fabric(fabric_of(kMost, 0));
  fabric.run(10, 1ms);
  const uint64_t before = fabric.fabric->looks();
  fabric.run(1000, 10us);
  EXPECT_EQ(fabric.fabric->looks(), before);
  EXPECT_TRUE(fabric.fabric->links_rest());
  EXPECT_EQ(fabric.fabric->deadline(), kNever);
}

/// Links that rest are told of their cells, whoever sends first, and of what happens to them.
TEST(ManyPorts, a_link_that_rests_wakes_for_what_comes_and_goes) {
  TestFabric fabric(fabric_of(40, 0));
  for (uint32_t round = 0; round < 40; ++round) {
    fabric.run(5, 1ms);
    ASSERT_TRUE(
        fabric.send(round, {.dlid = Lid(static_cast<uint16_t>((round * 7 + 3) % 40 + 1)), .number = round}));
    fabric.run(2, 1us);
  }
  uint32_t arrived = 0;
  for (const auto& cells : fabric.received) arrived += static_cast<uint32_t>(cells.size());
  EXPECT_EQ(arrived, 40U);
  fabric.run(5, 1ms);
  fabric.cable(3).unplug();
  fabric.step();
  EXPECT_FALSE(fabric.fabric->port(4).up) << "a link that goes";
  ASSERT_EQ(fabric.cable(3).plug(fabric.clock.now()), LinkRefusal::kNone);
  fabric.step();
  EXPECT_TRUE(fabric.fabric->port(4).up) << "and comes back";
  ASSERT_TRUE(fabric.send(0, {.dlid = Lid(4), .number = 99}));
  fabric.run(3, 1us);
  EXPECT_EQ(cell_number(fabric.received[3].back()), 99U);
}

/// What a frozen endnode does not take is dropped in time although nobody else has anything to do, and it
/// is served again when it wakes.
TEST(ManyPorts, frozen_endnodes_are_looked_after) {
  TestFabric fabric(fabric_of(60, 0));
  fabric.freeze(5, true);
  for (uint32_t i = 0; i < 400; ++i) {
    static_cast<void>(fabric.send(i % 5, {.dlid = Lid(6), .number = i}));
    fabric.step(10us);
  }
  ASSERT_GT(fabric.fabric->cells_held(), 0U);
  fabric.run(500, 5ms);
  EXPECT_EQ(fabric.fabric->cells_held(), 0U) << "their lifetime has passed";
  EXPECT_GT(fabric.total(SwitchPortCounter::kDropLifetime) + fabric.total(SwitchPortCounter::kDropStandstill),
            0U);
  fabric.expect_conserved();
  fabric.freeze(5, false);
  fabric.run(100, 1ms);
  const size_t before = fabric.received[5].size();
  ASSERT_TRUE(fabric.send(1, {.dlid = Lid(6), .number = 7}));
  fabric.run(10, 10us);
  EXPECT_EQ(fabric.received[5].size(), before + 1);
}

/// A carrier that nobody rings for is looked at in every turn; one whose bell is rung, when its time comes.
TEST(ManyPorts, a_link_that_rests_is_looked_at_when_its_time_comes) {
  for (const bool rests : {false, true}) {
    SwitchConfig config = small_switch();
    config.links_awake = 0;
    Switch core(config);
    LinkEngine engine;
    core.attach(1, engine);
    auto made = std::make_unique<ScriptCarrier>();
    ScriptCarrier& carrier = *made;
    carrier.due = Instant(500ms);
    engine.bring_up(std::move(made), ScriptCarrier::params(true), Instant{});
    if (rests) engine.expect_bell();
    ManualClock clock;
    const auto run_until = [&](Duration end) {
      while (clock.now() < Instant(end)) {
        clock.advance(1ms);
        core.poll(clock.now());
      }
    };
    run_until(499ms);
    EXPECT_EQ(carrier.polled_at > Instant(10ms), !rests);
    EXPECT_LE(core.deadline(), Instant(500ms)) << "nor does a loop sleep longer";
    EXPECT_EQ(core.links_rest(), rests);
    run_until(501ms);
    EXPECT_GE(carrier.polled_at, Instant(500ms));
    carrier.condition = CarrierState::kPeerGone;
    carrier.due = clock.now();
    engine.ring();
    run_until(502ms);
    EXPECT_FALSE(core.port(1).up);
  }
}

TEST(PortTimers, the_earliest_comes_first_whatever_is_set_and_erased) {
  SeededRandom random(3);
  PortTimers timers;
  std::map<PortNumber, Instant> reference;
  for (uint32_t step = 0; step < 20'000; ++step) {
    const auto port = static_cast<PortNumber>(random.below(PortSet::kPortsMax));
    timers.erase(port);
    reference.erase(port);
    if (random.below(3) != 0) {
      const Instant due{Duration(static_cast<int64_t>(random.below(1000)))};
      timers.set(port, due);
      reference[port] = due;
    }
    const auto first = std::min_element(reference.begin(), reference.end(),
                                        [](const auto& a, const auto& b) { return a.second < b.second; });
    ASSERT_EQ(timers.earliest(), first == reference.end() ? kNever : first->second);
    if (first != reference.end()) {
      ASSERT_EQ(reference.at(timers.first()), first->second);
    }
  }
}

}  // namespace
}  // namespace weft::test
