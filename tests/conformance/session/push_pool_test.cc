// PUSH-POOL: advertisement, renewal and growth of receive pools, read from the wire of real sessions.
#include <gtest/gtest.h>

#include <map>
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

SessionPairOptions with_bytes() {
  return SessionPairOptions().mode(TransferMode::kRdma, MessageEncoding::kBytes);
}

/// Every pool that one side advertised, by reference.
std::map<uint32_t, PoolAdvert> adverts(const std::vector<WireItem>& wire, int from) {
  std::map<uint32_t, PoolAdvert> out;
  for (const BufferRecvPool& body : bodies<BufferRecvPool>(wire, from)) {
    for (const PoolAdvert& advert : body.pools) out[advert.pool] = advert;
  }
  return out;
}

TEST(PushPool, PUSH_POOL_01_the_owner_advertises_an_array_of_equal_elements) {
  covers("PUSH-POOL-01");
  SessionPair pair;
  EXPECT_EQ(pair.stream(0, 0, 40, 1000), numbers(0, 40));
  EXPECT_EQ(pair.stream(1, 0, 40, 9000), numbers(0, 40));
  const auto wire = read_wire(pair.pipe, 1024);
  for (int from = 0; from < 2; ++from) {
    const auto pools = adverts(wire, 1 - from);
    ASSERT_EQ(pools.size() >= 2, true);
    const auto writes = select(wire, from, WireKind::kWrite);
    ASSERT_EQ(writes.size(), 40U);
    for (const WireItem* write : writes) {
      const PoolElement used = decode_idata(write->idata.value());
      const PoolAdvert& pool = pools.at(used.pool);
      EXPECT_EQ(used.element_bytes, pool.element_bytes);
      EXPECT_LT(used.element, pool.elements);
      EXPECT_EQ(write->va, pool.address + uint64_t{used.element} * pool.element_bytes);
      EXPECT_LE(write->bytes.size(), pool.element_bytes);
    }
  }
}

TEST(PushPool, PUSH_POOL_02_the_five_values_stand_in_the_message) {
  covers("PUSH-POOL-02");
  SessionPairOptions options = with_bytes();
  options.unit.session.pools = {{512, 6}, {4096, 3}};
  options.unit.session.random_pool_context = true;
  SessionPair pair(options);
  const auto wire = read_wire(pair.pipe, 1024);
  const WireItem* found = nullptr;
  for (const WireItem& item : wire) {
    if (item.from == 1 && item.body<BufferRecvPool>() != nullptr) found = &item;
  }
  ASSERT_NE(found, nullptr);
  ASSERT_EQ(found->bytes.size(), 12U + 2 * 32);
  const std::byte* entry = found->bytes.data() + 12;
  EXPECT_EQ(load_be<uint32_t>(entry), 1U);
  EXPECT_EQ(load_be<uint32_t>(entry + 4), 6U);
  EXPECT_EQ(load_be<uint32_t>(entry + 8), 512U);
  EXPECT_NE(load_be<uint64_t>(entry + 16), 0U);
  EXPECT_NE(load_be<uint64_t>(entry + 24), 0U) << "context";
  EXPECT_EQ(load_be<uint32_t>(entry + 32), 3U);
  EXPECT_EQ(load_be<uint32_t>(entry + 36), 3U);
  EXPECT_EQ(load_be<uint32_t>(entry + 40), 4096U);
  // The advertised address is that of the first element, and the handle is its key.
  EXPECT_TRUE(pair.send(0, 1, 400));
  pair.run(20);
  const auto writes = read_wire(pair.pipe, 1024);
  const auto first = select(writes, 0, WireKind::kWrite);
  ASSERT_EQ(first.size(), 1U);
  EXPECT_EQ(load_be<uint32_t>(entry + 12), first[0]->rkey.value());
  EXPECT_EQ(load_be<uint64_t>(entry + 16), first[0]->va);
  EXPECT_EQ(pair.receive(1), numbers(1, 1)) << "and lies where the owner looks";
}

TEST(PushPool, PUSH_POOL_03_the_handle_rides_in_the_message_and_opens_the_pool) {
  covers("PUSH-POOL-03");
  ScriptedHost host{SessionPairOptions().unit};
  ASSERT_TRUE(host.connect());
  host.advertise();
  ASSERT_FALSE(host.pools.empty());
  EXPECT_NE(host.pools[0].handle, Rkey());
  RemoteElement element = host.element(0);
  host.write(element, 7, 500, encode_idata({element.pool, 0, element.element_bytes}));
  EXPECT_TRUE(host.failed.empty());
  ASSERT_NE(host.unit().front_frame(), nullptr);
  EXPECT_EQ(check_frame(host.unit().front_frame()->bytes), 7U);
  // Another handle does not open the element.
  element = host.element(1);
  element.handle = Rkey(element.handle.value() ^ 1);
  host.write(element, 8, 500, encode_idata({element.pool, 1, element.element_bytes}));
  ASSERT_FALSE(host.failed.empty());
  EXPECT_EQ(host.failed[0].status, adapter::WcStatus::kRemoteAccess);
  EXPECT_EQ(host.count(C::kFramesIn), 1U);
}

TEST(PushPool, PUSH_POOL_04_the_context_means_nothing_to_the_initiator) {
  covers("PUSH-POOL-04");
  std::vector<std::vector<uint32_t>> idata;
  for (const bool random : {false, true}) {
    SessionPairOptions options;
    options.host.random_pool_context = options.unit.session.random_pool_context = random;
    SessionPair pair(options);
    EXPECT_EQ(pair.stream(0, 0, 100, 1500), numbers(0, 100));
    EXPECT_EQ(pair.stream(1, 0, 100, 1500), numbers(0, 100));
    const auto wire = read_wire(pair.pipe, 1024);
    std::vector<uint32_t> used;
    for (const WireItem* write : select(wire, 0, WireKind::kWrite)) used.push_back(write->idata.value());
    idata.push_back(used);
    bool any_context = false;
    for (const auto& [reference, advert] : adverts(wire, 1)) any_context |= advert.context != 0;
    EXPECT_EQ(any_context, random);
  }
  EXPECT_EQ(idata[0], idata[1]);
}

TEST(PushPool, PUSH_POOL_05_one_message_covers_several_pools) {
  covers("PUSH-POOL-05");
  SessionPairOptions options;
  options.pools({{256, 8}, {2048, 8}, {16384, 8}});
  options.unit.session.limits.renew_delay = 1ms;
  SessionPair pair(options);
  auto wire = read_wire(pair.pipe, 1024);
  ASSERT_EQ(bodies<BufferRecvPool>(wire, 1).size(), 1U);
  EXPECT_EQ(bodies<BufferRecvPool>(wire, 1)[0].pools.size(), 3U);
  const uint32_t sizes[] = {100, 1500, 9000};
  for (uint32_t i = 0; i < 3; ++i) EXPECT_TRUE(pair.send(0, i, sizes[i]));
  pair.run(20);
  EXPECT_EQ(pair.receive(1), numbers(0, 3));
  pair.run_for(5ms, 100us);
  wire = read_wire(pair.pipe, 1024);
  std::set<uint32_t> written;
  for (const WireItem* write : select(wire, 0, WireKind::kWrite))
    written.insert(decode_idata(*write->idata).pool);
  EXPECT_EQ(written, (std::set<uint32_t>{1, 3, 5}));
  const auto updates = bodies<BufferRecvPoolUpdate>(wire, 1);
  ASSERT_EQ(updates.size(), 1U);
  std::set<uint32_t> renewed;
  for (const PoolRun& run : updates[0].runs) renewed.insert(run.pool);
  EXPECT_EQ(renewed, (std::set<uint32_t>{1, 3, 5}));
  EXPECT_EQ(pair.host().conservation().peer_consumed, 0U);
}

TEST(PushPool, PUSH_POOL_06_each_side_advertises_at_the_start) {
  covers("PUSH-POOL-06");
  SessionPair pair;
  const auto wire = read_wire(pair.pipe, 1024);
  EXPECT_EQ(adverts(wire, 0).size(), 2U);
  EXPECT_EQ(adverts(wire, 1).size(), 2U);
  for (const auto& [reference, advert] : adverts(wire, 0)) EXPECT_EQ(reference % 2, kPoolReferenceFirstHost);
  for (const auto& [reference, advert] : adverts(wire, 1)) EXPECT_EQ(reference % 2, kPoolReferenceFirstUnit);
}

TEST(PushPool, PUSH_POOL_07_more_memory_is_asked_for_when_a_quarter_is_left) {
  covers("PUSH-POOL-07");
  SessionPairOptions options = with_bytes();
  options.unit.session.pools = {{2048, 16}};
  SessionPair pair(options);
  for (uint32_t i = 0; i < 12; ++i) EXPECT_TRUE(pair.send(0, i, 1000));
  pair.run(20);
  EXPECT_TRUE(bodies<BufferRecvPoolGet>(read_wire(pair.pipe, 1024), 0).empty()) << "a quarter is free";
  EXPECT_TRUE(pair.send(0, 12, 1000));
  pair.run(20);
  const auto wire = read_wire(pair.pipe, 1024);
  const auto gets = bodies<BufferRecvPoolGet>(wire, 0);
  ASSERT_EQ(gets.size(), 1U);
  EXPECT_EQ(gets[0].packet_bytes, 2048U);
  EXPECT_EQ(gets[0].packets, 16U);
  EXPECT_EQ(adverts(wire, 1).size(), 2U) << "and the target grew a pool";
  EXPECT_EQ(pair.host().conservation().peer_elements, 32U);
}

TEST(PushPool, PUSH_POOL_08_silence_to_a_get_is_no_error) {
  covers("PUSH-POOL-08");
  SessionPairOptions options;
  options.unit.session.pools = {{2048, 8}};
  options.unit.session.limits.pools_per_class = 1;
  SessionPair pair(options);
  EXPECT_EQ(pair.stream(0, 0, 8 * 20, 1000), numbers(0, 8 * 20));
  pair.run(50);
  for (uint32_t i = 0; i < 8; ++i) EXPECT_TRUE(pair.send(0, i, 1000));
  pair.run(50);
  EXPECT_GE(pair.host().counters().get(C::kPoolGetsOut), 1U);
  EXPECT_GE(pair.unit().counters().get(C::kPoolGetsRefused), 1U);
  EXPECT_EQ(pair.receive(1), numbers(0, 8));
  EXPECT_EQ(pair.stream(0, 100, 40, 1000), numbers(100, 40));
  pair.run(50);
  // The pool does not grow later either: for several seconds it is exhausted, asked for, emptied and reused.
  for (uint32_t round = 0; round < 20; ++round) {
    for (uint32_t i = 0; i < 8; ++i) EXPECT_TRUE(pair.send(0, i, 1000));
    pair.run_for(200ms);
    EXPECT_EQ(pair.receive(1), numbers(0, 8));
    pair.run(50);
  }
  EXPECT_GE(pair.host().counters().get(C::kPoolGetsOut), 4U);
  EXPECT_EQ(adverts(read_wire(pair.pipe, 1024), 1).size(), 1U);
  EXPECT_EQ(pair.host().state(), SessionState::kOpen);
}

TEST(PushPool, PUSH_POOL_09_ten_times_the_capacity_flows_without_a_stall) {
  covers("PUSH-POOL-09");
  for (const MessageEncoding encoding : {MessageEncoding::kCapnp, MessageEncoding::kBytes}) {
    for (const uint32_t growth : {1U, 3U}) {
      SessionPairOptions options;
      options.mode(TransferMode::kRdma, encoding).pools({{2048, 4}});
      options.unit.session.limits.pools_per_class = options.host.limits.pools_per_class = growth;
      options.unit.session.frame_bytes_max = options.host.frame_bytes_max = 2000;
      SessionPair pair(options);
      const Instant begin = pair.clock.now();
      EXPECT_EQ(pair.stream(0, 0, 40 * growth, 1500), numbers(0, 40 * growth));
      EXPECT_EQ(pair.stream(1, 0, 40 * growth, 1500), numbers(0, 40 * growth));
      // A renewal that waited for anything but the consumer would take measurable time.
      EXPECT_LT(pair.clock.now() - begin, growth * 10ms);
    }
  }
}

TEST(PushPool, PUSH_POOL_10_the_owner_renews_and_only_what_it_has_advertised) {
  covers("PUSH-POOL-10");
  SessionPair pair;
  EXPECT_EQ(pair.stream(0, 0, 100, 1000), numbers(0, 100));
  EXPECT_EQ(pair.stream(1, 0, 100, 1000), numbers(0, 100));
  const auto wire = read_wire(pair.pipe, 1024);
  for (int from = 0; from < 2; ++from) {
    const auto owned = adverts(wire, from);
    const auto updates = bodies<BufferRecvPoolUpdate>(wire, from);
    ASSERT_FALSE(updates.empty());
    for (const auto& update : updates) {
      for (const PoolRun& run : update.runs) EXPECT_EQ(owned.count(run.pool), 1U);
    }
  }
  // Renewals of a pool that was not advertised, of missing elements and of free elements.
  ScriptedHost host{SessionPairOptions().unit};
  ASSERT_TRUE(host.connect());
  host.advertise(0, 8);
  const auto renew = [&](PoolRun run) {
    BufferRecvPoolUpdate body;
    body.runs.push_back(run);
    host.say({.context = 5, .body = body});
  };
  renew({.pool = 42, .first = 0, .count = 1});
  EXPECT_EQ(host.count(C::kPoolRefUnknown), 1U);
  renew({.pool = 0, .first = 7, .count = 2});
  EXPECT_EQ(host.count(C::kPoolElementRange), 1U);
  renew({.pool = 0, .first = 0, .count = 1});
  EXPECT_EQ(host.count(C::kPoolRenewNotConsumed), 1U);
  EXPECT_EQ(host.unit().state(), SessionState::kOpen);
  EXPECT_EQ(host.unit().conservation().peer_free, 8U);
}

TEST(PushPool, PUSH_POOL_11_an_element_is_not_written_again_before_it_is_renewed) {
  covers("PUSH-POOL-11");
  SessionPairOptions options;
  options.pools({{2048, 6}, {16384, 3}});
  SessionPair pair(options);
  EXPECT_EQ(pair.stream(0, 0, 200, 1500), numbers(0, 200));
  EXPECT_EQ(pair.stream(0, 500, 60, 9000), numbers(500, 60));
  std::map<uint32_t, std::set<uint32_t>> consumed;
  uint32_t again = 0;
  for (const WireItem& item : read_wire(pair.pipe, 1024)) {
    if (item.from == 0 && item.kind == WireKind::kWrite) {
      const PoolElement used = decode_idata(item.idata.value());
      EXPECT_TRUE(consumed[used.pool].insert(used.element).second) << used.pool << "/" << used.element;
    } else if (const auto* update = item.body<BufferRecvPoolUpdate>(); update != nullptr && item.from == 1) {
      for (const PoolRun& run : update->runs) {
        for (uint32_t i = 0; i < run.count; ++i)
          again += static_cast<uint32_t>(consumed[run.pool].erase(run.first + i));
      }
    }
  }
  EXPECT_GT(again, 200U) << "elements were used again";
}

}  // namespace
}  // namespace weft::session
