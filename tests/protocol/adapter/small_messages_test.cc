// Messages of one cell that arrive in order are executed at once, and both ends remember the range of the
// last
// message's key. When such a range ends, the next message gets all checks again.
#include <gtest/gtest.h>

#include <array>
#include <span>
#include <vector>

#include "adapter/memory/known_range.h"
#include "tests/support/adapter_pair.h"

namespace weft::test {
using namespace adapter;
namespace {

constexpr uint32_t kMessageBytes = 8;

class SmallMessages : public ::testing::Test {
 protected:
  MemoryTable& table(int index) { return pair.side(index).adapter->memory(); }
  Rkey key_over(uint64_t offset, uint64_t bytes, Access access = Access::kRemoteWrite) {
    PairSide& far = pair.side(1);
    const Rkey key = table(1).windows.alloc_rkey(far.pd).value();
    bind(key, offset, bytes, access);
    return key;
  }
  void bind(Rkey key, uint64_t offset, uint64_t bytes, Access access = Access::kRemoteWrite) {
    PairSide& far = pair.side(1);
    ASSERT_EQ(
        table(1).windows.bind_rkey(far.pd, {key, far.region.lkey, far.region.addr + offset, bytes, access}),
        AccessFault::kNone);
  }
  /// @return the status of a write to `offset` of the far buffer
  WcStatus write(Rkey key, uint32_t offset, uint32_t bytes = kMessageBytes) {
    return write_from(pair.side(0).sge(offset, bytes), key, offset);
  }
  WcStatus write_from(const Sge& sge, Rkey key, uint32_t offset) {
    pair.side(0).completions.clear();
    pair.side(0).fill(offset, sge.length, static_cast<uint8_t>(offset + 1));
    EXPECT_EQ(pair.side(0).adapter->post_send(*qps[0], {.opcode = SendOpcode::kRdmaWrite,
                                                        .sges = {&sge, 1},
                                                        .remote_addr = pair.side(1).region.addr + offset,
                                                        .rkey = key}),
              PostResult::kOk);
    pair.run(50);
    return pair.side(0).completions.empty() ? WcStatus::kGeneral : pair.side(0).completions.front().status;
  }
  void expect_written(uint32_t offset) {
    EXPECT_EQ(pair.side(1).bytes_at(offset, kMessageBytes), pair.side(0).bytes_at(offset, kMessageBytes));
  }
  void expect_untouched(uint32_t offset) {
    EXPECT_EQ(pair.side(1).bytes_at(offset, kMessageBytes), std::vector<std::byte>(kMessageBytes));
  }

  AdapterPair pair;
  std::array<QueuePair*, 2> qps = pair.connect({});
};

TEST_F(SmallMessages, stay_within_the_range_of_the_key_that_the_last_one_named) {
  const Rkey key = key_over(64, 64);
  EXPECT_EQ(write(key, 64), WcStatus::kSuccess);
  EXPECT_EQ(write(key, 120), WcStatus::kSuccess);
  expect_written(64);
  expect_written(120);
  EXPECT_EQ(write(key, 121), WcStatus::kRemoteAccess);
  expect_untouched(128);
}

TEST_F(SmallMessages, do_not_reach_below_the_range) {
  const Rkey key = key_over(64, 64);
  EXPECT_EQ(write(key, 64), WcStatus::kSuccess);
  EXPECT_EQ(write(key, 56), WcStatus::kRemoteAccess);
  expect_untouched(56);
}

TEST_F(SmallMessages, under_another_key_have_its_range) {
  const Rkey wide = key_over(0, 4096);
  const Rkey narrow = key_over(0, 64);
  EXPECT_EQ(write(wide, 128), WcStatus::kSuccess);
  EXPECT_EQ(write(narrow, 136), WcStatus::kRemoteAccess);
  expect_untouched(136);
}

TEST_F(SmallMessages, under_a_key_that_was_unbound_write_nothing) {
  const Rkey key = key_over(0, 4096);
  EXPECT_EQ(write(key, 0), WcStatus::kSuccess);
  ASSERT_EQ(table(1).windows.unbind_rkey(pair.side(1).pd, key), AccessFault::kNone);
  EXPECT_EQ(write(key, 64), WcStatus::kRemoteAccess);
  expect_untouched(64);
}

TEST_F(SmallMessages, under_a_key_that_was_bound_elsewhere_go_there_alone) {
  const Rkey key = key_over(0, 4096);
  EXPECT_EQ(write(key, 0), WcStatus::kSuccess);
  ASSERT_EQ(table(1).windows.unbind_rkey(pair.side(1).pd, key), AccessFault::kNone);
  bind(key, 8192, 4096);
  EXPECT_EQ(write(key, 8192), WcStatus::kSuccess);
  expect_written(8192);
  EXPECT_EQ(write(key, 64), WcStatus::kRemoteAccess);
  expect_untouched(64);
}

TEST_F(SmallMessages, use_a_one_shot_key_up) {
  const Rkey key = key_over(0, 4096, Access::kRemoteWrite | Access::kOneShot);
  EXPECT_EQ(write(key, 0), WcStatus::kSuccess);
  EXPECT_EQ(write(key, 64), WcStatus::kRemoteAccess);
  expect_untouched(64);
}

TEST_F(SmallMessages, need_the_right_of_the_queue_pair_each_time) {
  const Rkey key = key_over(0, 4096);
  EXPECT_EQ(write(key, 0), WcStatus::kSuccess);
  QpAttr attr;
  attr.access = Access::kRemoteRead;
  ASSERT_EQ(pair.side(1).adapter->modify_qp(*qps[1], attr, kQpAttrAccess), ModifyResult::kOk);
  EXPECT_EQ(write(key, 64), WcStatus::kRemoteInvalidRequest);
  expect_untouched(64);
}

TEST_F(SmallMessages, of_a_region_that_has_ended_do_not_leave) {
  PairSide& near = pair.side(0);
  const MemoryRegion own = table(0).regions.reg_mr(near.pd, near.memory, Access::kLocalWrite).value();
  const Rkey key = key_over(0, 4096);
  EXPECT_EQ(write_from({own.addr, kMessageBytes, own.lkey}, key, 0), WcStatus::kSuccess);
  ASSERT_TRUE(table(0).regions.dereg_mr(own.lkey).ok());
  EXPECT_EQ(write_from({own.addr + 64, kMessageBytes, own.lkey}, key, 64), WcStatus::kLocalProtection);
  expect_untouched(64);
}

TEST_F(SmallMessages, stay_within_the_region_of_the_last_one) {
  PairSide& near = pair.side(0);
  const std::span<std::byte> part(near.memory.data() + 64, 64);
  const MemoryRegion own = table(0).regions.reg_mr(near.pd, part, Access::kLocalWrite).value();
  const Rkey key = key_over(0, 4096);
  EXPECT_EQ(write_from({own.addr, kMessageBytes, own.lkey}, key, 64), WcStatus::kSuccess);
  expect_written(64);
  EXPECT_EQ(write_from({own.addr + 57, kMessageBytes, own.lkey}, key, 121), WcStatus::kLocalProtection);
  expect_untouched(121);
}

TEST_F(SmallMessages, fill_receives_in_their_order_and_none_beyond_its_length) {
  PairSide& far = pair.side(1);
  for (uint32_t i = 0; i < 3; ++i)
    ASSERT_EQ(pair.post_recv(1, *qps[1], 10 + i, {far.sge(i * 64, i == 2 ? 4 : 16)}), PostResult::kOk);
  for (uint32_t i = 0; i < 3; ++i) {
    pair.side(0).fill(i * 64, kMessageBytes, static_cast<uint8_t>(i + 1));
    const Sge sge = pair.side(0).sge(i * 64, kMessageBytes);
    ASSERT_EQ(pair.side(0).adapter->post_send(*qps[0], {.sges = {&sge, 1}}), PostResult::kOk);
  }
  pair.run(50);
  ASSERT_EQ(far.completions.size(), 3U);
  for (uint32_t i = 0; i < 3; ++i) EXPECT_EQ(far.completions[i].wr_id, 10 + i);
  EXPECT_EQ(far.completions[0].status, WcStatus::kSuccess);
  EXPECT_EQ(far.completions[1].byte_count, kMessageBytes);
  EXPECT_EQ(far.completions[2].status, WcStatus::kLocalLength);
  expect_written(0);
  expect_written(64);
  expect_untouched(128);
}

TEST(KnownRange, answers_for_its_key_its_bytes_and_its_revision_only) {
  std::vector<std::byte> memory(64);
  KnownRange known;
  EXPECT_EQ(known.find(0, 0, 0, 1), nullptr) << "nothing is known";
  known.learn({.at = memory.data(), .room = 64}, 7, 1000, 3);
  EXPECT_EQ(known.find(7, 1000, 64, 3), memory.data());
  EXPECT_EQ(known.find(7, 1063, 1, 3), memory.data() + 63);
  EXPECT_EQ(known.find(7, 1063, 2, 3), nullptr);
  EXPECT_EQ(known.find(7, 999, 1, 3), nullptr);
  EXPECT_EQ(known.find(7, 1000, ~uint64_t{0}, 3), nullptr);
  EXPECT_EQ(known.find(8, 1000, 1, 3), nullptr);
  EXPECT_EQ(known.find(7, 1000, 1, 4), nullptr);
}

}  // namespace
}  // namespace weft::test
