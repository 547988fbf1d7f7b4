// The traffic station against the LAN object, in virtual time, without a fabric between them.
#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <vector>

#include "host_driver/gen_port.h"
#include "iou_driver/echo_nic.h"

namespace weft {
namespace {

using namespace std::chrono_literals;
using Frame = std::vector<std::byte>;
constexpr MacAddress kHost{0x02, 0, 0, 0, 0, 0x2A};

/// Carries frames between station and object; `out` and `in` may spoil them.
class Wire {
 public:
  Wire() : gen(kHost, clock), echo(EchoNicConfig{}) {}
  virtual ~Wire() = default;
  virtual void back(std::deque<Frame>&) {}

  bool turn() {
    clock.advance(1us);
    gen.poll(clock.now());
    bool moved = false;
    Frame frame(kVnetBytes + kGenFrameBytesMax);
    FrameReadResult got = gen.read_frame(frame);
    if (got.io == FrameIo::kOk) {
      moved = true;
      const std::span<const std::byte> bytes(frame.data(), got.bytes);
      const size_t head = std::min<size_t>(bytes.size(), 128);
      EXPECT_EQ(echo.write_frame(bytes.first(head), bytes.subspan(head)), FrameIo::kOk);
    }
    got = echo.read_frame(frame);
    if (got.io == FrameIo::kOk) answers.emplace_back(frame.begin(), frame.begin() + got.bytes);
    back(answers);
    if (!answers.empty()) {
      moved = true;
      const std::span<const std::byte> bytes(answers.front());
      const size_t head = std::min<size_t>(bytes.size(), 128);
      EXPECT_EQ(gen.write_frame(bytes.first(head), bytes.subspan(head)), FrameIo::kOk);
      answers.pop_front();
    }
    return moved;
  }
  TrafficReport run(const TrafficSpec& spec) {
    EXPECT_TRUE(gen.start(spec).ok());
    for (int i = 0; i < 2'000'000 && gen.running(); ++i) {
      if (!turn()) clock.advance(100us);
    }
    return gen.report();
  }

  ManualClock clock;
  GenPort gen;
  EchoNic echo;
  std::deque<Frame> answers;
};

TEST(GenEcho, every_kind_of_round_trip_comes_back) {
  Wire wire;
  for (const TrafficKind kind :
       {TrafficKind::kArp, TrafficKind::kIcmp, TrafficKind::kIcmp6, TrafficKind::kUdp}) {
    TrafficSpec spec;
    spec.kind = kind;
    spec.frames = 20;
    spec.window = 1;
    spec.frame_bytes_min = spec.frame_bytes_max = 98;
    const TrafficReport report = wire.run(spec);
    EXPECT_EQ(wire.gen.phase(), TrafficPhase::kFinished) << to_string(kind);
    EXPECT_EQ(report.frames_sent, 20u);
    EXPECT_EQ(report.frames_received, 20u);
    EXPECT_EQ(report.lost + report.corrupted + report.duplicated + report.reordered, 0u);
    EXPECT_GT(report.rtt_p50_ns, 0u);
    EXPECT_LE(report.rtt_min_ns, report.rtt_p50_ns);
    EXPECT_LE(report.rtt_p99_ns, report.rtt_max_ns);
  }
}

TEST(GenEcho, bulk_run_over_every_size_is_verified) {
  Wire wire;
  TrafficSpec spec;
  spec.frame_bytes_min = kGenFrameBytesMin;
  spec.frame_bytes_max = kGenFrameBytesMax;
  spec.frames = kGenFrameBytesMax - kGenFrameBytesMin + 1;
  const TrafficReport report = wire.run(spec);
  EXPECT_EQ(wire.gen.phase(), TrafficPhase::kFinished);
  EXPECT_EQ(report.frames_received, spec.frames);
  EXPECT_EQ(report.bytes_received, report.bytes_sent);
  EXPECT_EQ(report.lost + report.corrupted + report.duplicated + report.reordered, 0u);
  EXPECT_GT(report.elapsed_ns, 0u);
}

class Spoiler final : public Wire {
 public:
  void back(std::deque<Frame>& frames) override {
    if (frames.empty() || gen.phase() == TrafficPhase::kResolving || ++count_ % 10 != 0) return;
    const uint64_t which = count_ / 10 % 3;
    if (which == 0) {
      frames.pop_front();
      ++dropped;
    } else if (which == 1) {
      frames.push_back(frames.front());
      ++doubled;
    } else {
      frames.front().back() ^= std::byte{1};
      ++spoilt;
    }
  }
  uint64_t dropped = 0, doubled = 0, spoilt = 0;

 private:
  uint64_t count_ = 0;
};

TEST(GenEcho, loss_repetition_and_corruption_are_told_apart) {
  Spoiler wire;
  TrafficSpec spec;
  spec.frames = 600;
  spec.timeout_ms = 100;
  const TrafficReport report = wire.run(spec);
  EXPECT_GT(wire.dropped, 0u);
  EXPECT_EQ(wire.gen.phase(), TrafficPhase::kFinished);
  EXPECT_EQ(report.corrupted, wire.spoilt);
  EXPECT_EQ(report.duplicated, wire.doubled);
  EXPECT_EQ(report.lost, wire.dropped + wire.spoilt);
  EXPECT_EQ(report.frames_received, report.frames_sent - report.lost);
}

TEST(GenEcho, the_rate_is_kept) {
  Wire wire;
  TrafficSpec spec;
  spec.duration_ms = 1000;
  spec.rate = 1000;
  const TrafficReport report = wire.run(spec);
  EXPECT_NEAR(static_cast<double>(report.frames_sent), 1000.0, 12.0);
  EXPECT_EQ(report.lost, 0u);
}

TEST(GenEcho, without_window_frames_are_only_sent) {
  Wire wire;
  TrafficSpec spec;
  spec.frames = 100;
  spec.window = 0;
  const TrafficReport report = wire.run(spec);
  EXPECT_EQ(report.frames_sent, 100u);
  EXPECT_EQ(report.lost, 0u);
}

TEST(GenEcho, an_object_that_does_not_answer_ends_the_run_as_failed) {
  Wire wire;
  TrafficSpec spec;
  spec.frames = 1;
  spec.peer_ipv4 = 0x0A4D0909;
  wire.run(spec);
  EXPECT_EQ(wire.gen.phase(), TrafficPhase::kFailed);
}

TEST(GenEcho, values_out_of_range_are_refused) {
  ManualClock clock;
  GenPort gen(kHost, clock);
  const auto refused = [&](auto change) {
    TrafficSpec spec;
    spec.frames = 1;
    change(spec);
    return !gen.start(spec).ok();
  };
  EXPECT_TRUE(refused([](TrafficSpec& spec) { spec.frames = 0; }));
  EXPECT_TRUE(refused([](TrafficSpec& spec) { spec.window = kGenWindowMax + 1; }));
  EXPECT_TRUE(refused([](TrafficSpec& spec) { spec.frame_bytes_min = 20; }));
  EXPECT_TRUE(refused([](TrafficSpec& spec) { spec.frame_bytes_max = 9019; }));
  EXPECT_TRUE(refused([](TrafficSpec& spec) { spec.kind = TrafficKind::kArp; }));
  EXPECT_FALSE(gen.running());
  EXPECT_FALSE(refused([](TrafficSpec&) {}));
  EXPECT_TRUE(refused([](TrafficSpec&) {}));  // one run at a time
}

TEST(EchoNic, is_busy_when_nobody_reads_and_loses_nothing) {
  EchoNicConfig config;
  config.answers = 4;
  EchoNic echo(config);
  ManualClock clock;
  GenPort gen(kHost, clock);
  TrafficSpec spec;
  spec.frames = 1;
  ASSERT_TRUE(gen.start(spec).ok());
  Frame frame(kVnetBytes + kGenFrameBytesMax);
  const FrameReadResult got = gen.read_frame(frame);
  ASSERT_EQ(got.io, FrameIo::kOk);
  const std::span<const std::byte> bytes(frame.data(), got.bytes);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(echo.write_frame(bytes, {}), FrameIo::kOk);
  EXPECT_EQ(echo.write_frame(bytes, {}), FrameIo::kBusy);
  Frame answer(kVnetBytes + kGenFrameBytesMax);
  EXPECT_EQ(echo.read_frame(answer).io, FrameIo::kOk);
  EXPECT_EQ(echo.write_frame(bytes, {}), FrameIo::kOk);
}

TEST(EchoNic, frames_for_others_and_cut_frames_get_no_answer) {
  EchoNic echo{EchoNicConfig{}};
  for (size_t length = kVnetBytes + kEthernetHeaderBytes; length < 80; ++length) {
    Frame frame(length, std::byte{0xFF});
    frame[kVnetBytes + 12] = std::byte{0x08};
    frame[kVnetBytes + 13] = length % 2 == 0 ? std::byte{0x06} : std::byte{0x00};
    EXPECT_EQ(echo.write_frame(frame, {}), FrameIo::kOk);
  }
  EXPECT_EQ(echo.write_frame(Frame(kVnetBytes + 13), {}), FrameIo::kDropped);
  Frame into(kVnetBytes + kGenFrameBytesMax);
  EXPECT_EQ(echo.read_frame(into).io, FrameIo::kEmpty);
  EXPECT_EQ(echo.counters().get(PortCounter::kWriteMalformed), 1u);
}

}  // namespace
}  // namespace weft
