// An incarnation leaves nothing behind for the next one: what it had to say is never said, what it had
// received is counted and gone.
#include <gtest/gtest.h>

#include "tests/support/scripted_host.h"
#include "tests/support/session_pair.h"

namespace weft::session {
namespace {

using namespace std::chrono_literals;
using namespace test;  // NOLINT(google-build-using-namespace): the test's own words
using C = SessionCounter;

bool said(const ScriptedHost& host, NetdevFunction function) {
  return std::any_of(host.heard.begin(), host.heard.end(),
                     [&](const auto& message) { return message.first == function; });
}

/// Writes that have completed and whose BufferRDMAIndicate has not left when the session ends: the elements
/// they name belong to pools that the next incarnation never had.
TEST(SessionIncarnation, indications_of_the_old_one_are_never_sent) {
  SessionPairOptions options;
  options.unit.session.pools = {{2048, 8}};
  options.unit.session.force_indicate = true;
  ScriptedHost host(options.unit);
  ASSERT_TRUE(host.connect());
  host.advertise();
  NetdevSession& unit = host.unit();
  ASSERT_EQ(unit.state(), SessionState::kOpen);
  for (int i = 0; i < 3; ++i) {
    ASSERT_FALSE(unit.claim_frame(kVnetBytes + 100).empty());
    unit.submit_frame(kVnetBytes + 100);
  }
  unit.flush();
  host.adapters[1]->poll(host.clock.now());
  // Completions of the three writes and a violation reach the unit in one turn, the completions first.
  host.write(host.element(0), 1, 100, encode_idata({99, 0, 2048}));
  ASSERT_EQ(unit.state(), SessionState::kLost);
  ASSERT_EQ(unit.counters().get(C::kIndicationsOut), 0U) << "still waiting when the session ended";
  EXPECT_EQ(unit.counters().get(C::kFramesLostAtReset), 3U);
  host.run(200, 1ms);
  host.heard.clear();
  host.nonce = 77;
  host.reopen();
  ASSERT_TRUE(host.connect());
  host.advertise();
  ASSERT_EQ(&host.unit(), &unit) << "the same object";
  ASSERT_EQ(unit.state(), SessionState::kOpen);
  host.run(200, 100us);
  EXPECT_FALSE(said(host, NetdevFunction::kBufferRdmaIndicate));
  EXPECT_EQ(unit.counters().get(C::kIndicationsOut), 0U);
  EXPECT_EQ(unit.counters().get(C::kFramesLostAtReset), 3U);
  EXPECT_TRUE(unit.conservation().holds());
}

class Leftovers : public testing::TestWithParam<TransferMode> {
 protected:
  /// Three frames of the unit lie at the host, which has not looked at them.
  void SetUp() override {
    for (uint32_t i = 0; i < 3; ++i) EXPECT_TRUE(pair.send(1, i, 500));
    pair.run(20);
    EXPECT_NE(pair.host().front_frame(), nullptr);
  }
  void expect_only_new_frames() {
    EXPECT_EQ(pair.host().counters().get(C::kInboundLostAtReset), 3U);
    EXPECT_EQ(pair.host().front_frame(), nullptr);
    EXPECT_EQ(pair.stream(1, 100, 40, 500), numbers(100, 40));
    EXPECT_EQ(pair.stream(0, 200, 40, 500), numbers(200, 40));
    EXPECT_EQ(pair.host().incarnation(), 2U);
  }
  SessionPair pair{SessionPairOptions().mode(GetParam())};
};

TEST_P(Leftovers, of_a_session_that_was_closed_end_when_it_is_opened_again) {
  pair.host().close();
  pair.run_by_deadlines(1s);
  ASSERT_EQ(pair.host().state(), SessionState::kIdle);
  ASSERT_NE(pair.host().front_frame(), nullptr) << "readable until then";
  pair.run_until_open();
  expect_only_new_frames();
}

TEST_P(Leftovers, of_a_session_that_was_lost_end_one_interval_after_the_first_attempt) {
  pair.kill(1);
  while (pair.host().state() == SessionState::kOpen) pair.run_by_deadlines(10ms);
  pair.revive(1);
  EXPECT_NE(pair.host().front_frame(), nullptr) << "readable across the loss";
  pair.run_until_open();
  expect_only_new_frames();
}

INSTANTIATE_TEST_SUITE_P(modes, Leftovers,
                         testing::Values(TransferMode::kRdma, TransferMode::kSendReceive,
                                         TransferMode::kSendDataOnly));

}  // namespace
}  // namespace weft::session
