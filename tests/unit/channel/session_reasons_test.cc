// What holds a session back, keeps it from opening or makes it drop an answer: each under its own name.
#include <gtest/gtest.h>

#include "channel/cm_endpoint.h"
#include "tests/support/scripted_host.h"

namespace weft {
namespace {

using namespace std::chrono_literals;
using namespace test;  // NOLINT(google-build-using-namespace): the test's own words
using C = SessionCounter;

Verdict hold_host(int from, std::vector<std::byte>& /*bytes*/) {
  return from == 0 ? Verdict::kHold : Verdict::kPass;
}

uint64_t count(SessionPair& pair, C counter) {
  return pair.host().counters().get(counter);
}

SessionPairOptions closed() {
  SessionPairOptions options;
  options.open = false;
  return options;
}

TEST(SessionReasons, a_refusal_of_the_unit_is_counted_and_asked_about_again) {
  SessionPair pair(closed());
  pair.unit_events.admit_answer = SessionRefusal::kPolicy;
  pair.host().open();
  pair.run(100);
  EXPECT_EQ(count(pair, C::kConnectRefused), 1U);
  EXPECT_EQ(count(pair, C::kConnectMalformed), 0U);
  EXPECT_EQ(pair.host().state(), SessionState::kConnecting);
  EXPECT_EQ(pair.host().refusal(), SessionRefusal::kPolicy);
  pair.unit_events.admit_answer = SessionRefusal::kNone;
  pair.run_until_open();
  EXPECT_EQ(pair.host().refusal(), SessionRefusal::kNone);
}

TEST(SessionReasons, an_answer_to_another_question_opens_nothing) {
  SessionPair pair(closed());
  Qpn asker;
  pair.pipe.set_filter([&](int from, std::vector<std::byte>& bytes) {  // the unit must not answer itself
    CellView view;
    if (from != 0 || decode_cell(bytes, CrcCheck::kAlreadyVerified, view) != CellError::kNone)
      return Verdict::kPass;
    asker = view.src_qpn;
    return Verdict::kDrop;
  });
  pair.host().open();
  pair.run(10);
  CmEndpoint forger(pair.adapter(1));
  ASSERT_TRUE(forger.open(Qpn(), 1).ok());
  const CmMessage reply{.kind = CmKind::kRep, .nonce = pair.host().peer().nonce, .offer = {}};
  EXPECT_TRUE(forger.send(reply, Lid(1), asker, ServiceLevel()));
  pair.run(50);
  EXPECT_EQ(count(pair, C::kConnectMalformed), 1U);
  EXPECT_EQ(count(pair, C::kConnectRefused), 0U);
  EXPECT_EQ(pair.host().state(), SessionState::kConnecting);
}

TEST(SessionReasons, a_host_without_queue_pairs_left_says_so) {
  SessionPair pair(closed());
  std::vector<std::unique_ptr<CmEndpoint>> all;
  do {
    all.push_back(std::make_unique<CmEndpoint>(pair.adapter(0)));
  } while (all.back()->open(Qpn(), 1).ok());
  pair.host().open();
  pair.run(10);
  EXPECT_EQ(count(pair, C::kLostNoMemory), 1U);
  EXPECT_EQ(count(pair, C::kConnectRequests), 0U);
  EXPECT_EQ(pair.host().refusal(), SessionRefusal::kNoMemory);
  all.clear();
  pair.run_until_open();
}

TEST(SessionReasons, a_port_that_stays_away_ends_the_session) {
  SessionPair pair;
  pair.pipe.set_up(false);
  pair.run_for(SessionLimits{}.port_down_max + 100ms);
  EXPECT_EQ(count(pair, C::kLostPortDown), 1U);
  EXPECT_EQ(count(pair, C::kLostQpError) + count(pair, C::kLostSilence), 0U);
  EXPECT_EQ(pair.unit().counters().get(C::kLostPortDown), 1U);
}

TEST(SessionReasons, the_driver_is_held_for_want_of_send_slots_not_of_elements) {
  SessionPairOptions options;
  options.host.limits.send_slots = 4;
  SessionPair pair(options);
  pair.pipe.set_filter(hold_host);
  uint32_t sent = 0;
  while (sent < 100 && pair.send(0, sent, 1000)) ++sent;
  EXPECT_LT(sent, 100U);
  EXPECT_EQ(count(pair, C::kClaimNoMemory), 1U);
  EXPECT_EQ(count(pair, C::kClaimNoElement), 0U);
}

TEST(SessionReasons, a_frame_waits_for_a_larger_element_and_nothing_overtakes_it) {
  SessionPairOptions options;
  options.unit.session.pools = {{2048, 16}, {16384, 1}};
  options.unit.session.limits.pools_per_class = 1;
  SessionPair pair(options);
  EXPECT_TRUE(pair.send(0, 1, 9000));
  EXPECT_TRUE(pair.send(0, 2, 9000));
  EXPECT_FALSE(pair.send(0, 3, 100));
  EXPECT_EQ(count(pair, C::kFrameWaited), 1U);
  pair.run(50);
  EXPECT_EQ(pair.receive(1), numbers(1, 1));
  pair.run(100);
  EXPECT_EQ(pair.receive(1), numbers(2, 1));
}

/// A host that asks and takes no answer.
class Flood : public testing::Test {
 protected:
  Flood() : host(SessionPairOptions().unit) {
    EXPECT_TRUE(host.connect());
    host.advertise();
    EXPECT_EQ(host.unit().state(), SessionState::kOpen);
    host.pipe.set_filter(
        [](int from, std::vector<std::byte>&) { return from == 1 ? Verdict::kHold : Verdict::kPass; });
  }
  ScriptedHost host;
};

TEST_F(Flood, requests_whose_answers_find_no_room_are_counted) {
  const CfgUtilRequest unknown{.request_class = 9, .code = 9, .data = {}};
  for (uint64_t i = 0; i < 70; ++i) host.say({.context = i, .body = unknown});
  EXPECT_GT(host.count(C::kConfigRepliesDropped), 0U);
  EXPECT_EQ(host.count(C::kFlushRepliesDropped), 0U);
  EXPECT_EQ(host.unit().state(), SessionState::kOpen);
}

TEST_F(Flood, flushes_that_wait_for_a_write_are_remembered_up_to_a_bound) {
  const std::vector<std::byte> frame = make_frame(1, 100);
  const std::span<std::byte> into = host.unit().claim_frame(2000);
  ASSERT_GE(into.size(), frame.size());
  std::copy(frame.begin(), frame.end(), into.begin());
  host.unit().submit_frame(static_cast<uint32_t>(frame.size()));
  BufferPoolFlushRequest flush;
  flush.pools.push_back(77);
  for (uint64_t i = 0; i < 20; ++i) host.say({.context = i, .body = flush});
  EXPECT_EQ(host.count(C::kFlushRequestsIn), 20U);
  EXPECT_EQ(host.count(C::kFlushRepliesDropped), 4U);
  EXPECT_EQ(host.count(C::kConfigRepliesDropped), 0U);
  EXPECT_EQ(host.unit().state(), SessionState::kOpen);
}

}  // namespace
}  // namespace weft
