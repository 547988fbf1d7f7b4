// Receive WQEs by slot: who took one completes it, in whatever order the takers end.
#include "adapter/queues/recv_queue.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace weft::test {
using namespace adapter;
namespace {

class RecvQueueTest : public ::testing::Test {
 protected:
  void post(uint64_t first, uint64_t last) {
    for (uint64_t id = first; id <= last; ++id) {
      ASSERT_FALSE(queue.full());
      const Sge sge{.addr = id * 0x100, .length = static_cast<uint32_t>(id)};
      queue.post({.wr_id = id, .sges = {&sge, 1}});
    }
  }
  /// What is left to be taken, oldest first.
  std::vector<uint64_t> drain() {
    std::vector<uint64_t> ids;
    RecvSlots mine;
    while (!queue.empty()) {
      (void)queue.take(mine);
      ids.push_back(queue.finish(mine));
    }
    return ids;
  }
  using Ids = std::vector<uint64_t>;

  RecvQueue queue{4, 2, PdId(1)};
};

TEST_F(RecvQueueTest, takers_end_in_any_order_and_slots_serve_again) {
  post(1, 4);
  EXPECT_TRUE(queue.full());
  ASSERT_TRUE(queue.announce());
  RecvSlots a, b;
  const RecvSlot first = queue.take(a);
  const RecvSlot second = queue.take(b);
  (void)queue.take(a);
  EXPECT_EQ(queue.finish(b), 2U);  // before the older one
  EXPECT_FALSE(queue.full());
  post(5, 5);  // in the slot that has become free, while the others stay what they are
  ASSERT_TRUE(queue.announce());
  EXPECT_EQ(queue.at(second).wr_id, 5U);
  EXPECT_EQ(queue.at(first).wr_id, 1U);
  EXPECT_EQ(queue.at(first).bytes, 1U);
  EXPECT_EQ(queue.sges(first)->addr, 0x100U);
  EXPECT_TRUE(queue.full());
  EXPECT_EQ(queue.finish(a), 1U);
  EXPECT_EQ(queue.finish(a), 3U);
  EXPECT_TRUE(a.empty());
  EXPECT_EQ(drain(), (Ids{4, 5}));
}

TEST_F(RecvQueueTest, what_the_doorbell_has_not_announced_is_not_there) {
  post(1, 2);
  EXPECT_TRUE(queue.empty());
  ASSERT_TRUE(queue.announce());
  EXPECT_FALSE(queue.announce());
  post(3, 3);
  EXPECT_EQ(queue.fill(), 2U);
  EXPECT_EQ(drain(), (Ids{1, 2}));
  ASSERT_TRUE(queue.announce());
  EXPECT_EQ(drain(), (Ids{3}));
}

TEST_F(RecvQueueTest, what_is_given_back_is_the_oldest_again) {
  post(1, 4);
  ASSERT_TRUE(queue.announce());
  RecvSlots mine, other;
  (void)queue.take(mine);
  (void)queue.take(other);
  (void)queue.take(mine);
  queue.give_back(mine);
  EXPECT_TRUE(mine.empty());
  EXPECT_EQ(queue.fill(), 3U);
  EXPECT_EQ(drain(), (Ids{1, 3, 4}));
  // Also into a queue that has become empty, and what is posted then comes behind it.
  queue.give_back(other);
  post(9, 9);
  ASSERT_TRUE(queue.announce());
  EXPECT_EQ(drain(), (Ids{2, 9}));
  queue.give_back(mine);  // nothing
  EXPECT_TRUE(queue.empty());
}

TEST_F(RecvQueueTest, a_flush_ends_announced_and_unannounced_ones_in_order_but_not_what_is_taken) {
  post(1, 2);
  ASSERT_TRUE(queue.announce());
  post(3, 4);
  RecvSlots mine;
  (void)queue.take(mine);
  Ids ids;
  for (uint64_t id = 0; queue.flush_one(id);) ids.push_back(id);
  EXPECT_EQ(ids, (Ids{2, 3, 4}));
  EXPECT_TRUE(queue.empty());
  EXPECT_FALSE(queue.announce());
  EXPECT_EQ(queue.finish(mine), 1U);
}

TEST_F(RecvQueueTest, another_size_keeps_what_is_queued_and_taken) {
  post(1, 3);
  ASSERT_TRUE(queue.announce());
  RecvSlots mine;
  const RecvSlot slot = queue.take(mine);
  RecvRoom none;
  EXPECT_FALSE(queue.resize(2, none));  // three are in use
  ASSERT_TRUE(queue.resize(3, none));
  EXPECT_TRUE(queue.full());
  EXPECT_FALSE(queue.resize(6, none)) << "there is no memory for it";
  RecvRoom room = RecvQueue::room_for(6, queue.sges_max());
  ASSERT_TRUE(queue.resize(6, room));
  EXPECT_LT(room.wqes, 6U) << "what they stood in is the caller's";
  post(4, 6);
  EXPECT_TRUE(queue.full());
  ASSERT_TRUE(queue.announce());
  EXPECT_EQ(queue.at(slot).wr_id, 1U);
  EXPECT_EQ(queue.sges(slot)->addr, 0x100U);
  EXPECT_EQ(queue.finish(mine), 1U);
  EXPECT_EQ(drain(), (Ids{2, 3, 4, 5, 6}));
}

TEST_F(RecvQueueTest, the_smallest_size_is_that_of_what_is_in_use) {
  post(1, 3);
  ASSERT_TRUE(queue.announce());
  RecvSlots mine;
  (void)queue.take(mine);
  RecvRoom none;
  ASSERT_TRUE(queue.resize(3, none)) << "two are posted and one is taken";
  EXPECT_TRUE(queue.full());
  EXPECT_EQ(queue.finish(mine), 1U);
  EXPECT_FALSE(queue.full());
  ASSERT_TRUE(queue.resize(2, none));
  EXPECT_TRUE(queue.full());
  EXPECT_FALSE(queue.resize(1, none));
}

/// Slots and segments move into the memory that was brought, and the old memory is given back in its place.
TEST_F(RecvQueueTest, a_queue_that_grows_has_segments_for_all_its_slots) {
  post(1, 4);
  const Sge* before = queue.sges(0);
  RecvRoom room = RecvQueue::room_for(8, queue.sges_max());
  const Sge* brought = room.sges.get();
  ASSERT_TRUE(queue.resize(8, room));
  EXPECT_EQ(queue.sges(0), brought);
  EXPECT_EQ(room.sges.get(), before);
  EXPECT_EQ(room.wqes, 4U);
  for (RecvSlot slot = 0; slot < 4; ++slot) EXPECT_EQ(queue.sges(slot)->addr, (slot + 1) * 0x100U);
}

/// A second life: what was free before the queue was cleared is free, and no slot twice.
TEST_F(RecvQueueTest, a_cleared_queue_begins_anew) {
  for (int life = 0; life < 3; ++life) {
    post(1, 4);
    ASSERT_TRUE(queue.announce());
    RecvSlots mine;
    (void)queue.take(mine);
    (void)queue.take(mine);
    EXPECT_EQ(queue.finish(mine), 1U);
    EXPECT_EQ(queue.finish(mine), 2U);
    post(5, 5);  // one of the two is used again
    queue.clear();
    EXPECT_TRUE(queue.empty());
    EXPECT_FALSE(queue.full());
    EXPECT_FALSE(queue.announce());
  }
  post(1, 4);
  EXPECT_TRUE(queue.full());
  ASSERT_TRUE(queue.announce());
  EXPECT_EQ(drain(), (Ids{1, 2, 3, 4}));
}

/// What was taken is announced when it comes back: it needs no further doorbell.
TEST_F(RecvQueueTest, what_is_given_back_is_announced_exactly) {
  post(1, 2);
  ASSERT_TRUE(queue.announce());
  RecvSlots mine;
  (void)queue.take(mine);
  (void)queue.take(mine);
  EXPECT_TRUE(queue.empty());
  queue.give_back(mine);
  EXPECT_EQ(queue.fill(), 2U);
  post(3, 3);
  EXPECT_EQ(queue.fill(), 2U) << "without a doorbell";
  EXPECT_EQ(drain(), (Ids{1, 2}));
}

}  // namespace
}  // namespace weft::test
