// The life of a session over two adapters: opening, moving frames in each mode and encoding, back-pressure,
// losses.
#include "session/netdev_session.h"

#include <gtest/gtest.h>

#include <tuple>

#include "tests/support/session_pair.h"

namespace weft::session {
namespace {

using namespace std::chrono_literals;
using test::numbers;
using test::SessionPair;
using test::SessionPairOptions;
using C = SessionCounter;

class SessionModes : public testing::TestWithParam<std::tuple<TransferMode, MessageEncoding>> {
 protected:
  static SessionPairOptions options() {
    return SessionPairOptions().mode(std::get<0>(GetParam()), std::get<1>(GetParam()));
  }
};

TEST_P(SessionModes, frames_cross_both_ways_in_order) {
  SessionPair pair(options());
  EXPECT_EQ(pair.stream(0, 100, 400, 1514), numbers(100, 400));
  EXPECT_EQ(pair.stream(1, 900, 400, 64), numbers(900, 400));
  EXPECT_EQ(pair.stream(0, 5000, 60, 9018), numbers(5000, 60));
  EXPECT_EQ(pair.host().counters().get(C::kFramesOut), 460U);
  EXPECT_EQ(pair.unit().counters().get(C::kFramesIn), 460U);
}

TEST_P(SessionModes, a_slow_receiver_holds_the_sender_and_loses_nothing) {
  SessionPairOptions with = options().pools({{9600, 4}});
  with.unit.session.limits.pools_per_class = 1;
  SessionPair pair(with);
  uint32_t sent = 0;
  for (int i = 0; i < 200; ++i) {
    if (pair.send(0, sent, 1000)) ++sent;
    pair.turn();
  }
  EXPECT_EQ(sent, 4U) << "as many frames as the peer has elements";
  EXPECT_GT(pair.host().counters().get(C::kClaimNoElement), 0U);
  std::vector<uint32_t> got;
  for (int i = 0; i < 4000 && got.size() < 400; ++i) {
    if (sent < 400 && pair.send(0, sent, 1000)) ++sent;
    pair.turn();
    if (i % 3 == 0) {
      const auto some = pair.receive(1, 1);
      got.insert(got.end(), some.begin(), some.end());
    }
    pair.expect_conserved();
  }
  EXPECT_EQ(got, numbers(0, 400));
}

TEST_P(SessionModes, an_idle_session_stays_open) {
  SessionPair pair(options());
  pair.run_for(10s);
  EXPECT_EQ(pair.host().state(), SessionState::kOpen);
  EXPECT_EQ(pair.unit().state(), SessionState::kOpen);
  EXPECT_EQ(pair.host().incarnation(), 1U);
  EXPECT_GE(pair.unit().counters().get(C::kKeepalivesIn), 18U);
  EXPECT_LE(pair.unit().counters().get(C::kKeepalivesOut), 1U) << "who is asked need not ask";
  EXPECT_EQ(pair.stream(0, 1, 10, 500), numbers(1, 10));
}

TEST_P(SessionModes, close_flushes_and_both_sides_end) {
  SessionPair pair(options());
  EXPECT_EQ(pair.stream(0, 1, 50, 500), numbers(1, 50));
  NetdevSession& unit = pair.unit();
  pair.host().close();
  pair.run_for(100ms);
  EXPECT_EQ(pair.host().state(), SessionState::kIdle);
  EXPECT_EQ(unit.state(), SessionState::kLost);
  EXPECT_EQ(unit.counters().get(C::kLostPeerLeft), 1U);
  EXPECT_EQ(pair.host().counters().get(C::kFlushTimedOut), 0U);
  pair.expect_conserved();
}

/// What the driver frees while its pools are being flushed belongs to nobody any more.
TEST_P(SessionModes, a_pool_that_is_being_flushed_is_not_renewed) {
  SessionPair pair(options());
  for (uint32_t number = 0; number < 8; ++number) EXPECT_TRUE(pair.send(1, number, 500));
  pair.run(20);
  EXPECT_EQ(pair.receive(0, 1), numbers(0, 1));
  NetdevSession& unit = pair.unit();
  pair.host().close();
  pair.turn();
  pair.turn();
  EXPECT_EQ(pair.receive(0), numbers(1, 7));
  pair.run_by_deadlines(100ms);
  EXPECT_EQ(pair.host().state(), SessionState::kIdle);
  EXPECT_EQ(unit.counters().get(C::kPoolRefUnknown), 0U);
  EXPECT_EQ(pair.host().counters().get(C::kFlushTimedOut), 0U);
}

TEST_P(SessionModes, a_killed_host_comes_back) {
  SessionPair pair(options());
  EXPECT_EQ(pair.stream(0, 1, 50, 500), numbers(1, 50));
  pair.restart_host();
  pair.run_until_open();
  EXPECT_EQ(pair.stream(0, 100, 50, 500), numbers(100, 50));
  EXPECT_EQ(pair.stream(1, 200, 50, 500), numbers(200, 50));
  pair.expect_conserved();
}

/// Pools of both kinds: the whole direction is described by messages, and order holds across sizes.
TEST(SessionPools, a_pool_beyond_idata_keeps_the_order) {
  SessionPairOptions options;
  options.unit.session.pools = {{2048, 16}, {100000, 4}};
  SessionPair pair(options);
  std::vector<uint32_t> got;
  uint32_t sent = 0;
  for (int turn = 0; turn < 5000 && got.size() < 300; ++turn) {
    if (sent < 300 && pair.send(0, sent, sent % 3 == 0 ? 9000 : 800)) ++sent;
    pair.turn();
    const auto some = pair.receive(1);
    got.insert(got.end(), some.begin(), some.end());
  }
  EXPECT_EQ(got, numbers(0, 300));
  EXPECT_EQ(pair.host().counters().get(C::kWritesWithIdata), 0U);
}

/// A pool beyond idata that is learnt while frames with idata are under way.
TEST(SessionPools, the_change_to_messages_indicates_nothing_twice) {
  SessionPairOptions options;
  options.unit.session.pools = {{2048, 8}};
  options.unit.session.pool_reference_base = 254;  // the second pool, on demand, is 257
  SessionPair pair(options);
  std::vector<uint32_t> got;
  uint32_t sent = 0;
  for (int turn = 0; turn < 5000 && got.size() < 300; ++turn) {
    for (int burst = 0; burst < 4; ++burst) {
      if (sent < 300 && pair.send(0, sent, 800)) ++sent;
    }
    pair.turn();
    if (turn % 7 != 0) continue;
    const auto some = pair.receive(1);
    got.insert(got.end(), some.begin(), some.end());
  }
  EXPECT_EQ(got, numbers(0, 300));
  EXPECT_GT(pair.host().counters().get(C::kWritesWithIdata), 0U);
  EXPECT_GT(pair.host().counters().get(C::kIndicationsOut), 0U);
  EXPECT_EQ(pair.unit().counters().get(C::kLostViolation), 0U);
}

/// With the vnet header such a frame is a multiple of 64 bytes, as the slots are.
TEST_P(SessionModes, a_frame_may_fill_its_slot_to_the_last_byte) {
  constexpr uint32_t kFrameBytes = 24 * 64 - kVnetBytes;
  SessionPairOptions with = options().pools({{kVnetBytes + kFrameBytes, 8}});
  with.host.frame_bytes_max = with.unit.session.frame_bytes_max = kFrameBytes;
  SessionPair pair(with);
  EXPECT_EQ(pair.stream(0, 1, 20, kFrameBytes), numbers(1, 20));
  EXPECT_EQ(pair.stream(1, 1, 20, kFrameBytes), numbers(1, 20));
}

INSTANTIATE_TEST_SUITE_P(all, SessionModes,
                         testing::Combine(testing::Values(TransferMode::kRdma, TransferMode::kSendReceive,
                                                          TransferMode::kSendDataOnly),
                                          testing::Values(MessageEncoding::kCapnp, MessageEncoding::kBytes)),
                         [](const auto& test) {
                           return std::string(to_string(std::get<0>(test.param))) + "_" +
                                  std::string(to_string(std::get<1>(test.param)));
                         });

}  // namespace
}  // namespace weft::session
