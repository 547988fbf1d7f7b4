// What a host that stops costs those beside it: a whole fabric with the settings that are shipped, in virtual
// time. tests/system/test_frozen.py stops real processes.
#include <gtest/gtest.h>

#include "tests/support/driver_world.h"
#include "tests/support/unfinished_frame.h"

namespace weft::test {
namespace {

using namespace std::chrono_literals;

constexpr Duration kStep = 200us;
constexpr Duration kPauseMax = 50ms;  // at each time, for every neighbour and direction
constexpr size_t kHealthy = 0;
constexpr size_t kVictim = 1;
constexpr size_t kFlooder = 2;

DriverWorldConfig shipped_defaults(TransferMode mode) {
  DriverWorldConfig config;
  config.mode = mode;
  config.hosts = 3;
  config.cell_payload_bytes = fabric::kCellPayloadBytesDefault;
  config.credits = fabric::kCreditsPerLaneDefault;
  config.pools = session::SessionConfig{}.pools;
  return config;
}

#if defined(WEFT_DEEP_CHECKS)  // the sanitizer builds set it
constexpr int kRounds = 1;
#else
constexpr int kRounds = 3;
#endif

/// Where the frames come from that the victim does not take.
enum class Load : uint8_t { kFromLan, kFromHost, kBoth };

struct Scene {
  Load load = Load::kBoth;
  TransferMode mode = TransferMode::kRdma;
  bool unfinished = false;  // the unit has to finish the victim's frames: they have no checksum
  bool interface_only =
      false;  // what is behind the victim's OS interface stops (a paused QEMU), not the host

  friend void PrintTo(const Scene& scene, std::ostream* out) {
    *out << "load " << static_cast<int>(scene.load) << ", mode " << to_string(scene.mode)
         << (scene.unfinished ? ", unfinished" : "") << (scene.interface_only ? ", interface" : "");
  }
};

class FrozenHost : public ::testing::TestWithParam<Scene> {
 protected:
  /// Frames of one sender to one receiver, one every millisecond.
  struct Stream {
    MemoryFramePort& from;
    MemoryFramePort& to;
    std::vector<std::byte> frame;
    Instant arrived{};
    Duration longest_pause{};
    uint64_t count = 0;
  };

  void SetUp() override {
    world.run_until_open();
    world.run_for(20ms);
    for (Stream& stream : streams) stream.arrived = world.clock.now();
  }

  void run(Duration time) {
    for (Duration gone{}; gone < time; gone += kStep) {
      load();
      if (world.clock.now() >= due_) {
        for (Stream& stream : streams) stream.from.inject(stream.frame);
        due_ = world.clock.now() + 1ms;
      }
      world.turn(kStep);
      look();
    }
  }

  void freeze(bool on) {
    if (GetParam().interface_only) {
      world.os(kVictim).busy = on;
    } else {
      world.nodes[world.hosts[kVictim].node].paused = on;
    }
  }

  DriverWorld world{shipped_defaults(GetParam().mode)};
  std::array<Stream, 4> streams{
      Stream{world.os(kHealthy), world.nic(), make_ethernet(kLanMac, host_mac(kHealthy), 1)},
      Stream{world.nic(), world.os(kHealthy), make_ethernet(host_mac(kHealthy), kLanMac, 2)},
      Stream{world.os(kHealthy), world.os(kFlooder),
             make_ethernet(host_mac(kFlooder), host_mac(kHealthy), 3)},
      Stream{world.os(kFlooder), world.os(kHealthy),
             make_ethernet(host_mac(kHealthy), host_mac(kFlooder), 4)}};
  uint64_t to_victim = 0;

 private:
  /// More than the victim's pools and links hold, so that all that can fill up does.
  void load() {
    for (int i = 0; i < 4; ++i) {
      if (GetParam().load != Load::kFromHost && world.nic().to_read.size() < 64) inject(world.nic(), kLanMac);
      if (GetParam().load != Load::kFromLan && world.os(kFlooder).to_read.size() < 64)
        inject(world.os(kFlooder), host_mac(kFlooder));
    }
  }
  static void inject(MemoryFramePort& port, const MacAddress& from) {
    const MacAddress to = host_mac(kVictim);
    if (GetParam().unfinished) return port.inject_raw(unfinished(to, from, false));
    port.inject(make_ethernet(to, from, 5, 1400));
  }

  void look() {
    const Instant now = world.clock.now();
    for (Stream& stream : streams) {
      for (const auto& bytes : stream.to.written) {
        const std::span frame = std::span(bytes).subspan(kVnetBytes);
        if (!std::equal(frame.begin(), frame.end(), stream.frame.begin(), stream.frame.end())) continue;
        stream.arrived = now;
        ++stream.count;
      }
      stream.longest_pause = std::max(stream.longest_pause, now - stream.arrived);
    }
    to_victim += world.os(kVictim).written.size();
    for (size_t host = 0; host < 3; ++host) clear(world.os(host));
    clear(world.nic());
  }
  static void clear(MemoryFramePort& port) {
    port.written.clear();
    port.head_bytes.clear();
    port.read_into.clear();
  }

  Instant due_{};
};

TEST_P(FrozenHost, costs_its_neighbours_no_more_than_50_ms_each_time_and_goes_on) {
  run(100ms);
  EXPECT_GT(to_victim, 200U);
  for (int round = 0; round < kRounds; ++round) {
    for (const bool frozen : {true, false}) {
      freeze(frozen);
      const uint64_t before = to_victim;
      run(600ms);
      for (size_t i = 0; i < streams.size(); ++i) {
        EXPECT_LE(streams[i].longest_pause, kPauseMax) << "stream " << i << ", round " << round;
        EXPECT_GT(streams[i].count, 400U) << "stream " << i << ", round " << round;
        streams[i].count = 0;
        streams[i].longest_pause = {};
      }
      EXPECT_TRUE(frozen || to_victim > before + 200) << "round " << round;
    }
  }
  EXPECT_GT(world.unit().counters().get(iou::UnitCounter::kSlowHostDrops), 0U);
  for (size_t host = 0; host < 3; ++host) {
    EXPECT_EQ(world.session(host).state(), session::SessionState::kOpen);
    EXPECT_EQ(world.session(host).counters().get(session::SessionCounter::kOpened), 1U)
        << "host " << host << " has the session it had";
  }
}

INSTANTIATE_TEST_SUITE_P(Loads, FrozenHost,
                         ::testing::Values(Scene{.load = Load::kFromLan}, Scene{.load = Load::kFromHost},
                                           Scene{.load = Load::kBoth}));

std::vector<Scene> each_mode_and_interface() {
  std::vector<Scene> scenes;
  for (const TransferMode mode :
       {TransferMode::kRdma, TransferMode::kSendReceive, TransferMode::kSendDataOnly}) {
    for (const bool unfinished : {false, true}) {
      for (const bool interface_only : {false, true})
        scenes.push_back({.mode = mode, .unfinished = unfinished, .interface_only = interface_only});
    }
  }
  return scenes;
}
INSTANTIATE_TEST_SUITE_P(Modes, FrozenHost, ::testing::ValuesIn(each_mode_and_interface()));

}  // namespace
}  // namespace weft::test
