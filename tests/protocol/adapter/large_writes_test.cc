// The middle cells of a write are placed at once while they arrive in order. Each cell is checked against the
// current binding of the key, not against its binding at the first cell.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "tests/support/built_cells.h"

namespace weft::test {
using namespace adapter;
namespace {

constexpr uint32_t kCell = 256;
constexpr uint32_t kBytes = 6 * kCell;
constexpr Access kBothWays = Access::kLocalWrite | Access::kRemoteRead | Access::kRemoteWrite;

class LargeWrites : public ::testing::Test {
 protected:
  MemoryTable& table() { return pair.side(1).adapter->memory(); }
  Rkey key_over(uint64_t bytes, Access access = Access::kRemoteWrite) {
    const Rkey key = table().windows.alloc_rkey(pair.side(1).pd).value();
    bind(key, 0, bytes, access);
    return key;
  }
  void bind(Rkey key, uint64_t offset, uint64_t bytes, Access access = Access::kRemoteWrite) {
    PairSide& far = pair.side(1);
    ASSERT_EQ(
        table().windows.bind_rkey(far.pd, {key, far.region.lkey, far.region.addr + offset, bytes, access}),
        AccessFault::kNone);
  }
  void post(Rkey key) {
    pair.side(0).fill(0, kBytes, 1);
    const Sge sge = pair.side(0).sge(0, kBytes);
    ASSERT_EQ(pair.side(0).adapter->post_send(*qps[0], {.opcode = SendOpcode::kRdmaWrite,
                                                        .sges = {&sge, 1},
                                                        .remote_addr = pair.side(1).region.addr,
                                                        .rkey = key}),
              PostResult::kOk);
  }
  /// Sends the first half of the write's cells only.
  void post_half(Rkey key) {
    pair.pipe.set_room(0, kBytes / kCell / 2);
    post(key);
    pair.run(5);
    ASSERT_TRUE(pair.side(0).completions.empty());
    expect_written(kBytes / 2);
  }
  WcStatus finish() {
    pair.pipe.set_room(0, UINT32_MAX);
    pair.run(50);
    return pair.side(0).completions.empty() ? WcStatus::kGeneral : pair.side(0).completions.front().status;
  }
  /// A region with one key, as libibverbs makes them.
  MemoryRegion one_key() {
    PairSide& far = pair.side(1);
    return table().regions.reg_mr(far.pd, far.memory, kBothWays, {.one_key = true}).value();
  }
  void give_rights(const MemoryRegion& region, Access rights) {
    const Refusable<MemoryRegion> now = table().regions.rereg_mr(region.lkey, {.access = rights});
    ASSERT_TRUE(now.ok());
    ASSERT_EQ(now.value().rkey, region.rkey);
  }
  Reason reported() {
    Failure out;
    return pair.side(1).adapter->next_failure(out) ? out.reason : Reason::kNone;
  }
  /// Exactly the first `bytes` bytes are written.
  void expect_written(uint32_t bytes) {
    EXPECT_EQ(pair.side(1).bytes_at(0, bytes), pair.side(0).bytes_at(0, bytes));
    EXPECT_EQ(pair.side(1).bytes_at(bytes, 2 * kBytes - bytes), std::vector<std::byte>(2 * kBytes - bytes));
  }

  AdapterPair pair{kCell};
  std::array<QueuePair*, 2> qps = pair.connect({});
};

TEST_F(LargeWrites, arrive_whole_whenever_their_cells_leave) {
  post_half(key_over(kBytes));
  EXPECT_EQ(finish(), WcStatus::kSuccess);
  expect_written(kBytes);
}

TEST_F(LargeWrites, miss_no_cell_that_others_have_overtaken) {
  uint32_t sent = 0;
  pair.pipe.set_filter([&](int from, std::vector<std::byte>&) {
    return from == 0 && ++sent == 2 ? Verdict::kDrop : Verdict::kPass;
  });
  post(key_over(kBytes));
  EXPECT_EQ(finish(), WcStatus::kSuccess);
  expect_written(kBytes);
  EXPECT_EQ(sent, kBytes / kCell + 1);
}

TEST_F(LargeWrites, end_where_their_key_ends) {
  post(key_over(kBytes / 2 + 1));
  EXPECT_EQ(finish(), WcStatus::kRemoteAccess);
  expect_written(kBytes / 2);
}

TEST_F(LargeWrites, stop_when_their_key_is_unbound) {
  const Rkey key = key_over(kBytes);
  post_half(key);
  ASSERT_EQ(table().windows.unbind_rkey(pair.side(1).pd, key), AccessFault::kNone);
  EXPECT_EQ(finish(), WcStatus::kRemoteAccess);
  expect_written(kBytes / 2);
}

TEST_F(LargeWrites, stop_when_their_key_is_bound_elsewhere) {
  const Rkey key = key_over(kBytes);
  post_half(key);
  ASSERT_EQ(table().windows.unbind_rkey(pair.side(1).pd, key), AccessFault::kNone);
  bind(key, kBytes, kBytes);
  EXPECT_EQ(finish(), WcStatus::kRemoteAccess);
  expect_written(kBytes / 2);
}

TEST_F(LargeWrites, are_one_operation_of_a_one_shot_key) {
  post_half(key_over(kBytes, Access::kRemoteWrite | Access::kOneShot));
  EXPECT_EQ(finish(), WcStatus::kSuccess);
  expect_written(kBytes);
}

TEST_F(LargeWrites, go_on_when_the_rights_of_their_key_are_given_anew) {
  const MemoryRegion region = one_key();
  post_half(region.rkey);
  give_rights(region, kBothWays);
  give_rights(region, Access::kLocalWrite | Access::kRemoteWrite);
  EXPECT_EQ(finish(), WcStatus::kSuccess);
  expect_written(kBytes);
}

/// Their cells have come and wait for an earlier one.
TEST_F(LargeWrites, that_wait_for_their_turn_go_on_by_the_rights_of_then) {
  for (const bool allowed : {true, false}) {
    const MemoryRegion region = one_key();
    pair.pipe.set_filter([count = 0U](int from, std::vector<std::byte>&) mutable {
      const bool first_time = from == 0 && count++ < kBytes / kCell;
      return from == 1 || (first_time && count != 2) ? Verdict::kPass : Verdict::kHold;
    });
    post(region.rkey);
    pair.run(5);
    ASSERT_TRUE(pair.side(0).completions.empty());
    give_rights(region, allowed ? kBothWays : Access::kLocalWrite | Access::kRemoteRead);
    pair.pipe.set_filter(nullptr);
    pair.pipe.release_held(false);
    EXPECT_EQ(finish(), allowed ? WcStatus::kSuccess : WcStatus::kRemoteAccess);
    pair.side(0).completions.clear();
  }
  EXPECT_EQ(reported(), Reason::kRemoteRightMissing);
}

TEST_F(LargeWrites, stop_for_lack_of_a_right_when_their_key_loses_it) {
  const MemoryRegion region = one_key();
  post_half(region.rkey);
  give_rights(region, Access::kLocalWrite | Access::kRemoteRead);
  EXPECT_EQ(finish(), WcStatus::kRemoteAccess);
  expect_written(kBytes / 2);
  EXPECT_EQ(reported(), Reason::kRemoteRightMissing);
}

TEST_F(LargeWrites, stop_when_their_region_is_registered_over_other_memory) {
  const MemoryRegion region = one_key();
  post_half(region.rkey);
  const std::span<std::byte> half = std::span(pair.side(1).memory).first(kPairBufferBytes / 2);
  ASSERT_TRUE(table().regions.rereg_mr(region.lkey, {.memory = half}).ok());
  EXPECT_EQ(finish(), WcStatus::kRemoteAccess);
  expect_written(kBytes / 2);
}

/// A message of several packets: the receiver learns of its end by the last one.
TEST_F(LargeWrites, immediate_data_travels_in_the_last_cell_of_the_last_packet) {
  constexpr uint32_t kPackets = 3;
  constexpr uint32_t kLong = kPackets * kCellsPerPacketMax * kCell;
  ASSERT_EQ(pair.post_recv(1, *qps[1], 7, {}), PostResult::kOk);
  const Sge sge = pair.side(0).sge(0, kLong);
  ASSERT_EQ(pair.side(0).adapter->post_send(*qps[0], {.opcode = SendOpcode::kRdmaWriteWithImm,
                                                      .flags = kSendSignaled,
                                                      .sges = {&sge, 1},
                                                      .imm = 0x1234,
                                                      .remote_addr = pair.side(1).region.addr,
                                                      .rkey = pair.side(1).region.rkey}),
            PostResult::kOk);
  EXPECT_EQ(finish(), WcStatus::kSuccess);
  const std::vector<const TracedCell*> cells = pair.pipe.sent_by(0, Opcode::kRdmaWrite);
  ASSERT_EQ(cells.size(), kPackets * kCellsPerPacketMax);
  EXPECT_EQ(std::count_if(cells.begin(), cells.end(), [](auto* cell) { return cell->view.has(kCellIdata); }),
            1);
  EXPECT_TRUE(cells.back()->view.has(kCellIdata));
  ASSERT_EQ(pair.side(1).completions.size(), 1U);
  EXPECT_EQ(pair.side(1).completions[0].imm, 0x1234U);
}

using BuiltWrites = BuiltCells;

TEST_F(BuiltWrites, a_cell_amid_a_write_is_placed_once_and_only_as_part_of_that_write) {
  Built cell = write(0, pair.side(0).region.addr, pair.side(0).region.rkey, 256);
  cell.flags = kCellFirst | kCellVa;
  receive(cell);
  Built next{.opcode = Opcode::kRdmaWrite, .cell = 1, .flags = 0, .bytes = 256, .fill = std::byte{0x11}};
  receive(next);
  EXPECT_EQ(pair.side(0).memory[256], std::byte{0x11});
  next.fill = std::byte{0x22};
  receive(next);
  EXPECT_EQ(pair.side(0).memory[256], std::byte{0x11});
  EXPECT_EQ(counted(QpCounter::kDuplicateCells), 1U);
  receive({.cell = 2, .flags = 0, .bytes = 256, .fill = std::byte{0x33}});
  EXPECT_NE(pair.side(0).memory[512], std::byte{0x33});
  EXPECT_EQ(state(), QpState::kErr);
}

}  // namespace
}  // namespace weft::test
