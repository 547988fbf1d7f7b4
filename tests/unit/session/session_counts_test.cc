// Counters of a session that count what goes well: each frame, message, pool and request at the side that
// sends it and at the side that takes it.
#include <gtest/gtest.h>

#include "base/stats_page.h"
#include "tests/support/session_pair.h"
#include "tests/support/temp_dir.h"

namespace weft::session {
namespace {

using namespace std::chrono_literals;
using test::numbers;
using test::SessionPair;
using test::SessionPairOptions;
using C = SessionCounter;

constexpr uint32_t kFrames = 7;
constexpr uint32_t kFrameBytes = 321;

/// How frames travel, and the counters of a frame that went this way.
struct Way {
  const char* name;
  TransferMode mode;
  bool by_message;  // RDMA writes that a message indicates
  C out;
  C in;
};
constexpr std::array kWays{
    Way{"idata", TransferMode::kRdma, false, C::kWritesWithIdata, C::kCount},
    Way{"indications", TransferMode::kRdma, true, C::kIndicationsOut, C::kIndicationsIn},
    Way{"send_data", TransferMode::kSendDataOnly, false, C::kSendDataOut, C::kSendDataIn},
    Way{"plain_sends", TransferMode::kSendReceive, false, C::kPlainSendsOut, C::kPlainSendsIn}};

class SessionCounts : public testing::TestWithParam<Way> {
 protected:
  static SessionPairOptions options() {
    SessionPairOptions out;
    out.mode(GetParam().mode);
    out.host.force_indicate = out.unit.session.force_indicate = GetParam().by_message;
    return out;
  }
};

INSTANTIATE_TEST_SUITE_P(Ways, SessionCounts, testing::ValuesIn(kWays),
                         [](const auto& param_info) { return std::string(param_info.param.name); });

TEST_P(SessionCounts, a_frame_counts_with_its_bytes_and_its_way_at_both_sides) {
  for (const int from : {0, 1}) {
    SessionPair pair(options());
    ASSERT_EQ(pair.stream(from, 1, kFrames, kFrameBytes), numbers(1, kFrames));
    pair.run(100);
    const auto& sender = pair.side(from).counters();
    const auto& receiver = pair.side(1 - from).counters();
    EXPECT_EQ(sender.get(C::kFramesOut), kFrames);
    EXPECT_EQ(sender.get(C::kBytesOut), kFrames * kFrameBytes);
    EXPECT_EQ(receiver.get(C::kFramesIn), kFrames);
    EXPECT_EQ(receiver.get(C::kBytesIn), kFrames * kFrameBytes);
    for (const C none : {C::kFramesIn, C::kBytesIn}) EXPECT_EQ(sender.get(none), 0U);
    for (const C none : {C::kFramesOut, C::kBytesOut}) EXPECT_EQ(receiver.get(none), 0U);
    for (const Way& way : kWays) {
      const uint64_t expected = way.out == GetParam().out ? kFrames : 0;
      EXPECT_EQ(sender.get(way.out), expected) << way.name;
      EXPECT_EQ(receiver.get(way.out), 0U) << way.name;
      if (way.in == C::kCount) continue;
      EXPECT_EQ(receiver.get(way.in), expected) << way.name;
      EXPECT_EQ(sender.get(way.in), 0U) << way.name;
    }
  }
}

TEST_P(SessionCounts, each_pool_and_each_renewal_counts_at_both_sides) {
  SessionPair pair(options());
  const uint64_t pools = GetParam().mode == TransferMode::kRdma ? 2 : 1;
  for (const int side : {0, 1}) {
    EXPECT_EQ(pair.side(side).counters().get(C::kPoolsAdvertised), pools);
    EXPECT_EQ(pair.side(side).counters().get(C::kPoolsLearnt), pools);
  }
  pair.stream(0, 1, kFrames, kFrameBytes);
  pair.run_for(50ms);
  const auto& unit = pair.unit().counters();
  EXPECT_EQ(unit.get(C::kElementsRenewed), kFrames);
  EXPECT_GT(unit.get(C::kUpdatesOut), 0U);
  EXPECT_EQ(pair.host().counters().get(C::kUpdatesIn), unit.get(C::kUpdatesOut));
  EXPECT_EQ(unit.get(C::kUpdatesIn), 0U);
}

/// Pools of both sides end with a session in RDMA mode, each by a request and its reply. In other modes there
/// is nothing to flush.
TEST_P(SessionCounts, each_flush_counts_at_both_sides) {
  SessionPair pair(options());
  NetdevSession& unit = pair.unit();
  pair.host().close();
  pair.run_for(100ms);
  ASSERT_EQ(pair.host().state(), SessionState::kIdle);
  const uint64_t flushes = GetParam().mode == TransferMode::kRdma ? 2 : 0;
  const auto& host = pair.host().counters();
  EXPECT_EQ(host.get(C::kFlushRequestsOut), flushes);
  EXPECT_EQ(unit.counters().get(C::kFlushRequestsIn), flushes);
  EXPECT_EQ(unit.counters().get(C::kFlushRepliesOut), flushes);
  EXPECT_EQ(host.get(C::kFlushRepliesIn), flushes);
  for (const C none : {C::kFlushRequestsIn, C::kFlushRepliesOut}) EXPECT_EQ(host.get(none), 0U);
  for (const C none : {C::kFlushRequestsOut, C::kFlushRepliesIn}) EXPECT_EQ(unit.counters().get(none), 0U);
}

TEST_P(SessionCounts, a_configuration_request_counts_at_both_sides_and_so_does_its_answer) {
  SessionPair pair(options());
  for (const uint16_t code : {uint16_t{1}, uint16_t{2}})
    ASSERT_NE(pair.host().request_config({.request_class = CfgClass::kMacConfig, .code = code}), 0U);
  pair.run_for(10ms);
  const auto& host = pair.host().counters();
  const auto& unit = pair.unit().counters();
  EXPECT_EQ(host.get(C::kConfigRequestsOut), 2U);
  EXPECT_EQ(unit.get(C::kConfigRequestsIn), 2U);
  EXPECT_EQ(host.get(C::kConfigRepliesIn), 2U);
  EXPECT_EQ(host.get(C::kConfigRequestsIn), 0U);
  for (const C none : {C::kConfigRequestsOut, C::kConfigRepliesIn}) EXPECT_EQ(unit.get(none), 0U);
}

// ---- gauges --------------------

class SessionGaugesShown : public testing::Test {
 protected:
  void show(SessionPair& pair) {
    ASSERT_TRUE(page.ok());
    ASSERT_TRUE(pair.host().publish(page.value(), "host"));
    ASSERT_TRUE(pair.unit().publish(page.value(), "unit"));
  }
  uint64_t now(const std::string& side, const std::string& gauge) const {
    const auto entries = read_stats_page(path).value();
    for (const auto& [name, value] : entries)
      if (name == side + ".now." + gauge) return value;
    return UINT64_MAX;
  }

  test::TempDir dir;
  std::string path = dir.path() + "/stats";
  Result<StatsPage> page = StatsPage::create(path, 1000);
};

/// The driver of the unit takes nothing, so the elements of the arrived frames stay with it.
TEST_F(SessionGaugesShown, a_keepalive_shows_where_the_elements_and_frames_are) {
  SessionPair pair(SessionPairOptions().pools({{2048, 8}}));
  show(pair);
  for (uint32_t i = 0; i < 3; ++i) ASSERT_TRUE(pair.send(0, i, 100));
  pair.run_for(1s);
  EXPECT_EQ(now("host", "incarnation"), 1U);
  EXPECT_EQ(now("host", "peer_elements"), 8U);
  EXPECT_EQ(now("host", "peer_free"), 5U);
  EXPECT_EQ(now("host", "own_exposed"), 8U);
  EXPECT_EQ(now("host", "frames_in_flight"), 0U);
  EXPECT_EQ(now("host", "frames_waiting"), 0U);
  EXPECT_EQ(now("host", "peer_lid"), 2U);
  EXPECT_EQ(now("unit", "own_exposed"), 5U);
  EXPECT_EQ(now("unit", "own_indicated"), 3U);
  EXPECT_EQ(now("unit", "own_freed"), 0U);
  EXPECT_EQ(now("unit", "peer_free"), 8U);
  EXPECT_EQ(now("unit", "peer_lid"), 1U);
  pair.receive(1);
  pair.run_for(1s);
  EXPECT_EQ(now("unit", "own_exposed"), 8U);
  EXPECT_EQ(now("unit", "own_indicated"), 0U);
  EXPECT_EQ(now("host", "peer_free"), 8U);
}

/// The unit stands still: it neither acknowledges the frames nor renews their elements.
TEST_F(SessionGaugesShown, a_host_shows_the_frames_that_are_under_way_and_those_that_wait) {
  SessionPairOptions small = SessionPairOptions().pools({{512, 2}, {2048, 2}});
  small.unit.session.limits.pools_per_class = 1;
  SessionPair pair(small);
  show(pair);
  const auto hold = [](int from, std::vector<std::byte>&) {
    return from == 1 ? test::Verdict::kHold : test::Verdict::kPass;
  };
  pair.pipe.set_filter(hold);
  for (uint32_t i = 0; i < 2; ++i) ASSERT_TRUE(pair.send(0, i, 1000));
  ASSERT_TRUE(pair.send(0, 2, 1000)) << "an element is free, but too small for this frame: the frame waits";
  EXPECT_FALSE(pair.send(0, 3, 100));
  pair.run_for(600ms);
  EXPECT_EQ(now("host", "peer_elements"), 4U);
  EXPECT_EQ(now("host", "peer_free"), 2U);
  EXPECT_EQ(now("host", "frames_in_flight"), 2U);
  EXPECT_EQ(now("host", "frames_waiting"), 1U);
}

}  // namespace
}  // namespace weft::session
