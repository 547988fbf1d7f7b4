// A peer that breaks the rules of a session: each offence has its own counter, ends what it must end and
// nothing
// else (decisions 2.16, section 4).
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "tests/support/reason_table.h"
#include "tests/support/scripted_host.h"

namespace weft::session {
namespace {

using namespace std::chrono_literals;
using namespace test;  // NOLINT(google-build-using-namespace): the test's own words
using C = SessionCounter;

uint32_t idata_of(const RemoteElement& element) {
  return encode_idata({element.pool, element.element, element.element_bytes});
}

/// A connected host that has advertised a pool, ready to break rules.
class Hostile : public testing::Test {
 protected:
  Hostile() : host(unit_config()) {
    EXPECT_TRUE(host.connect());
    host.advertise();
    EXPECT_EQ(host.unit().state(), SessionState::kOpen);
  }
  /// The offence was counted once, ended the session and was counted under no other name.
  void expect_reset(C offence) {
    EXPECT_EQ(host.count(offence), 1U);
    EXPECT_EQ(host.count(C::kLostViolation), 1U);
    EXPECT_EQ(host.unit().state(), SessionState::kLost);
    EXPECT_EQ(host.unit().front_frame(), nullptr) << "nothing was delivered";
    EXPECT_TRUE(host.unit().conservation().holds());
  }
  /// The host's next request comes too early: the offence has a penalty.
  void expect_to_wait(uint64_t next_nonce) {
    const auto& counters = host.acceptor->counters();
    host.knock(CmAttribute::kReq, next_nonce);
    EXPECT_EQ(counters.get(AcceptorCounter::kRefusedRate), 1U);
    EXPECT_EQ(counters.get(AcceptorCounter::kAccepted), 1U);
  }
  /// The host acknowledges nothing that the unit sends.
  void drop_answers() {
    host.pipe.set_filter([](int from, std::vector<std::byte>& bytes) {
      CellView view;
      const bool answer = decode_cell(bytes, CrcCheck::kAlreadyVerified, view) == CellError::kNone &&
                          view.opcode == Opcode::kAck;
      return from == 0 && answer ? Verdict::kDrop : Verdict::kPass;
    });
  }
  /// What the host sends until release() arrives in one turn.
  void hold() {
    host.pipe.set_filter(
        [](int from, std::vector<std::byte>&) { return from == 0 ? Verdict::kHold : Verdict::kPass; });
  }
  void release() {
    host.pipe.set_filter({});
    host.pipe.release_held();
    host.run(20);
  }
  ScriptedHost host;
};

/// Each freed element is a run of its own, and one message has room for half of them.
TEST(ScatteredElements, that_are_freed_at_once_are_all_renewed) {
  constexpr uint32_t kElements = 2 * kNetdevRunsPerMessageMax;
  AcceptorConfig config = unit_config();
  config.session.pools = {{2048, kElements}};
  ScriptedHost host(config);
  ASSERT_TRUE(host.connect());
  host.advertise();
  for (uint32_t i = kElements; i-- > 0;) host.write(host.element(i), i, 100, idata_of(host.element(i)));
  uint32_t taken = 0;
  for (; host.unit().front_frame() != nullptr; ++taken) host.unit().release_frame();
  EXPECT_EQ(taken, kElements);
  host.run(50);
  EXPECT_EQ(host.renewed.size(), kElements);
  EXPECT_EQ(host.count(C::kUpdatesOut), 2U);
}

TEST_F(Hostile, idata_for_a_pool_that_was_never_advertised) {
  host.write(host.element(0), 1, 100, encode_idata({99, 0, 2048}));
  expect_reset(C::kIdataPoolUnknown);
}

TEST_F(Hostile, idata_for_a_number_between_those_of_our_pools) {
  host.write(host.element(0), 1, 100, encode_idata({2, 0, 2048}));
  expect_reset(C::kIdataPoolUnknown);
}

TEST_F(Hostile, idata_for_an_element_out_of_range) {
  host.write(host.element(0), 1, 100, encode_idata({1, 8, 2048}));
  expect_reset(C::kIdataElementRange);
}

TEST_F(Hostile, idata_with_another_element_size) {
  host.write(host.element(0), 1, 100, encode_idata({1, 0, 1024}));
  expect_reset(C::kIdataSizeWrong);
}

TEST_F(Hostile, idata_that_names_another_element_than_was_written) {
  host.write(host.element(3), 1, 100, idata_of(host.element(4)));
  expect_reset(C::kIdataAddressWrong);
}

TEST_F(Hostile, a_write_into_the_middle_of_an_element) {
  RemoteElement element = host.element(3);
  element.address += 8;
  host.write(element, 1, 100, idata_of(element));
  expect_reset(C::kIdataAddressWrong);
}

TEST_F(Hostile, a_write_longer_than_its_element) {
  host.write(host.element(3), 1, 3000, idata_of(host.element(3)));
  expect_reset(C::kIdataTooLong);
}

TEST_F(Hostile, an_element_indicated_twice) {
  host.write(host.element(3), 1, 100, idata_of(host.element(3)));
  ASSERT_NE(host.unit().front_frame(), nullptr);
  EXPECT_EQ(check_frame(host.unit().front_frame()->bytes), 1U);
  host.write(host.element(3), 2, 100, idata_of(host.element(3)));
  EXPECT_EQ(host.count(C::kIdataElementNotFree), 1U);
  EXPECT_EQ(host.unit().state(), SessionState::kLost);
  EXPECT_EQ(host.count(C::kFramesIn), 1U);
}

TEST_F(Hostile, a_message_that_indicates_what_is_not_there) {
  BufferRdmaIndicate body;
  body.used.push_back({.pool = 1, .element = 9, .element_bytes = 2048, .data_bytes = 100});
  host.say({.context = 1, .body = body});
  expect_reset(C::kIdataElementRange);
}

TEST_F(Hostile, a_message_that_indicates_more_than_an_element) {
  BufferRdmaIndicate body;
  body.used.push_back({.pool = 1, .element = 0, .element_bytes = 2048, .data_bytes = 2049});
  host.say({.context = 1, .body = body});
  expect_reset(C::kIdataTooLong);
}

/// An element may be larger than the longest frame that both sides have agreed on.
TEST_F(Hostile, a_frame_longer_than_agreed_is_refused_in_an_element_that_holds_it) {
  for (const bool by_message : {false, true}) {
    ScriptedHost sender(unit_config());
    ASSERT_TRUE(sender.connect());
    sender.advertise();
    const uint32_t agreed = sender.unit().peer().frame_bytes_max;
    const auto send = [&](uint32_t index, uint32_t frame_bytes) {
      const RemoteElement element = sender.element(index, 1);
      ASSERT_GT(element.element_bytes, kVnetBytes + frame_bytes);
      if (!by_message) return sender.write(element, index, frame_bytes, idata_of(element));
      sender.write(element, index, frame_bytes, std::nullopt);
      BufferRdmaIndicate body;
      body.used.push_back({.pool = element.pool,
                           .element = index,
                           .element_bytes = element.element_bytes,
                           .data_bytes = kVnetBytes + frame_bytes});
      sender.say({.context = index, .body = body});
    };
    send(0, agreed);
    ASSERT_NE(sender.unit().front_frame(), nullptr);
    EXPECT_EQ(check_frame(sender.unit().front_frame()->bytes), 0U);
    send(1, agreed + 1);
    EXPECT_EQ(sender.count(C::kIdataTooLong), 1U);
    EXPECT_EQ(sender.count(C::kLostViolation), 1U);
    EXPECT_EQ(sender.count(C::kFramesIn), 1U) << "only the first one was delivered";
  }
}

TEST_F(Hostile, a_flushed_pool_is_not_indicated) {
  BufferPoolFlushRequest flush;
  flush.pools.push_back(1);
  host.say({.context = 1, .body = flush});
  EXPECT_EQ(host.count(C::kPoolsFreed), 1U);
  BufferRdmaIndicate body;
  body.used.push_back({.pool = 1, .element = 0, .element_bytes = 2048, .data_bytes = 100});
  host.say({.context = 2, .body = body});
  expect_reset(C::kIdataPoolFlushed);
}

TEST_F(Hostile, idata_for_a_flushed_pool_over_memory_that_is_still_ours) {
  BufferPoolFlushRequest flush;
  flush.pools.push_back(1);
  host.say({.context = 1, .body = flush});
  host.write(host.element(0, 1), 1, 100, encode_idata({1, 0, 2048}));
  expect_reset(C::kIdataPoolFlushed);
}

TEST_F(Hostile, a_write_with_a_forged_key_ends_the_session) {
  RemoteElement element = host.element(0);
  element.handle = Rkey(element.handle.value() ^ 0x1000);
  host.write(element, 1, 100, idata_of(element));
  ASSERT_FALSE(host.failed.empty());
  EXPECT_EQ(host.failed[0].status, adapter::WcStatus::kRemoteAccess);
  expect_reset(C::kKeyRefused);
}

TEST_F(Hostile, a_write_beyond_the_pool_is_refused) {
  RemoteElement element = host.element(7);
  element.address += 2048;
  host.write(element, 1, 100, idata_of(element));
  ASSERT_FALSE(host.failed.empty());
  EXPECT_EQ(host.failed[0].status, adapter::WcStatus::kRemoteAccess);
  expect_reset(C::kKeyRefused);
}

/// The ends of several work requests come together: that of the peer's offence counts.
TEST_F(Hostile, a_forged_key_has_its_name_also_while_a_frame_to_its_host_is_unanswered) {
  drop_answers();
  const std::vector<std::byte> frame = make_frame(1, 100);
  const std::span<std::byte> into = host.unit().claim_frame(2000);
  ASSERT_GE(into.size(), frame.size());
  std::copy(frame.begin(), frame.end(), into.begin());
  host.unit().submit_frame(static_cast<uint32_t>(frame.size()));
  host.run(1);
  ASSERT_EQ(host.unit().conservation().frames_in_flight, 1U);
  RemoteElement element = host.element(0);
  element.handle = Rkey(element.handle.value() ^ 0x1000);
  host.write(element, 1, 100, idata_of(element));
  expect_reset(C::kKeyRefused);
  EXPECT_EQ(host.count(C::kLostQpError), 0U);
  expect_to_wait(0x77);
}

TEST_F(Hostile, a_disconnect_right_behind_an_offence_excuses_nothing) {
  hold();
  host.write(host.element(0), 1, 100, encode_idata({99, 0, 2048}));
  host.knock(CmAttribute::kDreq, host.nonce, 2);
  release();
  expect_reset(C::kIdataPoolUnknown);
  EXPECT_EQ(host.count(C::kLostPeerLeft), 0U);
  expect_to_wait(0x77);
}

TEST_F(Hostile, a_disconnect_right_behind_a_forged_key_excuses_nothing) {
  RemoteElement element = host.element(0);
  element.handle = Rkey(element.handle.value() ^ 0x1000);
  hold();
  host.write(element, 1, 100, idata_of(element));
  host.knock(CmAttribute::kDreq, host.nonce, 2);
  host.knock(CmAttribute::kReq, 0x76, 2);
  release();
  expect_reset(C::kKeyRefused);
  EXPECT_EQ(host.acceptor->counters().get(AcceptorCounter::kRefusedRate), 1U) << "with the other two";
  EXPECT_EQ(host.acceptor->counters().get(AcceptorCounter::kAccepted), 1U);
}

TEST_F(Hostile, a_request_right_behind_an_offence_is_refused) {
  RemoteElement element = host.element(0);
  element.handle = Rkey(element.handle.value() ^ 0x1000);
  hold();
  host.write(element, 1, 100, idata_of(element));
  host.knock(CmAttribute::kReq, 0x76, 2);
  release();
  expect_reset(C::kKeyRefused);
  EXPECT_EQ(host.acceptor->counters().get(AcceptorCounter::kRefusedRate), 1U);
  EXPECT_EQ(host.acceptor->counters().get(AcceptorCounter::kAccepted), 1U);
  host.run(100, 1ms);
  host.knock(CmAttribute::kReq, 0x76);
  EXPECT_EQ(host.acceptor->counters().get(AcceptorCounter::kAccepted), 2U);
}

TEST_F(Hostile, frames_that_came_with_a_disconnect_are_delivered) {
  hold();
  for (uint32_t i = 0; i < 3; ++i) host.write(host.element(i), i, 100, idata_of(host.element(i)));
  host.knock(CmAttribute::kDreq, host.nonce, 2);
  release();
  EXPECT_EQ(host.count(C::kLostPeerLeft), 1U);
  EXPECT_EQ(host.count(C::kFramesIn), 3U);
  for (uint32_t i = 0; i < 3; ++i) {
    ASSERT_NE(host.unit().front_frame(), nullptr);
    EXPECT_EQ(check_frame(host.unit().front_frame()->bytes), i);
    host.unit().release_frame();
  }
}

TEST_F(Hostile, a_frame_shorter_than_its_headers_is_dropped_and_its_element_comes_back) {
  const std::vector<std::byte> tiny(8);
  std::byte* at = host.channels().ring().claim(8);
  ASSERT_NE(at, nullptr);
  const adapter::Sge sge = host.channels().ring_sge(at, 8);
  const RemoteElement element = host.element(0);
  adapter::SendRequest request;
  request.opcode = adapter::SendOpcode::kRdmaWriteWithImm;
  request.flags = adapter::kSendSignaled;
  request.sges = {&sge, 1};
  request.imm = idata_of(element);
  request.remote_addr = element.address;
  request.rkey = element.handle;
  ASSERT_EQ(host.channels().post_data(request), adapter::PostResult::kOk);
  host.channels().ring_data();
  host.run(50);
  EXPECT_EQ(host.count(C::kFrameTooShort), 1U);
  EXPECT_EQ(host.unit().front_frame(), nullptr);
  host.run(50);
  ASSERT_EQ(host.renewed.size(), 1U);
  EXPECT_EQ(host.renewed[0], (PoolRun{.pool = 1, .first = 0, .count = 1}));
  EXPECT_EQ(host.unit().state(), SessionState::kOpen);
}

TEST_F(Hostile, advertisements_that_are_not_the_hosts_to_make) {
  const auto advertise = [&](uint32_t reference) {
    BufferRecvPool body;
    body.pools.push_back({.pool = reference,
                          .elements = 1,
                          .element_bytes = 64,
                          .handle = Rkey(5),
                          .address = 4096,
                          .context = 0});
    host.say({.context = 1, .body = body});
  };
  advertise(1);  // a reference of the unit's own pools
  advertise(0);  // a reference that was advertised before
  EXPECT_EQ(host.count(C::kPoolRefTaken), 2U);
  for (uint32_t i = 0; i < 80; ++i) advertise(2 + 2 * i);
  EXPECT_EQ(host.count(C::kPoolLimit), 80U - 63U) << "64 pools are remembered";
  EXPECT_EQ(host.unit().state(), SessionState::kOpen);
}

TEST_F(Hostile, demand_for_pools_is_bounded) {
  for (uint32_t i = 0; i < 50; ++i) {
    host.say({.context = i, .body = BufferRecvPoolGet{.packet_bytes = 2048, .packets = 65536}});
  }
  host.say({.context = 99, .body = BufferRecvPoolGet{.packet_bytes = 1U << 24, .packets = 1}});
  EXPECT_EQ(host.count(C::kPoolGetsIn), 51U);
  EXPECT_EQ(host.count(C::kPoolGetsRefused), 50U);
  EXPECT_EQ(host.pools.size(), 3U);
  EXPECT_EQ(host.unit().conservation().own_elements, 8U + 4 + 8);
}

TEST_F(Hostile, pools_on_demand_follow_each_other_at_a_distance_and_not_while_closing) {
  SessionPairOptions options;
  options.unit.session.limits.pools_per_class = 8;
  ScriptedHost asker(options.unit);
  ASSERT_TRUE(asker.connect());
  asker.advertise();
  const auto get = [&] {
    asker.say({.context = 1, .body = BufferRecvPoolGet{.packet_bytes = 64, .packets = 1}});
  };
  get();
  get();
  EXPECT_EQ(asker.count(C::kPoolGetsRefused), 1U);
  asker.run(100, 100us);
  get();
  EXPECT_EQ(asker.count(C::kPoolGetsRefused), 1U);
  asker.run(100, 100us);
  asker.acceptor->close();
  asker.run(1);
  get();
  EXPECT_EQ(asker.count(C::kPoolGetsRefused), 2U);
}

TEST_F(Hostile, a_reply_answers_only_what_was_asked) {
  const uint64_t asked = host.unit().request_config({.request_class = CfgClass::kUtility, .code = 4});
  host.run(20);
  const auto utility = static_cast<uint16_t>(CfgClass::kUtility);
  const auto mac_config = static_cast<uint16_t>(CfgClass::kMacConfig);
  const auto reply = [&](uint16_t request_class, uint16_t code) {
    host.say({.context = asked, .body = CfgUtilReply{request_class, code, 0, {}}});
  };
  reply(mac_config, 4);
  reply(utility, 5);
  EXPECT_EQ(host.count(C::kConfigReplyUnknown), 2U);
  EXPECT_TRUE(host.events.replies.empty());
  reply(utility, 4);
  ASSERT_EQ(host.events.replies.size(), 1U);
  EXPECT_EQ(host.events.replies[0].transaction, asked);
}

/// The keepalives of the host put the unit's next one off, so none replaces the one without an answer.
TEST_F(Hostile, an_answer_to_a_keepalive_after_its_time_is_to_nothing) {
  constexpr auto kUtility = static_cast<uint16_t>(CfgClass::kUtility);
  constexpr auto kKeepalive = static_cast<uint16_t>(UtilityCode::kKeepalive);
  const auto answer_after = [&](int turns) {
    host.heard.clear();
    host.run(55, 10ms);  // a little more than an interval
    ASSERT_EQ(host.heard.size(), 1U);
    ASSERT_EQ(host.heard[0].first, NetdevFunction::kCfgUtilRequest);
    const uint64_t asked = host.heard[0].second;
    const std::array<std::byte, 8> frames_sent{};
    for (int i = 0; i < turns; ++i) {
      host.say({.context = 100, .body = CfgUtilRequest{kUtility, kKeepalive, frames_sent}});
      host.run(40, 10ms);
    }
    host.say({.context = asked, .body = CfgUtilReply{kUtility, kKeepalive, 0, {}}});
  };
  answer_after(0);
  EXPECT_EQ(host.count(C::kConfigReplyUnknown), 0U);
  answer_after(3);
  EXPECT_EQ(host.count(C::kKeepalivesOut), 2U);
  EXPECT_EQ(host.count(C::kConfigReplyUnknown), 1U);
}

TEST_F(Hostile, pools_flushed_full_and_asked_for_again_stay_bounded) {
  const auto get = [&](uint32_t bytes) {
    host.say({.context = 1, .body = BufferRecvPoolGet{.packet_bytes = bytes, .packets = 1}});
    host.run(200, 100us);  // new pools on demand are at least some time apart
  };
  uint32_t number = 0;
  for (uint32_t round = 0; round < 10; ++round) {  // the driver takes no frame
    for (uint32_t pool = 0; pool < host.pools.size(); ++pool) {
      for (uint32_t i = 0; i < host.pools[pool].elements; ++i) {
        host.write(host.element(i, pool), ++number, 100, idata_of(host.element(i, pool)));
      }
    }
    BufferPoolFlushRequest flush;
    for (const PoolAdvert& pool : host.pools) flush.pools.push_back(pool.pool);
    host.pools.clear();
    host.say({.context = 2, .body = flush});
    for (const uint32_t bytes : {2048U, 2048U, 16384U, 16384U}) get(bytes);
  }
  EXPECT_EQ(host.unit().state(), SessionState::kOpen);
  EXPECT_EQ(host.count(C::kFramesIn), 2U * (8 + 4)) << "two pools of each size, all of them full";
  EXPECT_EQ(host.count(C::kPoolGetsRefused), 40U - 2);
  EXPECT_TRUE(host.unit().conservation().holds());
  for (uint32_t i = 1; i <= number; ++i) {
    ASSERT_NE(host.unit().front_frame(), nullptr);
    EXPECT_EQ(check_frame(host.unit().front_frame()->bytes), i) << "flushed, and still whole and in order";
    host.unit().release_frame();
  }
  EXPECT_EQ(host.unit().conservation().own_elements, 0U);
  get(2048);
  EXPECT_EQ(host.unit().conservation().own_elements, 8U) << "there is room again";
}

TEST_F(Hostile, flush_of_unknown_pools_is_answered) {
  BufferPoolFlushRequest body;
  body.pools.push_back(77);
  body.pools.push_back(kPoolOfReceiveWqes);
  host.say({.context = 5, .body = body});
  EXPECT_EQ(host.count(C::kFlushUnknownPool), 2U);
  EXPECT_EQ(host.heard.back(), std::make_pair(NetdevFunction::kBufferPoolFlushReply, uint64_t{5}));
  EXPECT_EQ(host.unit().state(), SessionState::kOpen);
}

TEST_F(Hostile, silence_ends_a_session_within_two_seconds) {
  const Instant silent = host.clock.now();
  host.pipe.set_filter(
      [](int from, std::vector<std::byte>&) { return from == 0 ? Verdict::kDrop : Verdict::kPass; });
  while (host.unit().state() == SessionState::kOpen) host.run(1, 1ms);
  EXPECT_LT(host.clock.now() - silent, 2s);
  EXPECT_EQ(host.count(C::kLostSilence) + host.count(C::kLostQpError), 1U);
}

TEST(HostileModes, more_plain_sends_than_credits) {
  AcceptorConfig config = unit_config();
  config.session.pools = {{2048, 4}};
  ScriptedHost host(config, TransferMode::kSendReceive);
  ASSERT_TRUE(host.connect());
  host.advertise(kPoolOfReceiveWqes, 8, 9018);
  for (uint32_t i = 0; i < 5; ++i) host.send_plain(i, 500);
  EXPECT_EQ(host.count(C::kLostGap), 1U) << "the fifth found no receive work request";
  EXPECT_EQ(host.count(C::kFramesIn), 4U);
}

TEST(HostileModes, a_plain_send_into_a_slot_that_was_not_renewed_yet) {
  AcceptorConfig config = unit_config();
  config.session.pools = {{2048, 8}};
  ScriptedHost host(config, TransferMode::kSendReceive);
  ASSERT_TRUE(host.connect());
  host.advertise(kPoolOfReceiveWqes, 8, 9018);
  for (uint32_t i = 0; i < 8; ++i) host.send_plain(i, 500);
  host.unit().release_frame();
  EXPECT_EQ(host.count(C::kUpdatesOut), 0U);
  host.send_plain(8, 500);
  EXPECT_EQ(host.count(C::kCreditOverrun), 1U);
  EXPECT_EQ(host.count(C::kLostViolation), 1U);
  EXPECT_EQ(host.count(C::kFramesIn), 8U);
}

TEST(HostileModes, a_plain_send_longer_than_agreed_into_a_slot_that_holds_it) {
  AcceptorConfig config = unit_config();
  config.session.frame_bytes_max = 1514;
  ScriptedHost host(config, TransferMode::kSendReceive);
  ASSERT_TRUE(host.connect());
  host.advertise(kPoolOfReceiveWqes, 8, 1514);
  host.send_plain(0, 1514);
  EXPECT_EQ(host.count(C::kFramesIn), 1U);
  host.send_plain(1, 1515);
  EXPECT_EQ(host.count(C::kIdataTooLong), 1U);
  EXPECT_EQ(host.count(C::kLostViolation), 1U);
  EXPECT_EQ(host.count(C::kFramesIn), 1U);
}

TEST(HostileModes, more_send_data_than_credits) {
  AcceptorConfig config = unit_config();
  config.session.pools = {{2048, 4}};
  ScriptedHost host(config, TransferMode::kSendDataOnly);
  ASSERT_TRUE(host.connect());
  host.advertise(kPoolOfReceiveWqes, 8, 9018);
  const std::vector<std::byte> data(500);
  for (uint64_t i = 0; i < 5; ++i) host.say({.context = i, .body = SendData{.data = data}});
  EXPECT_EQ(host.count(C::kCreditOverrun), 1U);
  EXPECT_EQ(host.count(C::kLostViolation), 1U);
  EXPECT_EQ(host.count(C::kFramesIn), 4U);
}

TEST(HostileModes, pools_do_not_exist_in_the_other_modes) {
  ScriptedHost host(unit_config(), TransferMode::kSendReceive);
  ASSERT_TRUE(host.connect());
  BufferRecvPool body;
  body.pools.push_back(
      {.pool = 0, .elements = 1, .element_bytes = 64, .handle = Rkey(5), .address = 64, .context = 0});
  host.say({.context = 1, .body = body});
  host.say({.context = 2, .body = BufferRecvPoolGet{.packet_bytes = 2048, .packets = 8}});
  BufferRdmaIndicate indicate;
  indicate.used.push_back({.pool = 1, .element = 0, .element_bytes = 2048, .data_bytes = 100});
  host.say({.context = 3, .body = indicate});
  EXPECT_EQ(host.count(C::kMsgNotExpected), 3U);
  EXPECT_EQ(host.unit().state(), SessionState::kOpening);
}

// ---- messages that are refused while the session goes on --------------------------------------

/// LAY-MSG: function, version, context, then the body.
std::vector<std::byte> frame_of(uint16_t function, std::vector<uint32_t> body, uint16_t version = 1) {
  std::vector<std::byte> out(12 + 4 * body.size());
  store_be(out.data(), function);
  store_be(out.data() + 2, version);
  store_be(out.data() + 4, uint64_t{1});
  for (size_t i = 0; i < body.size(); ++i) store_be(out.data() + 12 + 4 * i, body[i]);
  return out;
}

struct BadMessage {
  C reason;
  std::vector<std::byte> (*bytes)();
  TransferMode mode = TransferMode::kRdma;
  MessageEncoding encoding = MessageEncoding::kBytes;
};

constexpr std::array kBadMessages{
    BadMessage{C::kMsgTooShort, [] { return std::vector<std::byte>(5); }},
    BadMessage{C::kMsgTooLong,
               [] {
                 // A slot has 1536 bytes, twelve of them for the vnet header.
                 std::vector<uint32_t> body(1 + 1528 / 4);
                 body[0] = 1528;
                 return frame_of(6, body);
               },
               TransferMode::kSendDataOnly},
    BadMessage{C::kMsgUnknownFunction, [] { return frame_of(0x63, {}); }},
    BadMessage{C::kMsgWrongVersion,
               [] {
                 return frame_of(2, {2048, 64}, 7);
               }},
    BadMessage{C::kMsgLengthMismatch,
               [] {
                 return frame_of(2, {2048, 64, 0});
               }},
    BadMessage{C::kMsgCountLimit,
               [] { return frame_of(4, std::vector<uint32_t>(kNetdevPoolsPerMessageMax + 1, 7)); }},
    BadMessage{C::kMsgBadValue,
               [] {
                 return frame_of(1, {7, 0, 256, 0xA01, 0, 0x100000, 0, 0});
               }},
    BadMessage{C::kMsgNotParsed,
               [] {  // a second segment
                 std::vector<std::byte> out(24);
                 out[0] = std::byte{1};
                 return out;
               },
               TransferMode::kRdma, MessageEncoding::kCapnp},
    BadMessage{C::kMsgNotExpected,
               [] {
                 return frame_of(6, {4, 0x01020304});
               }},
};
static_assert(names_every_reason(kBadMessages, C::kMsgTooShort, C::kPoolRefUnknown));

TEST(HostileMessages, each_refusal_has_its_own_counter_and_the_session_goes_on) {
  for (const BadMessage& one : kBadMessages) {
    AcceptorConfig config = unit_config();
    config.session.frame_bytes_max = 1514;
    ScriptedHost host(config, one.mode, one.encoding);
    ASSERT_TRUE(host.connect());
    host.advertise(one.mode == TransferMode::kRdma ? 0 : kPoolOfReceiveWqes, 8, 1514);
    host.say_bytes(one.bytes());
    for (auto i = static_cast<size_t>(C::kMsgTooShort); i < static_cast<size_t>(C::kPoolRefUnknown); ++i) {
      const auto counter = static_cast<C>(i);
      EXPECT_EQ(host.count(counter), counter == one.reason ? 1U : 0U)
          << CounterSet<C>::label(counter) << " while provoking " << CounterSet<C>::label(one.reason);
    }
    EXPECT_EQ(host.unit().state(), SessionState::kOpen) << CounterSet<C>::label(one.reason);
    EXPECT_EQ(host.unit().front_frame(), nullptr);
  }
}

}  // namespace
}  // namespace weft::session
