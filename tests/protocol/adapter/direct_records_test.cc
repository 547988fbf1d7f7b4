// RC over a memory window: the records that a message takes.
#include <gtest/gtest.h>

#include "adapter/transport/direct/direct_requester.h"
#include "messages/window_record.h"
#include "tests/support/direct_pair.h"

namespace weft::test {
using namespace adapter;
namespace {

/// The lengths of the records are those of docs/window.md.
class ShortSends : public ::testing::Test {
 protected:
  static constexpr uint32_t kSlotHead = 16;
  ShortSends() {
    qps = pair.connect({}, {});
    pair.run(20);
    for (uint64_t i = 0; i < 8; ++i)
      EXPECT_EQ(pair.post_recv(1, *qps[1], i, {pair.side(1).sge(2048, 1024)}), PostResult::kOk);
  }
  /// Bytes of the slots that a Send takes.
  std::vector<uint64_t> slots_of(const SendRequest& request, uint32_t bytes) {
    pair.trace(0).trace.clear();
    pair.side(0).fill(0, bytes, static_cast<uint8_t>(bytes));
    EXPECT_EQ(pair.post_send(0, *qps[0], request, {pair.side(0).sge(0, bytes)}), PostResult::kOk);
    pair.run(20);
    std::vector<uint64_t> out;
    for (const fabric::DmaRequest& one : pair.trace(0).requests()) {
      if (one.kind == fabric::DmaKind::kWrite && one.bytes > sizeof(uint64_t)) out.push_back(one.bytes);
    }
    EXPECT_EQ(pair.side(1).bytes_at(2048, bytes), pair.side(0).bytes_at(0, bytes));
    EXPECT_EQ(pair.take_completions(0).size(), 1U);
    const auto received = pair.take_completions(1);
    EXPECT_EQ(received.size(), 1U);
    for (const WorkCompletion& entry : received) EXPECT_EQ(entry.byte_count, bytes);
    return out;
  }
  using Slots = std::vector<uint64_t>;

  DirectPair pair{{.traced = true}};  // slots of 256 bytes
  std::array<QueuePair*, 2> qps{};
};

TEST_F(ShortSends, a_plain_send_that_fits_has_a_short_header) {
  EXPECT_EQ(slots_of({}, 8), Slots{kSlotHead + kShortSendBytes + 8});
  EXPECT_EQ(slots_of({}, 220), Slots{kSlotHead + kShortSendBytes + 220});
  EXPECT_EQ(slots_of({}, 221), (Slots{256, kSlotHead + kWindowRecordBytes + 29})) << "in parts";
  EXPECT_EQ(slots_of({.opcode = SendOpcode::kSendWithImm}, 8), Slots{kSlotHead + kWindowRecordBytes + 8});
}

TEST_F(ShortSends, a_peer_that_does_not_take_them_gets_none) {
  const uint32_t to = pair.side(0).adapter->qpn(*qps[0]).value();
  const uint32_t from = pair.side(1).adapter->qpn(*qps[1]).value();
  const auto ready = encode_window_record(
      {.kind = WindowRecordKind::kReady, .code = kGrantWrite, .sender_life = 1, .receiver_life = 1});
  ASSERT_EQ(pair.end(1).send(to, from, ready, 0), fabric::FifoPost::kOk);
  pair.end(1).flush();
  pair.run(2);
  EXPECT_EQ(slots_of({}, 8), Slots{kSlotHead + kWindowRecordBytes + 8});
}

class WritesAsRecords : public ::testing::Test {
 protected:
  WritesAsRecords() {
    pair.run(20);
    write(SendOpcode::kRdmaWrite, 0, 8);  // the owner shows the key
    pair.run(20);
    EXPECT_EQ(pair.take_completions(0).size(), 1U);
    for (uint64_t i = 0; i < kWrites; ++i)
      EXPECT_EQ(pair.post_recv(1, *qps[1], i, {pair.side(1).sge(kReceives, 64)}), PostResult::kOk);
    pair.trace(0).trace.clear();
  }
  void write(SendOpcode opcode, uint32_t offset, uint32_t bytes) {
    const MemoryRegion& region = pair.side(1).region;
    const uint32_t from = std::min(offset, kReceives);
    EXPECT_EQ(pair.post_send(0, *qps[0],
                             {.opcode = opcode, .remote_addr = region.addr + offset, .rkey = region.rkey},
                             {pair.side(0).sge(from, bytes)}),
              PostResult::kOk);
  }
  static constexpr uint64_t kWrites = 6;
  static constexpr uint32_t kReceives = 8192;  // offset of their buffer
  static constexpr uint32_t kLongFrom = 16384;

  DirectPair pair{{.traced = true}};  // slots of 256 bytes
  std::array<QueuePair*, 2> qps = pair.connect({}, {});
};

TEST_F(WritesAsRecords, with_immediate_data_take_no_round_trip_each) {
  pair.side(0).fill(0, 600, 11);
  for (uint32_t i = 0; i < kWrites; ++i) write(SendOpcode::kRdmaWriteWithImm, 100 * i, 100);
  for (int turn = 0; turn < 4; ++turn) pair.run_one(0);  // the peer answers nothing meanwhile
  pair.run_one(1);
  EXPECT_EQ(pair.take_completions(1).size(), kWrites);
  EXPECT_EQ(pair.side(1).bytes_at(0, 600), pair.side(0).bytes_at(0, 600));
  pair.run(20);
  EXPECT_EQ(pair.take_completions(0).size(), kWrites);
}

/// The slot has a head of 16 bytes, the record one of 48.
TEST_F(WritesAsRecords, with_immediate_data_are_one_record_if_it_has_room) {
  constexpr uint32_t kRoom = 256 - 16 - kWindowRecordBytes;
  for (const uint32_t bytes : {8U, kRoom, kRoom + 1}) {
    pair.trace(0).trace.clear();
    write(SendOpcode::kRdmaWriteWithImm, 512, bytes);
    pair.run(20);
    EXPECT_EQ(pair.take_completions(0).size(), 1U);
    EXPECT_EQ(pair.take_completions(1).size(), 1U);
    bool moved = false;
    for (const fabric::DmaRequest& one : pair.trace(0).requests())
      moved |= one.space == fabric::DmaSpace::kMemory;
    EXPECT_EQ(moved, bytes > kRoom) << bytes;
  }
}

/// Each takes five records, so that the FIFO of 16 slots fills up.
TEST_F(WritesAsRecords, take_as_many_records_as_their_bytes_need) {
  pair.side(0).fill(0, 6000, 12);
  for (uint32_t i = 0; i < kWrites; ++i) write(SendOpcode::kRdmaWriteWithImm, 1000 * i, 1000);
  for (int turn = 0; turn < 4; ++turn) pair.run_one(0);  // the peer answers nothing meanwhile
  pair.run_one(1);
  EXPECT_GE(pair.take_completions(1).size(), 3U);
  pair.run(40);
  EXPECT_EQ(pair.side(1).bytes_at(0, 6000), pair.side(0).bytes_at(0, 6000));
  EXPECT_EQ(pair.take_completions(0).size(), kWrites);
}

TEST_F(WritesAsRecords, wait_if_they_are_long) {
  for (const uint32_t bytes : {kDirectFollowBytes, kDirectFollowBytes + 1}) {
    pair.trace(0).trace.clear();
    EXPECT_EQ(pair.post_send(0, *qps[0], {}, {pair.side(0).sge(0, 8)}), PostResult::kOk);
    write(SendOpcode::kRdmaWrite, kLongFrom, bytes);
    pair.run(1200);
    EXPECT_EQ(pair.take_completions(0).size(), 2U);
    uint64_t longest = 0;
    for (const fabric::DmaRequest& one : pair.trace(0).requests()) longest = std::max(longest, one.bytes);
    EXPECT_EQ(longest, bytes > kDirectFollowBytes ? bytes : 256) << "a slot";
  }
}

TEST_F(WritesAsRecords, leave_no_data_if_the_table_refuses_them) {
  EXPECT_EQ(pair.post_send(0, *qps[0], {}, {pair.side(0).sge(0, 8)}), PostResult::kOk);
  write(SendOpcode::kRdmaWrite, kPairBufferBytes - 32, 64);
  pair.run(20);
  const auto done = pair.take_completions(0);
  ASSERT_EQ(done.size(), 2U);
  EXPECT_EQ(done[1].status, WcStatus::kRemoteAccess);
  for (const fabric::DmaRequest& one : pair.trace(0).requests())
    EXPECT_LE(one.bytes, 16 + kWindowRecordBytes) << "a record without data";
}

/// A segment is looked up when its request begins. A region that ends later must not be read by that look-up.
TEST(DirectRegions, a_send_whose_region_ends_while_it_waits_for_room_fails) {
  DirectPair pair;
  const auto qps = pair.connect({}, {});
  pair.run(20);
  auto& regions = pair.side(0).adapter->memory().regions;
  const MemoryRegion region =
      regions.reg_mr(pair.side(0).pd, pair.side(0).memory, Access::kLocalWrite).value();
  ASSERT_EQ(pair.post_recv(1, *qps[1], 1, {pair.side(1).sge(0, 8192)}), PostResult::kOk);
  ASSERT_EQ(pair.post_send(0, *qps[0], {}, {{.addr = region.addr, .length = 8192, .lkey = region.lkey}}),
            PostResult::kOk);
  pair.run_one(0);  // fills the FIFO
  ASSERT_TRUE(regions.dereg_mr(region.lkey).ok());
  pair.run(20);
  const auto done = pair.take_completions(0);
  ASSERT_EQ(done.size(), 1U);
  EXPECT_EQ(done[0].status, WcStatus::kLocalProtection);
}

TEST(DirectRegions, a_receive_whose_region_has_ended_fails_although_an_earlier_one_used_it) {
  DirectPair pair;
  const auto qps = pair.connect({}, {});
  pair.run(20);
  auto& regions = pair.side(1).adapter->memory().regions;
  const MemoryRegion region =
      regions.reg_mr(pair.side(1).pd, pair.side(1).memory, Access::kLocalWrite).value();
  for (uint64_t i = 0; i < 2; ++i) {
    ASSERT_EQ(pair.post_recv(1, *qps[1], i, {{.addr = region.addr, .length = 64, .lkey = region.lkey}}),
              PostResult::kOk);
  }
  ASSERT_EQ(pair.post_send(0, *qps[0], {}, {pair.side(0).sge(0, 8)}), PostResult::kOk);
  pair.run(20);
  ASSERT_EQ(pair.take_completions(1).size(), 1U);
  ASSERT_TRUE(regions.dereg_mr(region.lkey).ok());
  ASSERT_EQ(pair.post_send(0, *qps[0], {}, {pair.side(0).sge(0, 8)}), PostResult::kOk);
  pair.run(20);
  const auto received = pair.take_completions(1);
  ASSERT_EQ(received.size(), 1U);
  EXPECT_EQ(received[0].status, WcStatus::kLocalProtection);
}

}  // namespace
}  // namespace weft::test
