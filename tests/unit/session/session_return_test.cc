// A unit's session is over while the driver still holds frames of it: they stay in order with those of the
// next session of the same host, what they cost is bounded, and the gauges tell the truth.
#include <gtest/gtest.h>

#include "base/stats_page.h"
#include "tests/support/session_pair.h"
#include "tests/support/temp_dir.h"

namespace weft::session {
namespace {

using namespace std::chrono_literals;
using namespace test;  // NOLINT(google-build-using-namespace): the test's own words
using C = SessionCounter;

struct Order : public ::testing::TestWithParam<TransferMode> {
  /// The host dies with `count` frames at the unit that the NIC has not taken, and comes back.
  static void die_and_return(SessionPair& pair, uint32_t first, uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) EXPECT_TRUE(pair.send(0, first + i, 1000));
    pair.run(20);
    pair.restart_host();
    pair.run_until_open();
  }
};

TEST_P(Order, frames_of_the_old_session_come_before_those_of_the_new) {
  SessionPair pair(SessionPairOptions().mode(GetParam()));
  die_and_return(pair, 0, 5);
  for (uint32_t i = 0; i < 5; ++i) EXPECT_TRUE(pair.send(0, 100 + i, 1000));
  pair.run(20);
  const auto sessions = pair.acceptor().sessions();
  ASSERT_EQ(sessions.size(), 2U);
  std::vector<uint32_t> got;
  for (int i = 0; i < 40; ++i) {  // a driver that serves the newest first
    NetdevSession& session = *sessions[i % 2 == 0 ? 1 : 0];
    const InboundFrame* frame = session.front_frame();
    if (frame == nullptr) continue;
    got.push_back(check_frame(frame->bytes));
    session.release_frame();
  }
  EXPECT_EQ(got, (std::vector<uint32_t>{0, 1, 2, 3, 4, 100, 101, 102, 103, 104}));
  pair.expect_conserved();
}

/// What had arrived and was not yet looked at when the host came back is delivered, too.
TEST_P(Order, frames_still_in_the_completion_queue_are_not_forgotten) {
  SessionPair pair(SessionPairOptions().mode(GetParam()));
  for (uint32_t i = 0; i < 5; ++i) EXPECT_TRUE(pair.send(0, i, 1000));
  pair.host().flush();
  pair.adapter(0).poll(pair.clock.now());
  pair.restart_host();
  pair.adapter(0).poll(pair.clock.now());
  pair.host().poll(pair.clock.now());  // REQ is on its way behind the frames
  pair.run_until_open();
  const auto sessions = pair.acceptor().sessions();
  EXPECT_EQ(sessions[0]->counters().get(C::kLostReplaced), 1U);
  EXPECT_EQ(sessions[0]->counters().get(C::kFramesIn), 5U);
}

/// A host that dies again and again before a NIC that takes nothing holds two sessions, not all of them.
TEST_P(Order, only_one_session_is_kept_for_its_frames) {
  SessionPair pair(SessionPairOptions().mode(GetParam()));
  for (uint32_t round = 0; round < 6; ++round) die_and_return(pair, round * 10, 3);
  const auto sessions = pair.acceptor().sessions();
  EXPECT_LE(sessions.size(), 2U);
  uint64_t dropped = 0;
  for (NetdevSession* session : sessions) dropped += session->counters().get(C::kInboundLostAtReset);
  EXPECT_EQ(dropped, 15U) << "of the five rounds before the last";
  EXPECT_TRUE(pair.send(0, 100, 1000));
  pair.run(20);
  EXPECT_EQ(pair.unit().front_frame(), nullptr);
  for (NetdevSession* session : sessions) {
    if (session != &pair.unit()) {
      for (uint32_t i = 0; i < 3; ++i) session->release_frame();
    }
  }
  EXPECT_EQ(pair.receive(1), numbers(100, 1));
}

TEST(OrderBound, a_unit_with_no_session_to_spare_drops_the_held_frames) {
  SessionPairOptions options;
  options.unit.hosts_max = 1;
  SessionPair pair(options);
  Order::die_and_return(pair, 0, 5);
  EXPECT_EQ(pair.unit().counters().get(C::kInboundLostAtReset), 5U);
  EXPECT_EQ(pair.stream(0, 10, 20, 1000), numbers(10, 20));
}

INSTANTIATE_TEST_SUITE_P(modes, Order,
                         ::testing::Values(TransferMode::kRdma, TransferMode::kSendReceive,
                                           TransferMode::kSendDataOnly));

TEST(SessionGauges, say_what_is_true_after_a_loss) {
  const TempDir dir;
  const std::string path = dir.path() + "/stats";
  Result<StatsPage> page = StatsPage::create(path);
  ASSERT_TRUE(page.ok());
  SessionPair pair;
  pair.acceptor().publish(*page, "unit");
  const auto gauge = [&](std::string_view name) {
    auto entries = read_stats_page(path);
    for (const auto& [key, value] : *entries) {
      if (key == "unit.session.0.now." + std::string(name)) return value;
    }
    ADD_FAILURE() << name;
    return uint64_t{0};
  };
  for (uint32_t i = 0; i < 3; ++i) EXPECT_TRUE(pair.send(0, i, 1000));
  pair.run_by_deadlines(600ms);
  EXPECT_EQ(gauge("state"), static_cast<uint64_t>(SessionState::kOpen));
  EXPECT_EQ(gauge("own_indicated"), 3U);
  NetdevSession& unit = pair.unit();
  pair.kill(0);
  pair.run_by_deadlines(2s);
  EXPECT_EQ(gauge("state"), static_cast<uint64_t>(SessionState::kLost));
  EXPECT_EQ(gauge("own_indicated"), 3U);
  while (unit.front_frame() != nullptr) unit.release_frame();
  EXPECT_EQ(gauge("own_indicated"), 0U);
}

}  // namespace
}  // namespace weft::session
