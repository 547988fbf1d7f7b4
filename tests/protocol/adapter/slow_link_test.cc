// Queue pairs over a link that a rate of `weft fault` makes slow: nothing is lost, nothing is sent twice, and
// what arrives is what the rate allows. docs/faults.md.
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "tests/support/adapter_star.h"

namespace weft::test {
using namespace adapter;
using fabric::SwitchPortCounter;
namespace {

constexpr double kLaw = 0.05;
constexpr uint32_t kSlowCell = 4096;

/// Timeout 14 and 7 retries, the values of perftest.
QpAttr attr_on(uint8_t sl = 0) {
  QpAttr attr;
  attr.ack_timeout = std::chrono::nanoseconds(4096) * (1 << 14);
  attr.retry_count = 7;
  attr.sl = ServiceLevel(sl);
  return attr;
}

/// Side i sits on port i + 1, with default cells and credits.
class SlowLink {
 protected:
  explicit SlowLink(uint32_t nodes = 3) : star_(config(nodes)) {}

  static TestFabricConfig config(uint32_t nodes) {
    TestFabricConfig out;
    out.switching = small_switch(0, fabric::kCreditsPerLaneDefault);
    out.switching.link.cell_payload_bytes = kSlowCell;
    out.nodes = nodes;
    return out;
  }
  fabric::LiveFaults& faults() { return star_.fabric.fabric->faults(); }
  [[nodiscard]] Instant now() const { return star_.fabric.clock.now(); }
  uint32_t set_rate(uint64_t bits, uint16_t port = kFaultEveryPort) {
    return faults().add({.kind = FaultKind::kRate, .port = port, .bits_per_second = bits}, now()).value();
  }
  /// Keeps `depth` writes of `bytes` bytes in flight.
  struct Stream {
    QueuePair* qp = nullptr;
    int from = 0;
    int to = 1;
    uint32_t bytes = 0;
    uint64_t id = 0;
    uint64_t posted = 0;
    uint64_t done = 0;
    uint64_t failed = 0;
  };
  void pump(Stream& stream, uint64_t depth) {
    const Sge sge = star_.side(stream.from).sge(0, stream.bytes);
    const MemoryRegion& there = star_.side(stream.to).region;
    while (stream.posted < stream.done + stream.failed + depth) {
      const SendRequest write{.wr_id = stream.id,
                              .opcode = SendOpcode::kRdmaWrite,
                              .flags = kSendSignaled,
                              .sges = {&sge, 1},
                              .remote_addr = there.addr,
                              .rkey = there.rkey};
      ASSERT_EQ(star_.side(stream.from).adapter->post_send(*stream.qp, write), PostResult::kOk);
      ++stream.posted;
    }
  }
  void collect(std::vector<Stream>& streams) {
    for (PairSide& side : star_.sides) {
      for (const WorkCompletion& each : side.completions) {
        for (Stream& stream : streams)
          if (stream.id == each.wr_id) ++(each.status == WcStatus::kSuccess ? stream.done : stream.failed);
      }
      side.completions.clear();
    }
  }
  void run(std::vector<Stream>& streams, uint64_t depth, Duration time, Duration step = 10us) {
    for (const Instant end = now() + time; now() < end;) {
      for (Stream& stream : streams) ASSERT_NO_FATAL_FAILURE(pump(stream, depth));
      star_.run(1, step);
      collect(streams);
    }
  }
  /// Lets what is under way arrive.
  void settle(std::vector<Stream>& streams, Duration time, Duration step = 100us) {
    for (const Instant end = now() + time; now() < end;) {
      star_.run(1, step);
      collect(streams);
    }
    for (const Stream& stream : streams) EXPECT_EQ(stream.done, stream.posted);
  }
  void expect_untouched(const std::vector<Stream>& streams) {
    for (const Stream& stream : streams) {
      EXPECT_EQ(stream.failed, 0U);
      const auto& counters = star_.side(stream.from).adapter->counters(*stream.qp);
      EXPECT_EQ(counters.get(QpCounter::kCellsRepeated), 0U);
      EXPECT_EQ(counters.get(QpCounter::kTimeouts), 0U);
    }
    EXPECT_EQ(star_.fabric.drops(), 0U);
    star_.fabric.expect_conserved();
  }
  /// Every credit is back at the endnode.
  void expect_no_credit_kept(int node) {
    const fabric::LinkEngine& link = star_.fabric.link(static_cast<uint32_t>(node), kNode);
    EXPECT_EQ(link.credits(VirtualLane(0)), fabric::kCreditsPerLaneDefault);
    EXPECT_FALSE(faults().busy());
  }

  AdapterStar star_;
};

// ---- what passes

class SlowLinkLaw : public SlowLink, public ::testing::TestWithParam<std::tuple<uint32_t, uint32_t>> {};

TEST_P(SlowLinkLaw, is_full_and_loses_nothing) {
  const auto [megabits, bytes] = GetParam();
  const double rate = megabits * 1e6;
  set_rate(uint64_t{megabits} * 1'000'000);
  std::vector<Stream> streams{{.qp = star_.connect({}, attr_on())[0], .bytes = bytes, .id = 1}};
  const Duration time = megabits < 100 ? 2000ms : 500ms;
  run(streams, 128, time / 4);
  const uint64_t before = streams[0].done;
  run(streams, 128, time);
  const double seconds = std::chrono::duration<double>(time).count();
  const double share = double{kSlowCell} / (kSlowCell + kCellHeaderBytes + kCrcBytes);
  const double goodput = static_cast<double>((streams[0].done - before) * bytes * 8) / seconds;
  EXPECT_NEAR(goodput, rate * share, rate * share * kLaw);
  expect_untouched(streams);
  EXPECT_GT(star_.fabric.count(1, SwitchPortCounter::kCellsPaced), 0U);
  settle(streams, 4s);
  expect_no_credit_kept(0);
}

INSTANTIATE_TEST_SUITE_P(Rates, SlowLinkLaw,
                         ::testing::Combine(::testing::Values(20U, 100U, 1000U),
                                            ::testing::Values(4096U, 65536U)),
                         [](const auto& test) {
                           return "mbit" + std::to_string(std::get<0>(test.param)) + "_bytes" +
                                  std::to_string(std::get<1>(test.param));
                         });

class SlowLinks : public SlowLink, public ::testing::Test {};

/// As for perftest with -q: each queue pair waits behind the cells of all others.
TEST_F(SlowLinks, outlasts_the_timeouts_of_many_queue_pairs) {
  set_rate(1'000'000);
  std::vector<Stream> streams;
  for (uint64_t i = 0; i < 4; ++i)
    streams.push_back({.qp = star_.connect({}, attr_on())[0], .bytes = 65536, .id = i + 1});
  run(streams, 2, 20s, 100us);
  uint64_t done = 0;
  for (const Stream& stream : streams) {
    EXPECT_EQ(stream.failed, 0U);
    done += stream.done;
  }
  const double share = double{kSlowCell} / (kSlowCell + kCellHeaderBytes + kCrcBytes);
  EXPECT_GE(static_cast<double>(done * 65536 * 8) / 20, 1e6 * share * 0.8) << "few cells are sent twice";
  EXPECT_EQ(star_.fabric.drops(), 0U);
}

/// Two directions: acknowledgements wait behind the data of the other one.
TEST_F(SlowLinks, has_the_rate_each_way_at_once) {
  set_rate(20'000'000);
  const auto qps = star_.connect({}, attr_on());
  std::vector<Stream> streams{{.qp = qps[0], .from = 0, .to = 1, .bytes = 65536, .id = 1},
                              {.qp = qps[1], .from = 1, .to = 0, .bytes = 65536, .id = 2}};
  run(streams, 16, 500ms);
  const uint64_t before[] = {streams[0].done, streams[1].done};
  run(streams, 16, 2s);
  for (size_t i = 0; i < 2; ++i) {
    const double goodput = static_cast<double>((streams[i].done - before[i]) * 65536 * 8) / 2;
    EXPECT_NEAR(goodput, 20e6, 20e6 * kLaw);
  }
  expect_untouched(streams);
}

// ---- neighbours

/// Side 0 has a rate towards port 2 in front of it, and fills it.
class SlowNeighbour : public SlowLink, public ::testing::Test {
 protected:
  SlowNeighbour() : SlowLink(4) {
    set_rate(20'000'000, 2);
    streams_.push_back({.qp = star_.connect({}, attr_on())[0], .bytes = 65536, .id = 1});
    run(streams_, 16, 600ms);  // the first burst has all the credit of the lane
  }
  /// The longest time of `count` single writes of 4 KiB while the slow link is full.
  Duration slowest(int from, int to, uint8_t sl, int count) {
    streams_.push_back({.qp = star_.connect({}, attr_on(sl), from, to)[0],
                        .from = from,
                        .to = to,
                        .bytes = kSlowCell,
                        .id = 2});
    Duration worst{};
    for (int i = 0; i < count; ++i) {
      const Instant start = now();
      const uint64_t done = streams_[1].done;
      pump(streams_[1], 1);
      while (streams_[1].done == done && now() - start < 2s) {
        pump(streams_[0], 16);
        star_.run(1, 10us);
        collect(streams_);
      }
      worst = std::max(worst, now() - start);
    }
    EXPECT_EQ(streams_[1].failed, 0U);
    return worst;
  }
  static constexpr Duration kCellTime = std::chrono::microseconds(1660);  // 4 KiB at 20 Mbit/s
  std::vector<Stream> streams_;
};

TEST_F(SlowNeighbour, does_not_slow_others_on_other_links) {
  EXPECT_LT(slowest(2, 3, 0, 50), 100us);
}

TEST_F(SlowNeighbour, does_not_slow_other_lanes_of_its_sender) {
  EXPECT_LT(slowest(0, 2, 1, 50), 100us);
}

/// Lanes share the link in turn: what is on another lane waits for the cell on its way and its own turns.
TEST_F(SlowNeighbour, shares_its_link_with_other_lanes_in_turn) {
  EXPECT_LT(slowest(0, 1, 1, 20), 3 * kCellTime);
}

/// Senders to the slow link take turns.
TEST_F(SlowNeighbour, shares_its_link_with_other_senders_in_turn) {
  EXPECT_LT(slowest(2, 1, 0, 20), 3 * kCellTime);
}

/// As in InfiniBand, a lane's credits are those of all destinations. What waits for a slow one is bounded.
TEST_F(SlowNeighbour, delays_its_senders_other_cells_on_the_lane_by_its_queue) {
  EXPECT_LT(slowest(0, 2, 0, 20), fabric::kRateQueueTime + 3 * kCellTime);
}

}  // namespace
}  // namespace weft::test
