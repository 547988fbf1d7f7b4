// One side of a session dies at any moment of its life, and perhaps comes back: the other notices within 2 s
// (decisions 2.13).
#include <gtest/gtest.h>

#include <algorithm>

#include "session/session_port.h"
#include "tests/support/session_pair.h"
#include "tests/support/session_speaker.h"

namespace weft::session {
namespace {

using namespace std::chrono_literals;
using namespace test;  // NOLINT(google-build-using-namespace): the test's own words
using C = SessionCounter;

bool holds_session(SessionPair& pair, int side) {
  if (side == 1) return !pair.acceptor().all_idle();
  const SessionState state = pair.host().state();
  return state == SessionState::kOpening || state == SessionState::kOpen || state == SessionState::kClosing;
}

/// How long the survivor still believes in the session, in jumps from deadline to deadline.
Duration notice(SessionPair& pair, int survivor) {
  const Instant killed = pair.clock.now();
  while (holds_session(pair, survivor) && pair.clock.now() - killed < 5s) pair.run_by_deadlines(1ms);
  return pair.clock.now() - killed;
}

struct Death {
  TransferMode mode = TransferMode::kRdma;
  int victim = 0;
};

class SessionDeath : public ::testing::TestWithParam<Death> {
 protected:
  [[nodiscard]] static SessionPairOptions options(bool open) {
    SessionPairOptions out;
    out.mode(GetParam().mode);
    out.open = open;
    return out;
  }
  [[nodiscard]] static int victim() { return GetParam().victim; }
  [[nodiscard]] static int survivor() { return 1 - GetParam().victim; }
};

TEST_P(SessionDeath, after_each_turn_of_the_opening) {
  for (int turns = 0; turns < 40; ++turns) {
    SessionPair pair(options(false));
    pair.host().open();
    pair.run(turns);
    pair.kill(victim());
    EXPECT_LE(notice(pair, survivor()), 2s) << turns;
  }
}

TEST_P(SessionDeath, before_and_after_each_keepalive) {
  for (Duration age = 0ms; age < 1300ms; age += 30ms) {
    SessionPair pair(options(true));
    pair.run_by_deadlines(age);
    pair.kill(victim());
    EXPECT_LE(notice(pair, survivor()), 2s) << age.count();
  }
}

TEST_P(SessionDeath, with_frames_requests_and_flushes_under_way) {
  for (int turns = 0; turns < 12; ++turns) {
    for (const bool closing : {false, true}) {
      SessionPair pair(options(true));
      for (int side : {0, 1}) {
        for (uint32_t i = 0; i < 8; ++i) EXPECT_TRUE(pair.send(side, i, 1000));
        EXPECT_NE(pair.side(side).request_config({.request_class = CfgClass::kMacConfig, .code = 1}), 0U);
      }
      if (closing) pair.host().close();
      pair.run(turns);
      pair.kill(victim());
      EXPECT_LE(notice(pair, survivor()), 2s) << turns << closing;
    }
  }
}

/// The death of the switch is forgiven, but not for longer than it takes to notice.
TEST_P(SessionDeath, after_the_port_came_back) {
  for (Duration later = 0ms; later < 3s; later += 50ms) {
    SessionPair pair(options(true));
    pair.pipe.set_up(false);
    pair.run_by_deadlines(2500ms);
    pair.pipe.set_up(true);
    pair.run_by_deadlines(later);
    ASSERT_TRUE(holds_session(pair, survivor()));
    pair.kill(victim());
    EXPECT_LE(notice(pair, survivor()), 2s) << later.count();
  }
}

INSTANTIATE_TEST_SUITE_P(all, SessionDeath,
                         ::testing::Values(Death{TransferMode::kRdma, 0}, Death{TransferMode::kRdma, 1},
                                           Death{TransferMode::kSendReceive, 0},
                                           Death{TransferMode::kSendReceive, 1},
                                           Death{TransferMode::kSendDataOnly, 0},
                                           Death{TransferMode::kSendDataOnly, 1}));

/// Our port is back long before the peer's: its silence is forgiven until it had time.
TEST(SessionReturn, a_port_that_is_later_than_ours_costs_nothing) {
  SessionPair pair;
  pair.pipe.set_up(false);
  pair.run_by_deadlines(4s);
  pair.pipe.set_up(true);
  pair.pipe.set_filter([](int, std::vector<std::byte>&) { return Verdict::kDrop; });
  pair.run_by_deadlines(1500ms);
  pair.pipe.set_filter(nullptr);
  pair.run_by_deadlines(3s);
  EXPECT_EQ(pair.host().incarnation(), 1U);
  EXPECT_EQ(pair.stream(0, 0, 20, 1000), numbers(0, 20));
}

/// A unit back within the silence that is allowed says itself that it knows nothing of the session.
TEST(SessionReturn, a_unit_that_is_soon_back_is_noticed_at_once) {
  for (const Duration away : {1ms, 50ms, 400ms, 1000ms}) {
    for (const bool load : {false, true}) {
      SessionPair pair;
      pair.run_by_deadlines(700ms);
      pair.kill(1);
      EXPECT_EQ(load && pair.send(0, 1, 1000), load);
      pair.run_by_deadlines(away);
      pair.revive(1);
      const Instant back = pair.clock.now();
      pair.run_until_open();
      EXPECT_LT(pair.clock.now() - back, 900ms) << away.count();
      EXPECT_EQ(pair.host().counters().get(C::kLostForgotten), 1U) << away.count();
      EXPECT_EQ(pair.host().counters().get(C::kFramesLostAtReset), load ? 1U : 0U);
      EXPECT_EQ(pair.stream(0, 100, 20, 1000), numbers(100, 20));
    }
  }
}

/// An idle session is not asked about: keepalives are sign of life enough.
TEST(SessionReturn, a_healthy_session_is_not_probed) {
  SessionPair pair;
  pair.run_by_deadlines(20s);
  EXPECT_EQ(pair.host().counters().get(C::kProbesOut), 0U);
}

/// Whose answer it is counts: another nonce, or another reason, ends nothing.
TEST(SessionReturn, a_forged_answer_ends_nothing) {
  SessionPair pair;
  SessionSpeaker forger(pair.adapter(1));
  ASSERT_TRUE(forger.open(adapter::kQpnAny).ok());
  SessionMad rej{.kind = CmAttribute::kRej, .nonce = pair.unit().peer().nonce + 1};
  rej.reason = static_cast<uint16_t>(SessionRefusal::kUnknownSession);
  EXPECT_TRUE(forger.say(rej, Lid(1)));
  rej.nonce = pair.unit().peer().nonce;
  rej.reason = static_cast<uint16_t>(SessionRefusal::kPolicy);
  EXPECT_TRUE(forger.say(rej, Lid(1)));
  pair.run(50);
  EXPECT_EQ(pair.host().state(), SessionState::kOpen);
  rej.reason = static_cast<uint16_t>(SessionRefusal::kUnknownSession);
  EXPECT_TRUE(forger.say(rej, Lid(1)));
  pair.run(50);
  EXPECT_EQ(pair.host().counters().get(C::kLostForgotten), 1U) << "the same datagram with all of it right";
}

}  // namespace
}  // namespace weft::session
