// A unit's acceptor under pressure: every refusal has its reason, and what one host can occupy or cost is
// limited
// (decisions 2.22, section 4).
#include <gtest/gtest.h>

#include <span>
#include <vector>

#include "base/crc32c.h"
#include "base/endian.h"
#include "tests/support/reason_table.h"
#include "tests/support/requirement.h"
#include "tests/support/scripted_host.h"

namespace weft::session {
namespace {

using namespace std::chrono_literals;
using namespace test;  // NOLINT(google-build-using-namespace): the test's own words
using C = SessionCounter;

struct Refused {
  SessionRefusal reason;
  AcceptorCounter counter;
  void (*provoke)(AcceptorConfig&);
  void (*spoil)(ScriptedHost&);
};
void nothing(AcceptorConfig&) {}
void honest(ScriptedHost&) {}

constexpr std::array kRefused{
    Refused{SessionRefusal::kVersion, AcceptorCounter::kRefusedVersion, nothing,
            [](ScriptedHost& host) { host.offer.version_min = host.offer.version_max = 2; }},
    Refused{SessionRefusal::kEncoding, AcceptorCounter::kRefusedEncoding, nothing,
            [](ScriptedHost& host) { host.offer.encoding = 3; }},
    Refused{SessionRefusal::kMode, AcceptorCounter::kRefusedMode, nothing,
            [](ScriptedHost& host) { host.offer.mode = 9; }},
    Refused{SessionRefusal::kMode, AcceptorCounter::kRefusedMode,
            [](AcceptorConfig& config) { config.allow_rdma = false; }, honest},
    Refused{SessionRefusal::kIdataFormat, AcceptorCounter::kRefusedIdataFormat, nothing,
            [](ScriptedHost& host) { host.offer.idata_format = 0; }},
    Refused{SessionRefusal::kFrameBytes, AcceptorCounter::kRefusedFrameBytes, nothing,
            [](ScriptedHost& host) { host.offer.frame_bytes_max = 20; }},
    Refused{SessionRefusal::kFrameBytes, AcceptorCounter::kRefusedFrameBytes, nothing,
            [](ScriptedHost& host) { host.offer.message_bytes = 100; }},
    Refused{SessionRefusal::kMacTaken, AcceptorCounter::kRefusedMacTaken, nothing,
            [](ScriptedHost& host) { host.events.admit_answer = SessionRefusal::kMacTaken; }},
    Refused{SessionRefusal::kSessionsFull, AcceptorCounter::kRefusedFull,
            [](AcceptorConfig& config) { config.hosts_max = 0; }, honest},
    Refused{SessionRefusal::kNoMemory, AcceptorCounter::kRefusedMemory,
            [](AcceptorConfig& config) {
              config.session.pools = {{64, 65536}, {2048, 32}};
            },
            honest},
    Refused{SessionRefusal::kMalformed, AcceptorCounter::kMalformed, nothing,
            [](ScriptedHost& host) {  // RDMA mode needs two
              host.offer.channels = 1;
              host.offer.data = {};
            }},
    Refused{SessionRefusal::kMalformed, AcceptorCounter::kMalformed, nothing,
            [](ScriptedHost& host) { host.offer.acks = 2; }},
    Refused{SessionRefusal::kMalformed, AcceptorCounter::kMalformed, nothing,
            [](ScriptedHost& host) {  // channels without acknowledgements
              host.offer.mode = static_cast<uint8_t>(TransferMode::kSendReceive);
              host.offer.acks = static_cast<uint8_t>(AckPolicy::kStrict);
            }},
    Refused{SessionRefusal::kPolicy, AcceptorCounter::kRefusedPolicy, nothing,
            [](ScriptedHost& host) { host.events.admit_answer = SessionRefusal::kPolicy; }},
    Refused{SessionRefusal::kPolicy, AcceptorCounter::kRefusedPolicy, nothing,
            [](ScriptedHost& host) { host.acceptor->close(); }},
    Refused{SessionRefusal::kUnknownSession, AcceptorCounter::kUnknownSession, nothing,
            [](ScriptedHost& host) { host.events.admit_answer = SessionRefusal::kUnknownSession; }},
    Refused{SessionRefusal::kLidFull, AcceptorCounter::kRefusedLidFull,
            [](AcceptorConfig& config) { config.sessions_per_lid = 0; }, honest},
};
static_assert(names_every_reason(kRefused, SessionRefusal::kVersion, SessionRefusal::kCount));

TEST(Acceptor, every_refusal_has_its_name) {
  for (const Refused& one : kRefused) {
    AcceptorConfig config = unit_config();
    one.provoke(config);
    ScriptedHost host(config);
    one.spoil(host);
    EXPECT_FALSE(host.connect());
    EXPECT_EQ(to_string(host.refusal), to_string(one.reason));
    expect_only(host.acceptor->counters(), one.counter, AcceptorCounter::kRepeated, AcceptorCounter::kCount);
    EXPECT_EQ(host.acceptor->counters().get(AcceptorCounter::kRequests), 1U);
  }
}

TEST(Acceptor, the_driver_may_say_no) {
  ScriptedHost host(unit_config());
  host.events.admit_answer = SessionRefusal::kPolicy;
  EXPECT_FALSE(host.connect());
  EXPECT_EQ(host.refusal, SessionRefusal::kPolicy);
  EXPECT_EQ(host.acceptor->counters().get(AcceptorCounter::kRefusedPolicy), 1U);
  ASSERT_EQ(host.events.admitted.size(), 1U);
  EXPECT_EQ(host.events.admitted[0].mac, (MacAddress{2, 0, 0, 0, 0, 7}));
}

TEST(Acceptor, a_repeated_request_gets_the_same_answer_and_no_second_session) {
  ScriptedHost host(unit_config());
  ASSERT_TRUE(host.connect());
  const SessionOffer first = host.answer;
  host.datagrams.clear();
  host.knock(CmAttribute::kReq, host.nonce);
  ASSERT_EQ(host.datagrams.size(), 1U);
  EXPECT_EQ(host.datagrams[0].offer, first);
  EXPECT_EQ(host.acceptor->sessions().size(), 1U);
  EXPECT_EQ(host.acceptor->counters().get(AcceptorCounter::kRepeated), 1U);
}

TEST(Acceptor, frames_may_be_as_long_as_the_largest_element) {
  for (const uint32_t more : {0U, 1U}) {
    ScriptedHost host(unit_config());
    host.offer.frame_bytes_max = kPoolElementBytesMax + more;
    EXPECT_EQ(host.connect(), more == 0);
    EXPECT_EQ(host.acceptor->counters().get(AcceptorCounter::kRefusedFrameBytes), more);
  }
}

TEST(Acceptor, a_host_that_comes_back_ends_its_old_session) {
  ScriptedHost host(unit_config());
  ASSERT_TRUE(host.connect());
  NetdevSession& old = host.unit();
  host.nonce = 0x9999;
  EXPECT_TRUE(host.acceptor->sessions().size() == 1);
  host.knock(CmAttribute::kReq, host.nonce);
  EXPECT_EQ(old.counters().get(C::kLostReplaced), 1U);
  EXPECT_EQ(host.acceptor->counters().get(AcceptorCounter::kAccepted), 2U);
}

TEST(Acceptor, sessions_and_requests_are_bounded) {
  AcceptorConfig config = unit_config();
  config.hosts_max = 2;
  config.requests_per_second = 5;
  ScriptedHost host(config);
  for (uint8_t i = 0; i < 8; ++i) {
    host.nonce = 100 + i;
    host.offer.mac = {2, 0, 0, 0, 1, i};
    host.knock(CmAttribute::kReq, host.nonce);
  }
  const auto& counters = host.acceptor->counters();
  EXPECT_EQ(counters.get(AcceptorCounter::kAccepted), 2U);
  EXPECT_EQ(counters.get(AcceptorCounter::kRefusedFull), 3U);
  EXPECT_EQ(counters.get(AcceptorCounter::kRefusedRate), 3U);
  EXPECT_EQ(host.acceptor->sessions().size(), 2U);
}

/// A host that asks under ever new MAC addresses leaves places for others. A MAC address that already has a
/// session counts once, and a session that ends makes room.
TEST(Acceptor, one_lid_cannot_take_every_session) {
  AcceptorConfig config = unit_config();
  ScriptedHost host(config);
  const auto ask = [&](uint8_t mac, uint64_t nonce) {
    host.offer.mac = {2, 0, 0, 0, 1, mac};
    host.knock(CmAttribute::kReq, nonce);
  };
  for (uint8_t i = 0; i < 20; ++i) ask(i, 100U + i);
  const auto& counters = host.acceptor->counters();
  EXPECT_EQ(counters.get(AcceptorCounter::kAccepted), config.sessions_per_lid);
  EXPECT_EQ(counters.get(AcceptorCounter::kRefusedLidFull), 20U - config.sessions_per_lid);
  EXPECT_EQ(counters.get(AcceptorCounter::kRefusedFull), 0U);
  EXPECT_LT(host.acceptor->sessions().size(), config.hosts_max);
  ask(0, 200);
  EXPECT_EQ(counters.get(AcceptorCounter::kAccepted), config.sessions_per_lid + 1U) << "comes back";
  host.knock(CmAttribute::kDreq, 200);
  ask(50, 201);
  EXPECT_EQ(counters.get(AcceptorCounter::kAccepted), config.sessions_per_lid + 2U);
}

/// What the host sends has LID `lid` as its source from now on.
void speak_as(ScriptedHost& host, uint16_t lid) {
  constexpr size_t kSlidOffset = 10;  // in a cell's header
  host.pipe.set_filter([lid](int from, std::vector<std::byte>& cell) {
    if (from == 0) {
      store_be(cell.data() + kSlidOffset, lid);
      const size_t covered = cell.size() - kCrcBytes;
      store_be(cell.data() + covered, crc32c(std::span(cell).first(covered)));
    }
    return Verdict::kPass;
  });
}

/// A host returns under its MAC address; no other LID can take the address, even if the driver would agree.
TEST(Acceptor, a_mac_address_belongs_to_the_lid_that_has_it) {
  covers("DECISIONS-2.22");
  ScriptedHost host(unit_config());
  ASSERT_TRUE(host.connect());
  host.advertise();
  speak_as(host, 3);
  host.knock(CmAttribute::kReq, 0x9999);
  const auto& counters = host.acceptor->counters();
  EXPECT_EQ(counters.get(AcceptorCounter::kRefusedMacTaken), 1U);
  EXPECT_EQ(counters.get(AcceptorCounter::kAccepted), 1U);
  EXPECT_EQ(host.unit().state(), SessionState::kOpen);
  host.offer.mac = {2, 0, 0, 0, 0, 8};
  host.knock(CmAttribute::kReq, 0x999A);
  EXPECT_EQ(counters.get(AcceptorCounter::kAccepted), 2U) << "under its own";
}

TEST(Acceptor, datagrams_for_no_session_are_counted) {
  ScriptedHost host(unit_config());
  host.knock(CmAttribute::kDreq, 4);
  host.knock(CmAttribute::kDrep, 4);
  EXPECT_EQ(host.acceptor->counters().get(AcceptorCounter::kUnknownMessage), 2U);
}

/// An RTU for an unknown session is refused, at most as often as the LID's other requests are allowed.
TEST(Acceptor, an_rtu_for_no_session_is_refused_at_a_bounded_rate) {
  AcceptorConfig config = unit_config();
  config.requests_per_second = 5;
  ScriptedHost host(config);
  uint32_t answers = 0;
  for (uint64_t nonce = 0; nonce < 20; ++nonce) {
    host.datagrams.clear();
    host.knock(CmAttribute::kRtu, nonce, 5);
    for (const SessionMad& answer : host.datagrams) {
      EXPECT_EQ(answer.kind, CmAttribute::kRej);
      EXPECT_EQ(answer.nonce, nonce);
      EXPECT_EQ(answer.reason, static_cast<uint16_t>(SessionRefusal::kUnknownSession));
      ++answers;
    }
  }
  EXPECT_EQ(answers, 5U);
  EXPECT_EQ(host.acceptor->counters().get(AcceptorCounter::kUnknownSession), 5U);
  EXPECT_EQ(host.acceptor->counters().get(AcceptorCounter::kRefusedRate), 15U);
}

TEST(Acceptor, a_forged_disconnect_needs_the_nonce) {
  ScriptedHost host(unit_config());
  ASSERT_TRUE(host.connect());
  host.advertise();
  host.knock(CmAttribute::kDreq, host.nonce + 1);
  EXPECT_EQ(host.unit().state(), SessionState::kOpen);
  host.knock(CmAttribute::kDreq, host.nonce);
  EXPECT_EQ(host.unit().state(), SessionState::kLost);
  EXPECT_EQ(host.count(C::kLostPeerLeft), 1U);
}

TEST(Acceptor, a_disconnect_with_the_nonce_needs_the_lid) {
  ScriptedHost host(unit_config());
  ASSERT_TRUE(host.connect());
  host.advertise();
  speak_as(host, 3);
  host.knock(CmAttribute::kDreq, host.nonce);
  EXPECT_EQ(host.unit().state(), SessionState::kOpen);
  EXPECT_EQ(host.acceptor->counters().get(AcceptorCounter::kUnknownMessage), 1U);
}

TEST(Acceptor, a_host_that_broke_the_rules_waits_longer_each_time) {
  ScriptedHost host(unit_config());
  ASSERT_TRUE(host.connect());
  host.advertise();
  host.write(host.element(0), 1, 100, encode_idata({99, 0, 2048}));
  ASSERT_EQ(host.unit().state(), SessionState::kLost);
  host.nonce = 77;
  host.knock(CmAttribute::kReq, host.nonce);
  EXPECT_EQ(host.acceptor->counters().get(AcceptorCounter::kRefusedRate), 1U);
  host.run(200, 1ms);
  host.knock(CmAttribute::kReq, host.nonce);
  EXPECT_EQ(host.acceptor->counters().get(AcceptorCounter::kAccepted), 2U);
}

void break_the_rules(ScriptedHost& host) {
  host.advertise();
  host.write(host.element(0), 1, 100, encode_idata({99, 0, 2048}));
  ASSERT_EQ(host.unit().state(), SessionState::kLost);
}

TEST(Acceptor, the_wait_of_a_host_that_breaks_the_rules_has_a_bound) {
  AcceptorConfig config = unit_config();
  config.session.limits.connect_interval_max = 150ms;
  ScriptedHost host(config);
  for (uint64_t time = 0; time < 4; ++time) {
    if (time != 0) host.reopen();
    host.nonce = 100 + time;
    ASSERT_TRUE(host.connect()) << time;
    ASSERT_NO_FATAL_FAILURE(break_the_rules(host));
    host.run(160, 1ms);
  }
}

/// As many LIDs ask as are remembered, and one that asks no longer makes room: not one that has to wait.
TEST(Acceptor, a_host_that_has_to_wait_is_not_forgotten_for_others) {
  AcceptorConfig config = unit_config();
  config.session.limits.connect_interval = 5s;
  ScriptedHost host(config);
  ASSERT_TRUE(host.connect());
  ASSERT_NO_FATAL_FAILURE(break_the_rules(host));
  host.run(1500, 1ms);
  host.knock(CmAttribute::kRtu, 5);
  std::vector<std::byte> cell = host.pipe.sent_by(0, Opcode::kUdSend).back()->bytes;
  for (uint16_t lid = 1000; lid < 1300; ++lid) {
    store_be(&cell[10], lid);
    host.pipe.inject(1, cell);
    host.run(1);
  }
  EXPECT_GE(host.acceptor->counters().get(AcceptorCounter::kUnknownSession), 300U);
  host.knock(CmAttribute::kReq, 77);
  EXPECT_EQ(host.acceptor->counters().get(AcceptorCounter::kAccepted), 1U);
}

/// The session of another host is made of an object that was behind frames of the first one.
TEST(Acceptor, frames_of_a_host_are_behind_those_of_no_other) {
  AcceptorConfig config = unit_config();
  config.hosts_max = config.sessions_per_lid = 4;
  ScriptedHost host(config);
  const auto write_one = [&] {
    host.advertise();
    const RemoteElement to = host.element(0);
    host.write(to, 1, 100, encode_idata({to.pool, to.element, to.element_bytes}));
  };
  ASSERT_TRUE(host.connect());
  write_one();
  ASSERT_NE(host.unit().front_frame(), nullptr) << "the driver does not take it";
  host.reopen();
  host.nonce = 2;
  ASSERT_TRUE(host.connect());
  host.knock(CmAttribute::kDreq, 2);
  host.reopen();
  host.nonce = 3;
  host.offer.mac = {2, 0, 0, 0, 0, 9};
  ASSERT_TRUE(host.connect());
  ASSERT_EQ(host.acceptor->sessions().size(), 2U);
  write_one();
  EXPECT_NE(host.unit().front_frame(), nullptr);
}

/// The peer sends into receive work requests: it needs no place, and no element takes more than was agreed.
TEST(AcceptorPools, without_rdma_are_one_for_frames_as_long_as_agreed) {
  for (const TransferMode mode : {TransferMode::kSendReceive, TransferMode::kSendDataOnly}) {
    ScriptedHost host(unit_config(), mode);
    host.offer.frame_bytes_max = 1514;
    ASSERT_TRUE(host.connect());
    host.run();
    ASSERT_EQ(host.pools.size(), 1U);
    const PoolAdvert& advert = host.pools[0];
    EXPECT_EQ(advert.pool, kPoolOfReceiveWqes);
    EXPECT_EQ(advert.elements, 8U);
    EXPECT_EQ(advert.element_bytes, 1514U);
    EXPECT_EQ(advert.handle, Rkey());
    EXPECT_EQ(advert.address, 0U);
  }
}

}  // namespace
}  // namespace weft::session
