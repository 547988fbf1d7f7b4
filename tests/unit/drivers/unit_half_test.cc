// The unit half: frames that come before their session is open, or stay behind when it ends.
#include <gtest/gtest.h>

#include <algorithm>

#include "iou_driver/iou_netdev.h"
#include "tests/support/driver_world.h"
#include "tests/support/session_pair.h"

namespace weft::test {
namespace {

using namespace std::chrono_literals;
using Frames = std::vector<std::vector<std::byte>>;

/// Channel 1 is faster than channel 0: the first frame of another host, in the session object of an earlier
/// one, is there before the session is open, and is judged by the address of its own host.
TEST(UnitHalf, a_frame_before_the_session_is_open_belongs_to_its_own_host) {
  SessionPairOptions options;
  options.host.mac = host_mac(0);
  SessionPair pair(options);
  MemoryFramePort nic(kLanMac);
  IouNetdev half(pair.acceptor(), nic, {});
  const auto run = [&](int turns) {
    for (int i = 0; i < turns; ++i) {
      pair.turn();
      half.poll(pair.clock.now());
    }
  };
  pair.host().close();
  run(1000);
  pair.options.host.mac = host_mac(1);
  pair.restart_host();
  pair.pipe.set_filter([](int from, std::vector<std::byte>& bytes) {
    CellView view;
    const bool message = decode_cell(bytes, CrcCheck::kAlreadyVerified, view) == CellError::kNone &&
                         view.opcode == Opcode::kSend;
    return from == 0 && message ? Verdict::kHold : Verdict::kPass;
  });
  run(50);
  ASSERT_EQ(pair.host().state(), SessionState::kOpen);
  ASSERT_EQ(pair.unit().state(), SessionState::kOpening);
  std::vector<std::byte> frame(kVnetBytes);
  const auto ethernet = make_ethernet(kLanMac, host_mac(1), 1);
  frame.insert(frame.end(), ethernet.begin(), ethernet.end());
  const std::span<std::byte> into = pair.host().claim_frame(2000);
  ASSERT_GE(into.size(), frame.size());
  std::copy(frame.begin(), frame.end(), into.begin());
  pair.host().submit_frame(static_cast<uint32_t>(frame.size()));
  run(50);
  EXPECT_EQ(half.counters().get(UnitCounter::kForeignSource), 0U);
  EXPECT_EQ(DriverWorld::taken(nic), Frames{ethernet});
}

/// A frame that the LAN has and a neighbour has not is not sent to the LAN again when its sender dies.
TEST(UnitHalf, a_frame_half_way_at_the_death_of_its_host_reaches_everybody_once) {
  DriverWorldConfig config;
  config.hosts = 2;
  config.pools.front().elements = 4;
  DriverWorld world(config);
  world.run_until_open();
  world.os(1).busy = true;
  for (uint32_t i = 0; i < 40; ++i) world.os(0).inject(make_ethernet(kMacBroadcast, host_mac(0), i));
  world.run(2000);
  ASSERT_GT(world.unit().counters().get(UnitCounter::kHostBusyTurns), 0u);
  world.nodes[world.hosts[0].node].paused = true;
  world.run_for(2s);
  world.os(1).busy = false;
  world.run_for(100ms);
  const Frames at_lan = DriverWorld::taken(world.nic());
  EXPECT_EQ(at_lan, DriverWorld::taken(world.os(1)));
  for (auto frame = at_lan.begin(); frame != at_lan.end(); ++frame) {
    EXPECT_EQ(std::count(at_lan.begin(), at_lan.end(), *frame), 1);
  }
}

}  // namespace
}  // namespace weft::test
