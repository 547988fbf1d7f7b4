// The traffic station against the LAN object, in virtual time, without a fabric between them.
#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <vector>

#include "base/net/checksum.h"
#include "host_driver/gen_port.h"
#include "host_driver/traffic_control.h"
#include "iou_driver/echo_nic.h"

namespace weft {
namespace {

using namespace std::chrono_literals;
using Frame = std::vector<std::byte>;
constexpr MacAddress kHost{0x02, 0, 0, 0, 0, 0x2A};

/// Carries frames between station and object; `out` and `in` may spoil them.
class Wire {
 public:
  Wire() : gen(kHost, clock), echo(iou::EchoNicConfig{}) { gen.set_carrier(true); }
  virtual ~Wire() = default;
  virtual void back(std::deque<Frame>&) {}

  bool turn() {
    clock.advance(1us);
    gen.poll(clock.now());
    bool moved = false;
    Frame frame(kVnetBytes + host::kGenFrameBytesMax);
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
  host::TrafficResult run(const host::TrafficSpec& spec) {
    EXPECT_TRUE(gen.start(spec).ok());
    for (int i = 0; i < 2'000'000 && !gen.finished(); ++i) {
      if (!turn()) clock.advance(100us);
    }
    return gen.result();
  }

  ManualClock clock;
  host::GenPort gen;
  iou::EchoNic echo;
  std::deque<Frame> answers;
};

TEST(GenEcho, every_kind_of_round_trip_and_a_verified_bulk_run) {
  Wire wire;
  wire.clock.advance(1s);
  host::TrafficSpec spec;
  spec.round_trips = 20;
  spec.bulk_frames = 500;
  spec.sizes = {60, 98, 1514, 9014};
  spec.size_count = 4;
  const host::TrafficResult result = wire.run(spec);
  EXPECT_EQ(result.phase, host::TrafficPhase::kFinished);
  EXPECT_EQ(result.frames_sent, 4 * 20 + 500u);
  EXPECT_EQ(result.frames_received, result.frames_sent);
  EXPECT_EQ(result.lost + result.corrupted + result.duplicated + result.reordered + result.late, 0u);
  for (const host::RoundTripFigures& kind : result.by_kind) EXPECT_EQ(kind.count, 20u);
  EXPECT_EQ(result.bulk_bytes_received, 125u * (60 + 98 + 1514 + 9014));
  EXPECT_GT(result.bulk_gbps(), 0.0);
}

/// A run that would not end by itself for a day.
class Abandoned : public ::testing::Test {
 protected:
  void run_for(Duration length, bool renewed) {
    for (const Instant until = wire.clock.now() + length; wire.clock.now() < until;) {
      wire.turn();
      wire.clock.advance(1ms);
      if (renewed) wire.gen.renew();
    }
  }

  static host::TrafficSpec endless() {
    host::TrafficSpec spec;
    spec.bulk_frames = 0;
    spec.bulk_duration = 24h;
    spec.lease = 5s;
    return spec;
  }

  Wire wire;
};

TEST_F(Abandoned, a_run_ends_when_its_lease_is_not_renewed) {
  ASSERT_TRUE(wire.gen.start(endless()).ok());
  run_for(20s, true);
  EXPECT_EQ(wire.gen.result().phase, host::TrafficPhase::kBulk);
  run_for(4900ms, false);
  EXPECT_FALSE(wire.gen.finished());
  run_for(200ms, false);
  EXPECT_EQ(wire.gen.result().phase, host::TrafficPhase::kAbandoned);
  EXPECT_TRUE(wire.gen.finished());
  const uint64_t sent = wire.gen.result().frames_sent;
  run_for(1s, true);
  EXPECT_EQ(wire.gen.result().frames_sent, sent);
  EXPECT_TRUE(wire.gen.start(endless()).ok()) << "the next run";
}

/// `weft traffic` asks for its report several times a second.
TEST_F(Abandoned, a_run_goes_on_while_its_client_asks_for_reports) {
  host::TrafficControl traffic({&wire.gen});
  control::TrafficRun run;
  run.bulk_frames = 0;
  run.bulk_duration_ms = 24 * 3600 * 1000;
  ASSERT_TRUE(traffic.start(run).ok());
  for (int i = 0; i < 10; ++i) {
    run_for(1s, false);
    ASSERT_TRUE(traffic.report().value().running) << i;
  }
  run_for(5100ms, false);
  EXPECT_FALSE(traffic.report().value().running);
}

/// While nothing is sent, too: the loop sleeps by deadline().
TEST_F(Abandoned, a_run_that_waits_for_an_answer_ends_too) {
  host::TrafficSpec spec = endless();
  spec.answer_timeout = 24h;
  ASSERT_TRUE(wire.gen.start(spec).ok());
  run_for(1s, true);
  Frame frame(kVnetBytes + host::kGenFrameBytesMax);
  while (wire.gen.read_frame(frame).io == FrameIo::kOk) wire.clock.advance(1us);
  const Instant lost = wire.clock.now();
  while (!wire.gen.finished()) {
    ASSERT_LE(wire.gen.deadline(), lost + 7s);
    wire.clock.set(std::max(wire.gen.deadline(), wire.clock.now() + 1us));
    wire.gen.poll(wire.clock.now());
  }
  EXPECT_EQ(wire.gen.result().phase, host::TrafficPhase::kAbandoned);
  EXPECT_GE(wire.clock.now(), lost + 5s - 1ms);
}

TEST_F(Abandoned, a_process_that_stood_still_gives_its_asker_time) {
  ASSERT_TRUE(wire.gen.start(endless()).ok());
  run_for(1s, true);
  wire.clock.advance(1h);
  run_for(1s, false);
  EXPECT_FALSE(wire.gen.finished());
}

class Spoiler final : public Wire {
 public:
  void back(std::deque<Frame>& frames) override {
    if (frames.empty() || ++count_ % 10 != 0 || gen.result().phase != host::TrafficPhase::kBulk) return;
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

/// Nothing comes back for a while, then everything: the station has asked several times.
class Stall final : public Wire {
 public:
  explicit Stall(Duration length) : until_(clock.now() + length) {}
  void back(std::deque<Frame>& frames) override {
    held_.insert(held_.end(), frames.begin(), frames.end());
    frames.clear();
    most = std::max(most, held_.size());
    if (clock.now() >= until_) frames.swap(held_);
  }
  void stall_for(Duration length) { until_ = clock.now() + length; }
  size_t most = 0;

 private:
  Instant until_;
  std::deque<Frame> held_;
};

TEST(GenEcho, answers_to_repeated_resolution_are_no_duplicates) {
  Stall wire(1s);
  host::TrafficSpec spec;
  spec.round_trips = 20;
  spec.bulk_frames = 100;
  const host::TrafficResult result = wire.run(spec);
  ASSERT_GT(wire.most, 1U) << "it asked more than once";
  EXPECT_EQ(result.phase, host::TrafficPhase::kFinished);
  EXPECT_EQ(result.frames_received, result.frames_sent);
  EXPECT_EQ(result.lost + result.corrupted + result.duplicated + result.reordered + result.late, 0u);
}

TEST(GenEcho, loss_repetition_and_corruption_are_told_apart) {
  Spoiler wire;
  host::TrafficSpec spec;
  spec.bulk_frames = 600;
  spec.answer_timeout = 100ms;
  const host::TrafficResult result = wire.run(spec);
  EXPECT_GT(wire.dropped, 0u);
  EXPECT_EQ(result.phase, host::TrafficPhase::kFinished);
  EXPECT_EQ(result.corrupted, wire.spoilt);
  EXPECT_EQ(result.duplicated, wire.doubled);
  EXPECT_EQ(result.lost, wire.dropped + wire.spoilt);
  EXPECT_EQ(result.frames_received, result.frames_sent - result.lost);
}

/// Loses each third answer of a round trip.
class Swallower final : public Wire {
 public:
  void back(std::deque<Frame>& frames) override {
    if (gen.result().phase != host::TrafficPhase::kRoundTrips || frames.empty() || ++count_ % 3 != 0) return;
    frames.pop_front();
    ++swallowed;
  }
  uint64_t swallowed = 0;

 private:
  uint64_t count_ = 0;
};

TEST(GenEcho, a_round_trip_that_is_lost_was_one) {
  Swallower wire;
  host::TrafficSpec spec;
  spec.round_trips = 9;
  spec.bulk_frames = 0;
  spec.answer_timeout = 10ms;
  const host::TrafficResult result = wire.run(spec);
  EXPECT_EQ(result.phase, host::TrafficPhase::kFinished);
  EXPECT_EQ(result.frames_sent, 4 * 9U);
  EXPECT_GT(wire.swallowed, 0U);
  EXPECT_EQ(result.lost, wire.swallowed);
}

/// A bulk run whose answers come back when and as the test says.
class Stamps : public ::testing::Test {
 protected:
  class Hand final : public Wire {
   public:
    void back(std::deque<Frame>& frames) override {
      if (gen.result().phase != host::TrafficPhase::kBulk) return;
      kept.insert(kept.end(), frames.begin(), frames.end());
      frames.clear();
    }
    /// Until `count` answers are in the hand.
    void collect(size_t count, host::TrafficSpec spec = {}) {
      spec.round_trips = 0;
      spec.answer_timeout = 100ms;
      ASSERT_TRUE(gen.start(spec).ok());
      for (int i = 0; i < 1000 && kept.size() < count; ++i) turn();
      ASSERT_EQ(kept.size(), count);
    }
    void deliver(const Frame& frame) { EXPECT_EQ(gen.write_frame(frame, {}), FrameIo::kOk); }
    std::vector<Frame> kept;
  };
  Hand wire;
};

TEST_F(Stamps, the_window_is_full_to_the_last_frame) {
  for (const uint32_t window : {1U, 2U, 5U}) {
    Hand full;
    host::TrafficSpec spec;
    spec.window = window;
    full.collect(window, spec);
    for (int i = 0; i < 200; ++i) full.turn();
    EXPECT_EQ(full.kept.size(), window);
    full.deliver(full.kept[0]);
    for (int i = 0; i < 200; ++i) full.turn();
    EXPECT_EQ(full.kept.size(), window + 1) << "one answer, one frame more";
  }
}

TEST_F(Stamps, an_answer_behind_a_later_one_is_reordered) {
  wire.collect(3);
  for (const size_t number : {1U, 0U, 2U}) wire.deliver(wire.kept[number]);
  const host::TrafficResult result = wire.gen.result();
  EXPECT_EQ(result.reordered, 1U);
  EXPECT_EQ(result.frames_received, 3U);
  EXPECT_EQ(result.lost + result.corrupted + result.duplicated + result.late, 0U);
}

TEST_F(Stamps, an_answer_after_its_time_is_late_and_its_repetition_a_duplicate) {
  wire.collect(1);
  wire.clock.advance(200ms);
  wire.gen.poll(wire.clock.now());
  const uint64_t lost = wire.gen.result().lost;
  EXPECT_GE(lost, 1U);
  wire.deliver(wire.kept[0]);
  EXPECT_EQ(wire.gen.result().late, 1U);
  EXPECT_EQ(wire.gen.result().duplicated, 0U);
  wire.deliver(wire.kept[0]);
  EXPECT_EQ(wire.gen.result().late, 1U);
  EXPECT_EQ(wire.gen.result().duplicated, 1U);
  EXPECT_EQ(wire.gen.result().lost, lost) << "what was lost stays lost";
  EXPECT_EQ(wire.gen.result().frames_received, 0U);
}

TEST_F(Stamps, a_stamp_that_was_never_sent_is_corruption) {
  Hand ahead;
  ahead.collect(9);
  wire.collect(1);
  wire.deliver(ahead.kept[8]);
  EXPECT_EQ(wire.gen.result().corrupted, 1U);
  EXPECT_EQ(wire.gen.result().duplicated + wire.gen.result().late, 0U);
  EXPECT_EQ(wire.gen.result().frames_received, 0U);
}

TEST(GenEcho, a_run_that_is_stopped_waits_for_what_is_on_its_way) {
  for (const uint32_t round_trips : {0U, 1000U}) {  // stopped in the bulk run, stopped in the round trips
    Stall wire(2s);
    wire.clock.advance(2s);
    host::TrafficSpec spec;
    spec.round_trips = round_trips;
    ASSERT_TRUE(wire.gen.start(spec).ok());
    while (wire.gen.result().frames_received < 100) wire.turn();
    wire.stall_for(1s);
    for (int i = 0; i < 100; ++i) wire.turn();
    const uint64_t sent = wire.gen.result().frames_sent;
    ASSERT_GT(sent, wire.gen.result().frames_received);
    wire.gen.stop();
    EXPECT_FALSE(wire.gen.finished());
    for (int i = 0; i < 20'000 && !wire.gen.finished(); ++i) {
      if (!wire.turn()) wire.clock.advance(100us);
    }
    const host::TrafficResult result = wire.gen.result();
    EXPECT_EQ(result.phase, host::TrafficPhase::kFinished);
    EXPECT_EQ(result.frames_sent, sent) << "nothing left after stop()";
    EXPECT_EQ(result.frames_received, sent);
    EXPECT_EQ(result.lost + result.corrupted + result.duplicated + result.late, 0u);
  }
}

TEST(GenEcho, the_rate_is_kept) {
  Wire wire;
  host::TrafficSpec spec;
  spec.round_trips = 0;
  spec.bulk_frames = 0;
  spec.bulk_duration = 1s;
  spec.rate_per_s = 1000;
  const host::TrafficResult result = wire.run(spec);
  EXPECT_NEAR(static_cast<double>(result.frames_sent), 1000.0, 12.0);
  EXPECT_EQ(result.lost, 0u);
}

TEST(GenEcho, an_object_that_does_not_answer_ends_the_run_as_failed) {
  Wire wire;
  host::TrafficSpec spec;
  spec.target_ipv4 = {10, 77, 9, 9};
  EXPECT_EQ(wire.run(spec).phase, host::TrafficPhase::kFailed);
  EXPECT_EQ(wire.run({}).phase, host::TrafficPhase::kFinished) << "another run asks as often as it may";
}

TEST(GenEcho, a_frame_that_the_session_does_not_carry_ends_the_run_and_says_so) {
  Wire wire;
  host::TrafficSpec spec;
  spec.round_trips = 0;
  spec.sizes = {98, 1514};
  spec.size_count = 2;
  ASSERT_TRUE(wire.gen.start(spec).ok());
  while (wire.gen.result().frames_sent == 0) wire.turn();
  Frame room(kVnetBytes + 1000);
  EXPECT_EQ(wire.gen.read_frame(room).io, FrameIo::kDropped);
  EXPECT_EQ(wire.gen.result().phase, host::TrafficPhase::kTooLong);
  EXPECT_TRUE(wire.gen.finished());
}

TEST(GenEcho, a_second_run_counts_its_own_round_trips) {
  Wire wire;
  host::TrafficSpec spec;
  spec.round_trips = 20;
  spec.bulk_frames = 100;
  for (int run = 0; run < 3; ++run) {
    const host::TrafficResult result = wire.run(spec);
    EXPECT_EQ(result.phase, host::TrafficPhase::kFinished);
    EXPECT_EQ(result.frames_sent, 4 * 20 + 100U) << run;
    EXPECT_EQ(result.frames_received, result.frames_sent) << run;
    EXPECT_EQ(result.round_trip.count, 4 * 20U) << run;
    EXPECT_EQ(result.bulk_round_trip.count, 100U) << run;
    for (const host::RoundTripFigures& kind : result.by_kind) EXPECT_EQ(kind.count, 20U) << run;
    EXPECT_EQ(result.bulk_frames_received, 100U) << run;
  }
}

/// What a run that ended early still waited for is nothing to the next one.
TEST_F(Stamps, a_second_run_waits_for_nothing_of_the_first) {
  wire.collect(5);
  wire.clock.advance(200ms);
  wire.gen.poll(wire.clock.now());  // five are given up
  wire.gen.stop();
  wire.gen.poll(wire.clock.now());
  ASSERT_TRUE(wire.gen.finished());
  const std::vector<Frame> old = std::exchange(wire.kept, {});
  wire.collect(2);
  for (const Frame& frame : old) wire.deliver(frame);
  const host::TrafficResult before = wire.gen.result();
  EXPECT_EQ(before.late + before.duplicated + before.corrupted + before.frames_received, 0U);
  for (const Frame& frame : wire.kept) wire.deliver(frame);
  EXPECT_EQ(wire.gen.result().frames_received, 2U);
  EXPECT_EQ(wire.gen.result().lost, 0U);
}

TEST(GenEcho, the_largest_values_are_taken_and_none_beyond) {
  ManualClock clock;
  host::GenPort gen(kHost, clock);
  const auto starts = [&](auto change) {
    host::TrafficSpec spec;
    change(spec);
    return gen.start(spec).ok();
  };
  using Spec = host::TrafficSpec;
  EXPECT_TRUE(starts([](Spec& spec) { spec.window = host::kGenWindowMax; }));
  EXPECT_FALSE(starts([](Spec& spec) { spec.window = host::kGenWindowMax + 1; }));
  EXPECT_TRUE(starts([](Spec& spec) { spec.sizes[0] = host::kGenFrameBytesMax; }));
  EXPECT_FALSE(starts([](Spec& spec) { spec.sizes[0] = host::kGenFrameBytesMax + 1; }));
  EXPECT_TRUE(starts([](Spec& spec) { spec.round_trip_bytes = host::kGenFrameBytesMin; }));
  EXPECT_FALSE(starts([](Spec& spec) { spec.round_trip_bytes = host::kGenFrameBytesMin - 1; }));
  EXPECT_TRUE(starts([](Spec& spec) { spec.rate_per_s = 1'000'000'000; }));
  EXPECT_FALSE(starts([](Spec& spec) { spec.rate_per_s = 1'000'000'001; }));
}

TEST(GenEcho, values_out_of_range_are_refused) {
  ManualClock clock;
  host::GenPort gen(kHost, clock);
  host::TrafficSpec spec;
  spec.window = 0;
  EXPECT_FALSE(gen.start(spec).ok());
  spec = {};
  spec.sizes[0] = 20;
  EXPECT_FALSE(gen.start(spec).ok());
  spec = {};
  spec.size_count = 9;
  EXPECT_FALSE(gen.start(spec).ok());
  EXPECT_TRUE(gen.finished());
}

/// Several generators on one LAN ask for several objects.
TEST(GenFrames, an_answer_is_of_whom_was_asked_for_and_for_whom_asked) {
  const host::GenStation self{kHost, {10, 77, 1, 1}, {0xFD, 0x77, 1}};
  const host::GenStation object{{2, 0, 0, 0, 0, 7}, {10, 77, 1, 7}, {0xFD, 0x77, 7}};
  host::GenStation renamed = self;  // its address has changed since it asked
  renamed.ipv4[3] = 2;
  host::GenStation other = object;
  other.ipv4[3] = 8;
  other.ipv6[2] = 8;
  Frame asked(host::kGenFrameBytesMax);
  Frame answer(host::kGenFrameBytesMax);
  for (const host::GenKind kind : {host::GenKind::kArp, host::GenKind::kNeighbour}) {
    const uint32_t bytes = host::build_request(kind, self, object, 0, {}, asked);
    const uint32_t told = host::build_resolution_answer(std::span(asked).first(bytes), object, answer);
    ASSERT_NE(told, 0U);
    const std::span<const std::byte> whole = std::span(answer).first(told);
    EXPECT_EQ(host::check_answer(whole, self, object, 0).verdict, host::GenVerdict::kGood);
    EXPECT_EQ(host::check_answer(whole, self, other, 0).verdict, host::GenVerdict::kNotOurs);
    if (kind == host::GenKind::kArp) {
      EXPECT_EQ(host::check_answer(whole, renamed, object, 0).verdict, host::GenVerdict::kNotOurs);
    }
  }
}

TEST(EchoNic, is_busy_when_nobody_reads_and_loses_nothing) {
  iou::EchoNicConfig config;
  config.answers = 4;
  iou::EchoNic echo(config);
  ManualClock clock;
  host::GenPort gen(kHost, clock);
  ASSERT_TRUE(gen.start(host::TrafficSpec{}).ok());
  Frame frame(kVnetBytes + host::kGenFrameBytesMax);
  const FrameReadResult got = gen.read_frame(frame);
  ASSERT_EQ(got.io, FrameIo::kOk);
  const std::span<const std::byte> bytes(frame.data(), got.bytes);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(echo.write_frame(bytes, {}), FrameIo::kOk);
  EXPECT_EQ(echo.write_frame(bytes, {}), FrameIo::kBusy);
  Frame answer(kVnetBytes + host::kGenFrameBytesMax);
  EXPECT_EQ(echo.read_frame(answer).io, FrameIo::kOk);
  EXPECT_EQ(echo.write_frame(bytes, {}), FrameIo::kOk);
}

/// RFC 4861 7.1.1: a solicitation that a router has passed on comes from no neighbour.
TEST(EchoNic, only_neighbours_are_answered_where_it_is) {
  const iou::EchoNicConfig config;
  const host::GenStation object{config.object_mac, config.ipv4, config.ipv6};
  const host::GenStation asker{kHost, {10, 77, 1, 1}, {0xFD, 0x77, 1}};
  for (const uint8_t hop_limit : {uint8_t{255}, uint8_t{254}}) {
    iou::EchoNic echo(config);
    Frame frame(kVnetBytes + host::kGenFrameBytesMax);
    const uint32_t bytes = host::build_request(host::GenKind::kNeighbour, asker, object, 0, {},
                                               std::span(frame).subspan(kVnetBytes));
    frame[kVnetBytes + kEthernetHeaderBytes + 7] = std::byte{hop_limit};
    EXPECT_EQ(echo.write_frame(std::span(frame).first(kVnetBytes + bytes), {}), FrameIo::kOk);
    EXPECT_EQ(echo.read_frame(frame).io, hop_limit == 255 ? FrameIo::kOk : FrameIo::kEmpty);
  }
}

TEST(EchoNic, the_first_of_several_fragments_gets_no_answer) {
  const iou::EchoNicConfig config;
  const host::GenStation object{config.object_mac, config.ipv4, config.ipv6};
  const host::GenStation asker{kHost, {10, 77, 1, 1}, {0xFD, 0x77, 1}};
  for (const bool more_fragments : {false, true}) {
    iou::EchoNic echo(config);
    Frame frame(kVnetBytes + host::kGenFrameBytesMax);
    const uint32_t bytes =
        host::build_request(host::GenKind::kIcmp, asker, object, 0, {}, std::span(frame).subspan(kVnetBytes));
    std::byte* const ip = frame.data() + kVnetBytes + kEthernetHeaderBytes;
    if (more_fragments) ip[6] |= std::byte{0x20};
    set_ipv4_checksum(ip, 20);
    EXPECT_EQ(echo.write_frame(std::span(frame).first(kVnetBytes + bytes), {}), FrameIo::kOk);
    EXPECT_EQ(echo.read_frame(frame).io, more_fragments ? FrameIo::kEmpty : FrameIo::kOk);
  }
}

TEST(EchoNic, frames_for_others_and_cut_frames_get_no_answer) {
  iou::EchoNic echo{iou::EchoNicConfig{}};
  for (size_t length = kVnetBytes + kEthernetHeaderBytes; length < 80; ++length) {
    Frame frame(length, std::byte{0xFF});
    frame[kVnetBytes + 12] = std::byte{0x08};
    frame[kVnetBytes + 13] = length % 2 == 0 ? std::byte{0x06} : std::byte{0x00};
    EXPECT_EQ(echo.write_frame(frame, {}), FrameIo::kOk);
  }
  EXPECT_EQ(echo.write_frame(Frame(kVnetBytes + 13), {}), FrameIo::kDropped);
  Frame into(kVnetBytes + host::kGenFrameBytesMax);
  EXPECT_EQ(echo.read_frame(into).io, FrameIo::kEmpty);
  EXPECT_EQ(echo.counters().get(PortCounter::kWriteMalformed), 1u);
}

}  // namespace
}  // namespace weft
