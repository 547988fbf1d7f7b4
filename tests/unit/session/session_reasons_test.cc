// What holds a session back, keeps it from opening or makes it drop an answer: each under its own name.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/crc32c.h"
#include "session/session_port.h"
#include "tests/support/scripted_host.h"

namespace weft::session {
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

TEST(SessionReasons, a_refused_host_asks_ever_more_rarely_until_it_was_healthy) {
  SessionPair pair(closed());
  pair.unit_events.admit_answer = SessionRefusal::kPolicy;
  pair.host().open();
  pair.run_for(10s);
  EXPECT_EQ(count(pair, C::kConnectRefused), 12U) << "after 0, 0.2, 0.6, 1.4 s and then each second";
  pair.unit_events.admit_answer = SessionRefusal::kNone;
  pair.run_until_open();
  pair.run_for(11s);
  pair.kill(1);
  pair.revive(1);
  while (pair.host().state() == SessionState::kOpen) pair.turn(1ms);
  const Instant lost = pair.clock.now();
  pair.run_until_open();
  EXPECT_LT(pair.clock.now() - lost, 2 * SessionLimits{}.connect_interval);
}

/// The interval of a configuration may be longer than the longest delay between refusals.
TEST(SessionReasons, a_refused_host_waits_at_least_its_interval) {
  SessionPairOptions options = closed();
  options.host.limits.connect_interval = 3s;
  SessionPair pair(options);
  pair.unit_events.admit_answer = SessionRefusal::kPolicy;
  pair.host().open();
  pair.run_for(10s);
  EXPECT_EQ(count(pair, C::kConnectRefused), 4U) << "after 0, 3, 6 and 9 s";
}

/// The unit names pools that do not exist; the host does not wear itself out on it.
TEST(SessionReasons, a_host_whose_unit_breaks_the_rules_waits_longer_each_time) {
  SessionPair pair;
  pair.pipe.set_filter([](int from, std::vector<std::byte>& cell) {
    const auto flags = static_cast<uint8_t>(cell[14]);
    if (from != 1 || (flags & kCellIdata) == 0) return Verdict::kPass;
    cell[kCellHeaderBytes + ((flags & kCellVa) != 0 ? kVaBytes : 0)] ^= std::byte{0x7F};
    const size_t covered = cell.size() - kCrcBytes;
    store_be(cell.data() + covered, crc32c({cell.data(), covered}));
    return Verdict::kPass;
  });
  Duration least = SessionLimits{}.connect_interval;
  for (uint64_t offence = 1; offence <= 3; ++offence, least *= 2) {
    ASSERT_TRUE(pair.send(1, 1, 500));
    while (pair.host().state() == SessionState::kOpen) pair.turn(1ms);
    EXPECT_EQ(count(pair, C::kLostViolation), offence);
    const Instant lost = pair.clock.now();
    pair.run_until_open();
    EXPECT_GE(pair.clock.now() - lost, least - 1ms);
    EXPECT_LT(pair.clock.now() - lost, 2 * least);
  }
}

bool is_reply(int from, const std::vector<std::byte>& cell) {
  constexpr size_t kKind = kCellHeaderBytes + kDatagramHeaderBytes + 16;
  return from == 1 && cell.size() > kKind + 2 &&
         load_be<uint16_t>(cell.data() + kKind) == static_cast<uint16_t>(CmAttribute::kRep);
}

/// What a unit may not make of a host's offer: 40 bytes of which these are changed.
struct Spoilt {
  const char* what;
  size_t offset;
  uint32_t value;  // four bytes
};
constexpr std::array kSpoilt{Spoilt{"version", 0, 0x0001'0002},
                             Spoilt{"encoding", 4, 0x0201'0102},
                             Spoilt{"mode", 4, 0x0102'0102},
                             Spoilt{"idata format", 4, 0x0101'0202},
                             Spoilt{"longer frames than asked for", 16, kPoolElementBytesMax},
                             Spoilt{"frames too short for anybody", 16, 20},
                             Spoilt{"a feature nobody asked for", 20, 1},
                             Spoilt{"messages too short for anybody", 36, 100}};

TEST(SessionReasons, a_unit_may_only_take_away_from_what_was_asked) {
  for (const Spoilt& one : kSpoilt) {
    SessionPair pair(closed());
    pair.pipe.set_filter([&](int from, std::vector<std::byte>& cell) {
      constexpr size_t kOffer =
          kCellHeaderBytes + kDatagramHeaderBytes + kMadBytes - sizeof(CmRep::private_data);
      if (!is_reply(from, cell)) return Verdict::kPass;
      store_be(cell.data() + kOffer + one.offset, one.value);
      const size_t covered = cell.size() - kCrcBytes;
      store_be(cell.data() + covered, crc32c({cell.data(), covered}));
      return Verdict::kPass;
    });
    pair.host().open();
    pair.run(50);
    EXPECT_EQ(count(pair, C::kConnectMalformed), 1U) << one.what;
    EXPECT_EQ(pair.host().state(), SessionState::kConnecting) << one.what;
    pair.pipe.set_filter(nullptr);
    pair.run_until_open();
  }
}

TEST(SessionReasons, an_answer_of_another_node_is_none) {
  SessionPair pair(closed());
  std::vector<std::byte> reply;
  pair.pipe.set_filter([&](int from, std::vector<std::byte>& cell) {
    if (is_reply(from, cell)) reply = cell;
    return from == 1 ? Verdict::kHold : Verdict::kPass;
  });
  pair.host().open();
  pair.run(50);
  ASSERT_FALSE(reply.empty());
  store_be(reply.data() + 10, uint16_t{9});  // its SLID
  pair.pipe.inject(0, reply);
  pair.run(50);
  EXPECT_EQ(pair.host().state(), SessionState::kConnecting);
  EXPECT_EQ(count(pair, C::kConnectMalformed), 0U);
  pair.pipe.set_filter(nullptr);
  pair.pipe.release_held();
  pair.run_until_open();
}

TEST(SessionReasons, an_answer_to_another_question_opens_nothing) {
  SessionPair pair(closed());
  pair.pipe.set_filter([&](int from, std::vector<std::byte>& bytes) {  // the unit must not answer itself
    CellView view;
    if (from != 0 || decode_cell(bytes, CrcCheck::kAlreadyVerified, view) != CellError::kNone)
      return Verdict::kPass;
    return Verdict::kDrop;
  });
  pair.host().open();
  pair.run(10);
  SessionSpeaker forger(pair.adapter(1));
  ASSERT_TRUE(forger.open(adapter::kQpnAny).ok());
  const SessionMad reply{.kind = CmAttribute::kRep, .nonce = pair.host().peer().nonce};
  EXPECT_TRUE(forger.say(reply, Lid(1)));
  pair.run(50);
  EXPECT_EQ(count(pair, C::kConnectMalformed), 1U);
  EXPECT_EQ(count(pair, C::kConnectRefused), 0U);
  EXPECT_EQ(pair.host().state(), SessionState::kConnecting);
}

TEST(SessionReasons, a_host_without_queue_pairs_left_says_so) {
  SessionPair pair(closed());
  std::vector<std::unique_ptr<SessionSpeaker>> all;
  do {
    all.push_back(std::make_unique<SessionSpeaker>(pair.adapter(0)));
  } while (all.back()->open(adapter::kQpnAny).ok());
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
  EXPECT_EQ(sent, options.host.limits.send_slots) << "the last slot is used, and no more";
  EXPECT_EQ(count(pair, C::kClaimNoMemory), 1U);
  EXPECT_EQ(count(pair, C::kClaimNoElement), 0U);
}

/// A frame that is described by a message keeps its send slot until that message has been sent.
TEST(SessionReasons, frames_that_wait_for_their_message_hold_the_driver_like_those_on_their_way) {
  SessionPairOptions options;
  options.host.force_indicate = true;
  options.host.limits.send_slots = 4;
  options.pools({{2048, 1024}});
  SessionPair pair(options);
  pair.pipe.set_filter([](int from, std::vector<std::byte>& bytes) {  // writes pass, messages do not
    CellView view;
    EXPECT_EQ(decode_cell(bytes, CrcCheck::kVerify, view), CellError::kNone);
    return from == 0 && view.opcode == Opcode::kSend ? Verdict::kHold : Verdict::kPass;
  });
  uint32_t sent = 0;
  while (sent < 1000 && pair.send(0, sent, 1000)) {
    ++sent;
    pair.run(10);
  }
  EXPECT_LT(sent, 1000U);
  EXPECT_EQ(count(pair, C::kClaimNoMemory), 1U);
  EXPECT_EQ(count(pair, C::kClaimNoElement), 0U);
  pair.pipe.set_filter(nullptr);
  pair.pipe.release_held();
  pair.run(500);
  EXPECT_EQ(pair.receive(1), numbers(0, sent));
  EXPECT_TRUE(pair.send(0, sent, 1000));
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

/// A unit whose host gives it no more memory asks ever more rarely, and at the first rate again once it got
/// some.
TEST(SessionReasons, silence_to_a_get_makes_the_next_one_later) {
  ScriptedHost host(SessionPairOptions().unit);
  ASSERT_TRUE(host.connect());
  host.advertise();
  const auto gets = [&] {
    return std::count_if(host.heard.begin(), host.heard.end(), [](const auto& message) {
      return message.first == NetdevFunction::kBufferRecvPoolGet;
    });
  };
  const auto press = [&](Duration time) {  // a frame whenever the unit takes one
    for (const Instant end = host.clock.now() + time; host.clock.now() < end; host.run(1, 1ms)) {
      if (!host.unit().claim_frame(200).empty()) host.unit().submit_frame(200);
      if (host.clock.now().time_since_epoch() % 200ms < 1ms)
        host.say({.context = 1, .body = CfgUtilRequest{.request_class = 2, .code = 9, .data = {}}});
    }
  };
  press(3s);
  EXPECT_EQ(gets(), 5) << "after 0, 0.1, 0.3, 0.7 and 1.5 s";
  host.advertise(2);
  press(1s);
  EXPECT_EQ(gets(), 5 + 4) << "after 3.1, 3.2, 3.4 and 3.8 s";
  press(34s);
  EXPECT_EQ(gets(), 5 + 10) << "and 10 s after the last one at the latest";
}

TEST(SessionReasons, a_close_that_nobody_answers_ends_in_a_disconnect) {
  ScriptedHost host(SessionPairOptions().unit);
  ASSERT_TRUE(host.connect());
  host.advertise();
  NetdevSession& unit = host.unit();
  host.acceptor->close();
  host.run(400, 1ms);
  EXPECT_EQ(unit.state(), SessionState::kClosing);
  host.datagrams.clear();
  host.run(200, 1ms);
  EXPECT_EQ(unit.state(), SessionState::kIdle);
  EXPECT_EQ(unit.counters().get(C::kFlushTimedOut), 1U);
  ASSERT_EQ(host.datagrams.size(), 1U);
  EXPECT_EQ(host.datagrams[0].kind, CmAttribute::kDreq);
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

TEST_F(Flood, renewals_leave_send_slots_for_answers) {
  host.pipe.set_filter([](int from, std::vector<std::byte>& bytes) {  // acknowledgements still come
    CellView view;
    EXPECT_EQ(decode_cell(bytes, CrcCheck::kVerify, view), CellError::kNone);
    return from == 1 && view.opcode == Opcode::kSend ? Verdict::kHold : Verdict::kPass;
  });
  const RemoteElement first = host.element(0);
  for (uint32_t i = 0; i < 60; ++i) {
    if (host.unit().conservation().own_freed != 0) break;
    const RemoteElement element = host.element(0);
    host.write(element, i, 100, encode_idata({first.pool, 0, first.element_bytes}));
    host.unit().release_frame();
    host.run(30);
  }
  EXPECT_EQ(host.count(C::kUpdatesOut), 48U) << "of 64 slots";
  host.say({.context = 1, .body = CfgUtilRequest{.request_class = 9, .code = 9, .data = {}}});
  EXPECT_EQ(host.count(C::kConfigRepliesDropped), 0U);
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
}  // namespace weft::session
