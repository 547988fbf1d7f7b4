// A shared-memory link whose path makes no system call: somebody else joins, looks and wakes.
#include "fabric/link/link_upkeep.h"

#include <gtest/gtest.h>

#include "tests/support/script_carrier.h"
#include "tests/support/switch_box.h"
#include "tests/support/temp_dir.h"

namespace weft::test {
using namespace fabric;
namespace {

class ApartLink : public ::testing::Test {
 protected:
  void turn_of_switch() {
    clock.advance(1ms);
    box.poll(clock.now());
  }
  void turn_of_path() {
    port.poll(clock.now());
    port.flush(clock.now());
  }
  bool look() {
    upkeep.look(clock.now());
    const bool changed = upkeep.settle(clock.now());
    upkeep.clear();
    return changed;
  }
  void run(int steps) {
    for (int i = 0; i < steps; ++i) {
      turn_of_switch();
      look();
      turn_of_path();
    }
  }
  void send_cell() {
    ASSERT_TRUE(test::send_cell(port, make_cell({.dlid = Lid(2)})));
    port.flush(clock.now());
  }
  static bool is_ready(const Sleeper& sleeper) {
    std::vector<pollfd> fds;
    sleeper.wait_fds(fds);
    return ::poll(fds.data(), fds.size(), 0) > 0;
  }

  TempDir dir;
  SeededRandom random{1};
  ManualClock clock;
  SwitchBox box{"shm:" + dir.path() + "/s.sock", small_switch(), nodes_with({Guid(0xA), Guid(0xB)})};
  WakeList wakes{1};
  LinkEngine engine;
  LinkUpkeep upkeep{engine, std::move(make_connector(box.endpoint(Guid(0xA)), random).value()), wakes};
  LinkCellPort port{engine};
};

TEST_F(ApartLink, comes_up_by_upkeep_alone) {
  for (int i = 0; i < 20; ++i) {
    turn_of_switch();
    turn_of_path();
  }
  EXPECT_FALSE(port.up()) << "the path joins nobody";
  run(20);
  EXPECT_TRUE(port.up());
  EXPECT_EQ(port.info().lid, Lid(1));
}

TEST_F(ApartLink, notes_a_peer_that_sleeps_and_leaves_the_waking_to_its_owner) {
  run(20);
  ASSERT_TRUE(port.up());
  EXPECT_TRUE(wakes.empty());
  while (!box.core.prepare_sleep()) box.core.poll(clock.now());
  send_cell();
  ASSERT_FALSE(wakes.empty());
  EXPECT_FALSE(is_ready(*box.acceptor)) << "nobody has woken it yet";
  wakes.take()->ring();
  EXPECT_TRUE(is_ready(*box.acceptor));
  EXPECT_TRUE(wakes.empty());
}

/// Ringing for a link that is gone by then is allowed: the bell keeps the socket.
TEST_F(ApartLink, a_wake_up_may_be_sent_after_the_link_has_gone) {
  run(20);
  while (!box.core.prepare_sleep()) box.core.poll(clock.now());
  send_cell();
  const std::shared_ptr<PeerBell> bell = wakes.take();
  box.admission.engine(0).take_down();
  EXPECT_TRUE(look());
  EXPECT_EQ(engine.state(), LinkState::kDown);
  bell->ring();
  EXPECT_EQ(bell.use_count(), 1);
}

TEST_F(ApartLink, notices_a_switch_that_has_gone_only_when_it_looks) {
  run(20);
  box.admission.engine(0).take_down();
  for (int i = 0; i < 100; ++i) {
    clock.advance(1ms);
    turn_of_path();
  }
  EXPECT_TRUE(port.up());
  EXPECT_TRUE(look());
  turn_of_path();
  EXPECT_FALSE(port.up());
  EXPECT_EQ(engine.counters().get(LinkCounter::kPeerGone), 1U);
  run(300);
  EXPECT_TRUE(port.up());
  EXPECT_EQ(port.incarnation(), 2U);
}

/// Brings up the carriers that a test gives it.
class Scripted final : public LinkSupervisor {
 public:
  int supervise(LinkSeat& seat, Instant now) noexcept override {
    seen = seat.state();
    if (seen == LinkState::kUp || next == nullptr) return 0;
    seat.bring_up(std::move(next), ScriptCarrier::params(true), now);
    return 1;
  }
  void wait_fds(std::vector<pollfd>& /*out*/) const override {}
  Instant deadline() const noexcept override { return kNever; }
  LinkState seen = LinkState::kDown;
  std::unique_ptr<Carrier> next;
};

TEST(LinkUpkeepTest, a_link_that_breaks_on_the_path_waits_for_upkeep_and_is_replaced) {
  WakeList wakes(1);
  LinkEngine engine;
  auto made = std::make_unique<Scripted>();
  Scripted& supervisor = *made;
  LinkUpkeep upkeep(engine, std::move(made), wakes);
  auto carrier = std::make_unique<ScriptCarrier>();
  ScriptCarrier& first = *carrier;
  supervisor.next = std::move(carrier);
  upkeep.look(Instant{});
  EXPECT_EQ(engine.state(), LinkState::kDown) << "not before settle()";
  EXPECT_TRUE(upkeep.settle(Instant{}));
  EXPECT_EQ(engine.state(), LinkState::kUp);
  first.condition = CarrierState::kFaulty;
  engine.poll(Instant{} + 1ms);
  engine.poll(Instant{} + 2ms);
  EXPECT_EQ(engine.state(), LinkState::kFaulty);
  EXPECT_EQ(engine.counters().get(LinkCounter::kCarrierFaults), 1U);
  EXPECT_EQ(engine.deadline(), Instant::min()) << "its owner must hear of it at once";
  EXPECT_EQ(engine.claim(VirtualLane(0)), nullptr);
  EXPECT_FALSE(engine.prepare_sleep());
  EXPECT_TRUE(upkeep.settle(Instant{} + 3ms));
  EXPECT_EQ(engine.state(), LinkState::kDown);
  supervisor.next = std::make_unique<ScriptCarrier>();
  upkeep.look(Instant{} + 4ms);
  EXPECT_EQ(supervisor.seen, LinkState::kDown);
  EXPECT_TRUE(upkeep.settle(Instant{} + 4ms));
  upkeep.clear();
  EXPECT_EQ(engine.state(), LinkState::kUp);
  EXPECT_EQ(engine.incarnation(), 2U);
}

}  // namespace
}  // namespace weft::test
