// PUSH-FLUSH: exposed memory is given back in order, whichever side starts.
#include <gtest/gtest.h>

#include <array>
#include <numeric>
#include <set>

#include "base/endian.h"
#include "tests/support/requirement.h"
#include "tests/support/scripted_host.h"
#include "tests/support/session_pair.h"
#include "tests/support/session_wire.h"

namespace weft::session {
namespace {

using namespace std::chrono_literals;
using namespace test;  // NOLINT(google-build-using-namespace): the test's own words
using C = SessionCounter;

std::set<uint32_t> advertised(const std::vector<WireItem>& wire) {
  std::set<uint32_t> out;
  for (int from = 0; from < 2; ++from) {
    for (const BufferRecvPool& body : bodies<BufferRecvPool>(wire, from)) {
      for (const PoolAdvert& advert : body.pools) out.insert(advert.pool);
    }
  }
  return out;
}

TEST(PushFlush, PUSH_FLUSH_01_closing_flushes_every_live_pool) {
  covers("PUSH-FLUSH-01");
  for (int closer = 0; closer < 2; ++closer) {
    SessionPair pair;
    EXPECT_EQ(pair.stream(0, 0, 20, 1000).size(), 20U);
    NetdevSession& unit = pair.unit();
    closer == 0 ? pair.host().close() : pair.acceptor().close();
    pair.run_for(50ms, 100us);
    const auto wire = read_wire(pair.pipe, 1024);
    std::set<uint32_t> flushed;
    for (const auto& body : bodies<BufferPoolFlushRequest>(wire, closer)) {
      flushed.insert(body.pools.begin(), body.pools.end());
    }
    EXPECT_EQ(flushed, advertised(wire));
    EXPECT_EQ(flushed.size(), 4U);
    NetdevSession& self = closer == 0 ? pair.host() : unit;
    EXPECT_EQ(self.state(), SessionState::kIdle);
    EXPECT_EQ(self.counters().get(C::kFlushTimedOut), 0U);
    EXPECT_EQ(pair.host().counters().get(C::kPoolsFreed), 2U);
    EXPECT_EQ(unit.counters().get(C::kPoolsFreed), 2U);
  }
}

/// A pool element serves many transfers under one key. When the transfers are over, the driver ends the key
/// itself, at whichever side: in an orderly end after the flush, and when the session is lost.
TEST(PushFlush, MIG_INV_02_the_drivers_end_the_keys_of_their_pools_by_default) {
  covers("MIG-INV-02");
  for (const bool is_orderly : {true, false}) {
    SessionPair pair;
    EXPECT_EQ(pair.stream(0, 0, 20, 1000).size(), 20U);
    const auto wire = read_wire(pair.pipe, 1024);
    std::array<std::vector<Rkey>, 2> keys;
    for (int owner = 0; owner < 2; ++owner) {
      for (const BufferRecvPool& body : bodies<BufferRecvPool>(wire, owner)) {
        for (const PoolAdvert& advert : body.pools) keys[static_cast<size_t>(owner)].push_back(advert.handle);
      }
    }
    for (int owner = 0; owner < 2; ++owner) {
      const auto& own = keys[static_cast<size_t>(owner)];
      ASSERT_EQ(own.size(), 2U);
      for (const Rkey key : own) EXPECT_TRUE(pair.adapter(owner).memory().query(key.value())->valid);
    }
    if (is_orderly) {
      pair.host().close();
      pair.run_for(50ms, 100us);
      EXPECT_EQ(pair.host().state(), SessionState::kIdle);
    } else {
      pair.kill(0);
      pair.run_for(10s, 10ms);
    }
    for (int owner = is_orderly ? 0 : 1; owner < 2; ++owner) {
      for (const Rkey key : keys[static_cast<size_t>(owner)]) {
        const auto found = pair.adapter(owner).memory().query(key.value());
        EXPECT_FALSE(found && found->valid) << "owner " << owner << (is_orderly ? ", closed" : ", lost");
      }
    }
  }
}

/// The unit owns the pools and closes; the scripted host is the initiator, which still wants to write.
TEST(PushFlush, PUSH_FLUSH_02_the_owner_frees_after_the_reply_and_a_late_write_is_refused) {
  covers("PUSH-FLUSH-02");
  ScriptedHost host{SessionPairOptions().unit};
  ASSERT_TRUE(host.connect());
  host.advertise();
  const RemoteElement first = host.element(0);
  const RemoteElement late = host.element(1);
  host.acceptor->close();
  host.run(20);
  std::vector<uint64_t> asked;
  for (const auto& [function, context] : host.heard) {
    if (function == NetdevFunction::kBufferPoolFlushRequest) asked.push_back(context);
  }
  ASSERT_EQ(asked.size(), 2U);
  // Before the reply the memory is still accessible.
  host.write(first, 1, 500, encode_idata({first.pool, 0, first.element_bytes}));
  EXPECT_TRUE(host.failed.empty());
  EXPECT_EQ(host.count(C::kFramesIn), 1U);
  EXPECT_EQ(host.count(C::kPoolsFreed), 0U);
  host.say({.context = asked[0], .body = BufferPoolFlushReply{}});
  EXPECT_EQ(host.count(C::kPoolsFreed), 2U);
  host.write(late, 2, 500, encode_idata({late.pool, 1, late.element_bytes}));
  ASSERT_FALSE(host.failed.empty());
  EXPECT_EQ(host.failed[0].status, adapter::WcStatus::kRemoteAccess);
  EXPECT_EQ(host.count(C::kFramesIn), 1U);
  // Frames that arrived before stay readable.
  ASSERT_NE(host.unit().front_frame(), nullptr);
  EXPECT_EQ(check_frame(host.unit().front_frame()->bytes), 1U);
}

TEST(PushFlush, PUSH_FLUSH_02_the_initiator_writes_nothing_after_its_reply) {
  covers("PUSH-FLUSH-02");
  SessionPair pair;
  uint32_t number = 0;
  for (int turn = 0; turn < 60; ++turn) {
    for (int i = 0; i < 4; ++i) {
      if (pair.send(1, number, 1500)) ++number;
    }
    if (turn == 20) pair.host().close();
    pair.turn();
    if (pair.host().state() != SessionState::kIdle) pair.receive(0);
  }
  bool replied = false;
  uint32_t writes = 0;
  for (const WireItem& item : read_wire(pair.pipe, 1024)) {
    if (item.from != 1) continue;
    replied |= item.body<BufferPoolFlushReply>() != nullptr;
    if (item.kind != WireKind::kWrite) continue;
    ++writes;
    EXPECT_FALSE(replied) << "a write after the reply";
  }
  EXPECT_TRUE(replied);
  EXPECT_GT(writes, 10U);
}

/// A write posted before the request may still be on its way. The reply must not overtake it, nor the message
/// that announces it.
TEST(PushFlush, PUSH_FLUSH_02_the_reply_waits_for_writes_under_way) {
  covers("PUSH-FLUSH-02");
  for (const bool by_message : {false, true}) {
    SessionPairOptions options;
    options.unit.session.force_indicate = by_message;
    SessionPair pair(options);
    pair.pipe.set_filter([](int from, std::vector<std::byte>& bytes) {
      CellView view;
      EXPECT_EQ(decode_cell(bytes, CrcCheck::kVerify, view), CellError::kNone);
      return from == 1 && view.opcode == Opcode::kRdmaWrite ? Verdict::kHold : Verdict::kPass;
    });
    EXPECT_TRUE(pair.send(1, 1, 1500));
    pair.run(20);
    pair.host().close();
    pair.run(500);
    EXPECT_EQ(bodies<BufferPoolFlushRequest>(read_wire(pair.pipe, 1024), 0).size(), 2U);
    EXPECT_TRUE(bodies<BufferPoolFlushReply>(read_wire(pair.pipe, 1024), 1).empty());
    EXPECT_EQ(pair.host().counters().get(C::kPoolsFreed), 0U) << "the pool is still there for it";
    pair.pipe.set_filter(nullptr);
    pair.pipe.release_held();
    pair.run(500);
    EXPECT_EQ(pair.receive(0), std::vector<uint32_t>{1});
    pair.run(500);
    EXPECT_EQ(bodies<BufferPoolFlushReply>(read_wire(pair.pipe, 1024), 1).size(), 2U);
    EXPECT_EQ(pair.host().counters().get(C::kPoolsFreed), 2U);
    EXPECT_EQ(pair.host().state(), SessionState::kIdle);
  }
}

TEST(PushFlush, PUSH_FLUSH_03_the_initiator_may_ask_and_the_pool_is_gone) {
  covers("PUSH-FLUSH-03");
  ScriptedHost host{SessionPairOptions().unit};
  ASSERT_TRUE(host.connect());
  host.advertise();
  BufferPoolFlushRequest body;
  for (const PoolAdvert& pool : host.pools) body.pools.push_back(pool.pool);
  host.say({.context = 77, .body = body});
  ASSERT_FALSE(host.heard.empty());
  EXPECT_EQ(host.heard.back(), std::make_pair(NetdevFunction::kBufferPoolFlushReply, uint64_t{77}));
  EXPECT_EQ(host.count(C::kPoolsFreed), 2U);
  const RemoteElement element = host.element(0);
  host.write(element, 1, 500, encode_idata({element.pool, 0, element.element_bytes}));
  ASSERT_FALSE(host.failed.empty());
  EXPECT_EQ(host.failed[0].status, adapter::WcStatus::kRemoteAccess);
  EXPECT_EQ(host.unit().front_frame(), nullptr);
}

TEST(PushFlush, PUSH_FLUSH_04_05_request_and_reply_have_the_given_layout) {
  covers("PUSH-FLUSH-04 PUSH-FLUSH-05");
  SessionPairOptions options = SessionPairOptions().mode(TransferMode::kRdma, MessageEncoding::kBytes);
  options.pools({{512, 4}, {2048, 4}, {16384, 4}});
  SessionPair pair(options);
  pair.host().close();
  pair.run_for(50ms, 100us);
  const auto wire = read_wire(pair.pipe, 1024);
  std::vector<uint64_t> contexts;
  for (const WireItem& item : wire) {
    const auto* request = item.body<BufferPoolFlushRequest>();
    if (request == nullptr) continue;
    EXPECT_EQ(item.bytes.size(), 24U) << "three pools";
    EXPECT_EQ(request->pools.size(), 3U);
    EXPECT_EQ(load_be<uint32_t>(item.bytes.data()), 0x0004'0001U) << "function name, version";
    EXPECT_EQ(load_be<uint64_t>(item.bytes.data() + 4), item.message.context);
    for (uint32_t i = 0; i < 3; ++i) {
      EXPECT_EQ(advertised(wire).count(load_be<uint32_t>(item.bytes.data() + 12 + 4 * i)), 1U);
    }
    contexts.push_back(item.message.context);
  }
  ASSERT_EQ(contexts.size(), 2U);
  std::vector<uint64_t> answered;
  for (const WireItem& item : wire) {
    if (item.body<BufferPoolFlushReply>() == nullptr) continue;
    EXPECT_EQ(item.bytes.size(), 12U);
    EXPECT_EQ(load_be<uint32_t>(item.bytes.data()), 0x0005'0001U);
    answered.push_back(item.message.context);
  }
  EXPECT_EQ(answered, contexts);
}

}  // namespace
}  // namespace weft::session
