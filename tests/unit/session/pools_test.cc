// The two views of a pool, the send ring and the bounded queue, without an adapter.
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <deque>

#include "adapter/queues/send_ring.h"
#include "base/fixed_ring.h"
#include "base/rng.h"
#include "session/buffer_recv_pool.h"
#include "session/remote_pool.h"

namespace weft::session {
namespace {

RecvPool make_pool(uint32_t elements = 4, uint32_t element_bytes = 256) {
  RecvPool pool({.reference = 7, .elements = elements, .element_bytes = element_bytes, .context = 3},
                PoolMemory::allocate(size_t{elements} * element_bytes));
  pool.expose(Rkey(0xA01), 0x100000, Lkey(5));
  return pool;
}

TEST(RecvPool, an_element_goes_round) {
  RecvPool pool = make_pool();
  EXPECT_EQ(pool.exposed(), 4U);
  pool.indicate(2);
  EXPECT_EQ(pool.exposed() + pool.indicated(), 4U);
  EXPECT_EQ(pool.check_write({7, 2, 256}, 0x100200, 100), IndicationFault::kElementNotFree);
  PoolRun run;
  EXPECT_FALSE(pool.take_run(run));
  pool.free_element(2);
  EXPECT_EQ(pool.check_write({7, 2, 256}, 0x100200, 100), IndicationFault::kElementNotFree)
      << "not yet renewed";
  ASSERT_TRUE(pool.take_run(run));
  EXPECT_EQ(run, (PoolRun{.pool = 7, .first = 2, .count = 1}));
  EXPECT_EQ(pool.check_write({7, 2, 256}, 0x100200, 100), IndicationFault::kNone);
}

TEST(RecvPool, freed_elements_that_follow_each_other_are_one_run) {
  RecvPool pool = make_pool(8);
  for (uint32_t i = 0; i < 8; ++i) pool.indicate(i);
  for (const uint32_t i : {0U, 1U, 2U, 5U, 6U, 3U}) pool.free_element(i);
  PoolRun run;
  std::vector<PoolRun> runs;
  while (pool.take_run(run)) runs.push_back(run);
  EXPECT_EQ(runs, (std::vector<PoolRun>{{7, 0, 3}, {7, 5, 2}, {7, 3, 1}}));
  EXPECT_EQ(pool.exposed(), 6U);
  EXPECT_EQ(pool.indicated(), 2U);
}

TEST(RecvPool, every_fault_has_its_name) {
  RecvPool pool = make_pool();
  EXPECT_EQ(pool.check_write({7, 4, 256}, 0x100400, 1), IndicationFault::kElementRange);
  EXPECT_EQ(pool.check_write({7, 1, 512}, 0x100100, 1), IndicationFault::kSizeWrong);
  EXPECT_EQ(pool.check_write({7, 1, 256}, 0x100101, 1), IndicationFault::kAddressWrong);
  EXPECT_EQ(pool.check_write({7, 1, 256}, 0x100100, 257), IndicationFault::kTooLong);
  EXPECT_EQ(pool.check_write({7, 1, 256}, 0x100100, 256), IndicationFault::kNone);
  EXPECT_EQ(pool.check_indication({.pool = 7, .element = 1, .element_bytes = 256, .data_bytes = 300}),
            IndicationFault::kTooLong);
  EXPECT_EQ(pool.check_indication({.pool = 7, .element = 1, .element_bytes = 256, .data_bytes = 257}),
            IndicationFault::kTooLong);
  EXPECT_EQ(pool.check_indication({.pool = 7, .element = 1, .element_bytes = 256, .data_bytes = 256}),
            IndicationFault::kNone);
  pool.indicate(1);
  pool.retire();
  EXPECT_EQ(pool.check_write({7, 2, 256}, 0x100200, 1), IndicationFault::kFlushed);
  pool.free_element(1);
  PoolRun run;
  EXPECT_FALSE(pool.take_run(run)) << "nothing of a retired pool is renewed";
}

PoolAdvert advert(uint32_t reference, uint32_t elements, uint32_t element_bytes) {
  return {.pool = reference,
          .elements = elements,
          .element_bytes = element_bytes,
          .handle = Rkey(reference + 1),
          .address = uint64_t{reference} << 32,
          .context = 0};
}

TEST(RemotePools, oldest_first_from_the_smallest_that_fits) {
  RemotePools pools(8, 1000);
  ASSERT_EQ(pools.add(advert(2, 2, 4096)), RemotePoolFault::kNone);
  ASSERT_EQ(pools.add(advert(0, 2, 512)), RemotePoolFault::kNone);
  RemoteElement out;
  ASSERT_TRUE(pools.take(100, out));
  EXPECT_EQ(out.pool, 0U);
  EXPECT_EQ(out.element, 0U);
  ASSERT_TRUE(pools.take(600, out));
  EXPECT_EQ(out.pool, 2U);
  EXPECT_EQ(out.address, uint64_t{2} << 32);
  ASSERT_TRUE(pools.take(512, out));
  EXPECT_EQ(out.element, 1U);
  ASSERT_TRUE(pools.take(10, out)) << "the small ones are used up";
  EXPECT_EQ(out.pool, 2U);
  EXPECT_EQ(out.address, (uint64_t{2} << 32) + 4096);
  EXPECT_FALSE(pools.take(10, out));
  uint32_t renewed = 0;
  EXPECT_EQ(pools.renew({.pool = 0, .first = 1, .count = 1}, renewed), RemotePoolFault::kNone);
  EXPECT_EQ(pools.renew({.pool = 0, .first = 0, .count = 0}, renewed), RemotePoolFault::kNone);
  ASSERT_TRUE(pools.take(10, out));
  EXPECT_EQ(out.element, 1U) << "renewed first";
  EXPECT_FALSE(pools.take(513, out));
}

TEST(RemotePools, limits_and_faults) {
  RemotePools pools(2, 10);
  EXPECT_EQ(pools.add(advert(0, 8, 64)), RemotePoolFault::kNone);
  EXPECT_EQ(pools.add(advert(0, 1, 64)), RemotePoolFault::kTaken);
  EXPECT_EQ(pools.add(advert(2, 3, 64)), RemotePoolFault::kLimit);
  EXPECT_EQ(pools.add(advert(2, 2, 64)), RemotePoolFault::kNone);
  EXPECT_EQ(pools.add(advert(4, 1, 64)), RemotePoolFault::kLimit);
  uint32_t renewed = 0;
  EXPECT_EQ(pools.renew({.pool = 9, .first = 0, .count = 1}, renewed), RemotePoolFault::kUnknown);
  EXPECT_EQ(pools.renew({.pool = 0, .first = 8, .count = 1}, renewed), RemotePoolFault::kRange);
  EXPECT_EQ(pools.renew({.pool = 0, .first = 1, .count = 8}, renewed), RemotePoolFault::kRange);
  EXPECT_EQ(pools.renew({.pool = 0, .first = 1, .count = UINT32_MAX}, renewed), RemotePoolFault::kRange);
  EXPECT_EQ(pools.renew({.pool = 0, .first = 0, .count = 8}, renewed), RemotePoolFault::kNotConsumed);
  EXPECT_EQ(renewed, 0U);
  EXPECT_TRUE(pools.remove(0));
  EXPECT_FALSE(pools.remove(0));
  EXPECT_EQ(pools.elements(), 2U);
}

TEST(RemotePools, a_renewal_goes_as_far_as_what_was_used) {
  RemotePools pools(2, 10);
  ASSERT_EQ(pools.add(advert(0, 8, 64)), RemotePoolFault::kNone);
  RemoteElement element;
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(pools.take(64, element));
  uint32_t renewed = 0;
  EXPECT_EQ(pools.renew({.pool = 0, .first = 1, .count = 7}, renewed), RemotePoolFault::kNotConsumed);
  EXPECT_EQ(renewed, 2U);
  EXPECT_EQ(pools.renew({.pool = 0, .first = 0, .count = 0}, renewed), RemotePoolFault::kNone);
  EXPECT_EQ(renewed, 1U);
  EXPECT_EQ(pools.free(), 8U);
  EXPECT_EQ(pools.renew({.pool = 0, .first = 0, .count = 0}, renewed), RemotePoolFault::kNotConsumed);
  EXPECT_EQ(renewed, 0U);
}

/// One less, exactly as much, one more; and a pool that was removed makes room for one of its size.
TEST(RemotePools, of_equal_pools_the_first_learnt_is_used_first) {
  RemotePools pools(8, 1000);
  for (const uint32_t reference : {0U, 256U, 512U})
    ASSERT_EQ(pools.add(advert(reference, 1, 512)), RemotePoolFault::kNone);
  for (const uint32_t reference : {0U, 256U, 512U}) {
    RemoteElement out;
    ASSERT_TRUE(pools.take(100, out));
    EXPECT_EQ(out.pool, reference);
  }
}

uint64_t page_faults() {
  rusage used{};
  EXPECT_EQ(getrusage(RUSAGE_SELF, &used), 0);
  return static_cast<uint64_t>(used.ru_minflt);
}

/// A peer may advertise and flush large pools as often as it likes. Each time their memory is new to the
/// process, so a write to it would be a page fault.
TEST(RemotePools, to_learn_a_pool_is_no_work_for_each_of_its_elements) {
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
  GTEST_SKIP() << "the sanitizer's allocator touches the memory that it gives";
#endif
#endif
  constexpr int kTimes = 100;
  constexpr size_t kBytes = kPoolElementsMax * sizeof(uint32_t);
  ASSERT_EQ(mallopt(M_MMAP_THRESHOLD, 64 << 10), 1);
  const uint64_t before = page_faults();
  for (int i = 0; i < kTimes; ++i) {
    RemotePools pools(2, 2 * kPoolElementsMax);
    for (const uint32_t reference : {0U, 2U})
      ASSERT_EQ(pools.add(advert(reference, kPoolElementsMax, 64)), RemotePoolFault::kNone);
    ASSERT_EQ(pools.free(), 2 * kPoolElementsMax);
    ASSERT_TRUE(pools.remove(0));
  }
  const size_t pages = 2 * kBytes / static_cast<size_t>(sysconf(_SC_PAGESIZE));
  EXPECT_LT(page_faults() - before, kTimes * pages / 2);
}

/// The elements are taken in their order, then in that of their renewal, however many there are.
TEST(RemotePools, of_many_elements_each_is_free_or_in_use) {
  constexpr uint32_t kElements = 200;  // bits of four words, the last one not full
  RemotePools pools(1, kElements);
  ASSERT_EQ(pools.add(advert(0, kElements, 64)), RemotePoolFault::kNone);
  std::deque<uint32_t> expected;
  for (uint32_t i = 0; i < kElements; ++i) expected.push_back(i);
  std::vector<uint32_t> used;
  SeededRandom random(4);
  uint32_t renewed = 0;
  for (int round = 0; round < 20'000; ++round) {
    RemoteElement element;
    ASSERT_EQ(pools.take(64, element), !expected.empty());
    if (!expected.empty()) {
      ASSERT_EQ(element.element, expected.front());
      expected.pop_front();
      used.push_back(element.element);
    }
    if (random.below(2) == 0) {
      const size_t index = random.below(used.size());
      ASSERT_EQ(pools.renew({.pool = 0, .first = used[index], .count = 1}, renewed), RemotePoolFault::kNone);
      ASSERT_EQ(pools.renew({.pool = 0, .first = used[index], .count = 1}, renewed),
                RemotePoolFault::kNotConsumed);
      expected.push_back(used[index]);
      used.erase(used.begin() + static_cast<ptrdiff_t>(index));
    }
    if (random.below(300) == 0 && !used.empty()) {
      ASSERT_EQ(pools.renew({.pool = 0, .first = 0, .count = 0}, renewed), RemotePoolFault::kNone);
      ASSERT_EQ(renewed, used.size());
      std::sort(used.begin(), used.end());
      expected.insert(expected.end(), used.begin(), used.end());
      used.clear();
    }
    ASSERT_EQ(pools.free(), expected.size());
    ASSERT_EQ(pools.consumed(), used.size());
  }
}

TEST(RemotePools, a_class_is_low_when_less_than_a_quarter_is_free) {
  RemotePools pools(8, 1000);
  ASSERT_EQ(pools.add(advert(0, 8, 512)), RemotePoolFault::kNone);
  RemoteElement element;
  for (int i = 0; i < 6; ++i) ASSERT_TRUE(pools.take(100, element));
  BufferRecvPoolGet wish;
  EXPECT_FALSE(pools.running_low(wish)) << "two of eight are free";
  ASSERT_TRUE(pools.take(100, element));
  ASSERT_TRUE(pools.running_low(wish));
  EXPECT_EQ(wish.packet_bytes, 512U);
  EXPECT_EQ(wish.packets, 8U);
}

TEST(RemotePools, limits_are_of_exact_size_and_removed_pools_give_back) {
  RemotePools pools(2, 10);
  ASSERT_EQ(pools.add(advert(0, 6, 64)), RemotePoolFault::kNone);
  EXPECT_EQ(pools.add(advert(256, 5, 64)), RemotePoolFault::kLimit);
  for (int life = 0; life < 3; ++life) {
    ASSERT_EQ(pools.add(advert(256, 4, 128)), RemotePoolFault::kNone) << life;
    RemoteElement element;
    ASSERT_TRUE(pools.take(128, element));
    EXPECT_EQ(element.pool, 256U);
    EXPECT_EQ(pools.free(), 9U);
    EXPECT_TRUE(pools.remove(256));
    EXPECT_EQ(pools.free(), 6U);
    EXPECT_EQ(pools.consumed(), 0U);
  }
  RemoteElement element;
  for (int i = 0; i < 6; ++i) ASSERT_TRUE(pools.take(64, element));
  uint32_t renewed = 0;
  EXPECT_EQ(pools.renew({.pool = 0, .first = 4, .count = 3}, renewed), RemotePoolFault::kRange);
  EXPECT_EQ(pools.renew({.pool = 0, .first = 6, .count = 1}, renewed), RemotePoolFault::kRange);
  EXPECT_EQ(pools.renew({.pool = 0, .first = 4, .count = 2}, renewed), RemotePoolFault::kNone);
  EXPECT_EQ(renewed, 2U);
  EXPECT_EQ(pools.renew({.pool = 0, .first = 0, .count = 4}, renewed), RemotePoolFault::kNone);
  EXPECT_EQ(pools.free(), 6U);
}

TEST(RemotePools, a_direction_uses_idata_only_when_every_pool_fits) {
  RemotePools pools(8, 1000);
  ASSERT_EQ(pools.add(advert(255, 2, 512)), RemotePoolFault::kNone);
  EXPECT_TRUE(pools.all_by_idata());
  ASSERT_EQ(pools.add(advert(256, 2, 512)), RemotePoolFault::kNone);
  EXPECT_FALSE(pools.all_by_idata());
}

/// Frames of random length, in and out, never overlap and come back in order.
TEST(SendRing, pieces_never_overlap) {
  std::vector<std::byte> memory(64 * 1024);
  adapter::SendRing ring;
  ring.reset(memory);
  SeededRandom random(9);
  struct Piece {
    std::byte* at;
    uint32_t bytes;
    uint64_t position;
    std::byte mark;
  };
  std::deque<Piece> pieces;
  uint32_t refused = 0;
  for (int round = 0; round < 20000; ++round) {
    const auto claim = static_cast<uint32_t>(1 + random.below(9000));
    std::byte* at = ring.claim(claim);
    if (at == nullptr) {
      ++refused;
      ASSERT_FALSE(pieces.empty());
    } else {
      ASSERT_GE(at, memory.data());
      ASSERT_LE(at + claim, memory.data() + memory.size());
      const auto bytes = static_cast<uint32_t>(1 + random.below(claim));
      const auto mark = static_cast<std::byte>(round);
      std::fill_n(at, bytes, mark);
      pieces.push_back({at, bytes, ring.commit(bytes), mark});
    }
    while (!pieces.empty() && (at == nullptr || random.below(3) == 0)) {
      const Piece& piece = pieces.front();
      for (uint32_t i = 0; i < piece.bytes; ++i) ASSERT_EQ(piece.at[i], piece.mark);
      ring.release(piece.position);
      pieces.pop_front();
      at = memory.data();
    }
  }
  EXPECT_GT(refused, 10U);
}

TEST(FixedRing, keeps_order_and_refuses_when_full) {
  FixedRing<int> ring;
  ring.reset(3);
  for (int turn = 0; turn < 5; ++turn) {
    EXPECT_TRUE(ring.push(1) && ring.push(2) && ring.push(3));
    EXPECT_FALSE(ring.push(4));
    EXPECT_EQ(ring.at(1), 2);
    ring.pop();
    EXPECT_EQ(ring.front(), 2);
    ring.pop_back();
    EXPECT_EQ(ring.back(), 2);
    ring.clear();
  }
}

}  // namespace
}  // namespace weft::session
