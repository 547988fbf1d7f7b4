// A process that ends right after it has sent: over shared memory its last cells still go on.
#include <gtest/gtest.h>

#include "tests/support/temp_dir.h"
#include "tests/support/test_fabric.h"

namespace weft::test {
using namespace fabric;
namespace {

TEST(LastCells, of_an_endnode_that_has_ended_are_still_passed_on) {
  ManualClock clock;
  TempDir dir;
  SeededRandom random(1);
  SwitchBox box("shm:" + dir.path() + "/s.sock", small_switch(), nodes_with({Guid(0xA), Guid(0xB)}));
  auto sender = std::make_unique<Station>(box.endpoint(Guid(0xA)), random);
  Station receiver(box.endpoint(Guid(0xB)), random);
  const auto turn_of_switch = [&] {
    clock.advance(1ms);
    box.poll(clock.now());
  };
  for (int turns = 0; turns < 50; ++turns) {
    turn_of_switch();
    for (Station* node : {sender.get(), &receiver}) node->poll(clock.now());
  }
  ASSERT_TRUE(sender->port.up() && receiver.port.up());

  ASSERT_TRUE(sender->send({.dlid = Lid(2)}));
  sender->port.flush(clock.now());
  sender.reset();
  clock.advance(1s);  // the switch has slept, and looks for its peers first
  turn_of_switch();
  turn_of_switch();
  receiver.poll(clock.now());
  EXPECT_EQ(receiver.received.size(), 1U);
  // And then the link is gone.
  for (int turns = 0; turns < 100; ++turns) turn_of_switch();
  EXPECT_NE(box.admission.engine(0).state(), LinkState::kUp);
}

/// Node 1 takes nothing: its link is full, and three cells of node 0 wait in the switch.
struct Crowded {
  explicit Crowded(uint32_t flit_payload_bytes) : fabric(config(flit_payload_bytes)) {
    fabric.freeze(1, true);
    for (int turns = 0; turns < 100 && waiting < 3; ++turns, fabric.run(20)) {
      sent += fabric.send(0, TestCell{.dlid = Lid(2), .payload_bytes = 200}) ? 1U : 0U;
      fabric.run(20);
      waiting = fabric.fabric->cells_held();
    }
  }
  static TestFabricConfig config(uint32_t flit_payload_bytes) {
    TestFabricConfig out;
    out.switching = small_switch(flit_payload_bytes);
    out.nodes = 3;
    return out;
  }
  TestFabric fabric;
  size_t sent = 0;
  uint64_t waiting = 0;
};

TEST(LastCells, that_wait_for_a_busy_output_go_on_when_their_sender_has_gone) {
  for (const uint32_t flit_payload_bytes : {0U, 96U}) {
    Crowded at(flit_payload_bytes);
    ASSERT_EQ(at.waiting, 3U);
    at.fabric.cable(0).unplug();
    at.fabric.run(100);
    EXPECT_EQ(at.fabric.fabric->cells_held(), at.waiting) << "they keep waiting";
    at.fabric.freeze(1, false);
    at.fabric.run(1000);
    EXPECT_EQ(at.fabric.received[1].size(), at.sent);
    EXPECT_EQ(at.fabric.drops(), 0U);
    at.fabric.expect_conserved();
  }
}

TEST(LastCells, of_an_old_link_give_up_their_buffers_to_the_next) {
  for (const uint32_t flit_payload_bytes : {0U, 96U}) {
    Crowded at(flit_payload_bytes);
    ASSERT_EQ(at.waiting, 3U);
    at.fabric.cable(0).unplug();
    at.fabric.run(100);
    EXPECT_EQ(at.fabric.cable(0).plug(at.fabric.clock.now()), LinkRefusal::kNone);
    at.fabric.run(2000);
    EXPECT_EQ(at.fabric.count(1, SwitchPortCounter::kDropLinkReset), at.waiting);
    EXPECT_EQ(at.fabric.fabric->cells_held(), 0U);
    at.fabric.expect_conserved();
    // All credit of the new link is covered: nothing that it carries is lost.
    size_t again = 0;
    for (int turns = 0; turns < 400; ++turns, at.fabric.step())
      again += at.fabric.send(0, TestCell{.dlid = Lid(2), .payload_bytes = 200}) ? 1U : 0U;
    EXPECT_GT(again, at.waiting);
    at.fabric.freeze(1, false);
    at.fabric.run(2000);
    EXPECT_EQ(at.fabric.received[1].size(), at.sent - at.waiting + again);
    EXPECT_EQ(at.fabric.drops(), at.waiting);
    at.fabric.expect_conserved();
    EXPECT_EQ(at.fabric.link(0, kNode).incarnation(), 2U);
  }
}

TEST(LastCells, an_unfinished_one_goes_alone) {
  Crowded at(96);
  const std::vector<std::byte> cell = make_cell({.dlid = Lid(2), .payload_bytes = 200});
  for (size_t flit = 0; flit < 2; ++flit, at.fabric.run(10)) send_flit(at.fabric.link(0, kNode), cell, flit);
  at.fabric.cable(0).unplug();
  at.fabric.run(100);
  at.fabric.freeze(1, false);
  at.fabric.run(1000);
  EXPECT_EQ(at.fabric.received[1].size(), at.sent);
  EXPECT_EQ(at.fabric.count(1, SwitchPortCounter::kDropLinkReset), 1U);
  EXPECT_EQ(at.fabric.drops(), 1U);
  at.fabric.expect_conserved();
}

}  // namespace
}  // namespace weft::test
