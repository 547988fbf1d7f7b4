#include <gtest/gtest.h>

#include "messages/cell.h"
#include "tests/support/adapter_pair.h"

namespace weft::test {
using namespace adapter;
namespace {

TEST(Adapter, rc_send_arrives_and_completes) {
  AdapterPair pair;
  auto [a, b] = pair.connect({});
  pair.side(0).fill(0, 1000, 3);
  ASSERT_EQ(pair.post_recv(1, *b, 7, {pair.side(1).sge(0, 4096)}), PostResult::kOk);
  const Sge sge = pair.side(0).sge(0, 1000);
  ASSERT_EQ(pair.side(0).adapter->post_send(*a, {.wr_id = 9, .sges = {&sge, 1}}), PostResult::kOk);
  pair.run(5);
  ASSERT_EQ(pair.side(1).completions.size(), 1U);
  EXPECT_EQ(pair.side(1).completions[0].wr_id, 7U);
  EXPECT_EQ(pair.side(1).completions[0].byte_count, 1000U);
  EXPECT_EQ(pair.side(1).bytes_at(0, 1000), pair.side(0).bytes_at(0, 1000));
  ASSERT_EQ(pair.side(0).completions.size(), 1U);
  EXPECT_EQ(pair.side(0).completions[0].status, WcStatus::kSuccess);
}

TEST(Adapter, rdma_write_with_idata_indicates_without_a_receive_wqe) {
  AdapterPair pair;
  auto [a, b] = pair.connect({.idata_takes_recv_wqe = false});
  pair.side(0).fill(0, 4000, 3);
  const Sge sge = pair.side(0).sge(0, 4000);
  ASSERT_EQ(pair.side(0).adapter->post_send(*a, {.wr_id = 9,
                                                 .opcode = SendOpcode::kRdmaWriteWithImm,
                                                 .sges = {&sge, 1},
                                                 .imm = 0x07050100,
                                                 .remote_addr = pair.side(1).region.addr + 64,
                                                 .rkey = pair.side(1).region.rkey}),
            PostResult::kOk);
  pair.run(5);
  ASSERT_EQ(pair.side(1).completions.size(), 1U);
  const WorkCompletion& got = pair.side(1).completions[0];
  EXPECT_EQ(got.opcode, WcOpcode::kRdataIndicate);
  EXPECT_EQ(got.imm, 0x07050100U);
  EXPECT_EQ(got.byte_count, 4000U);
  EXPECT_EQ(got.written_va, pair.side(1).region.addr + 64);
  EXPECT_EQ(pair.side(1).bytes_at(64, 4000), pair.side(0).bytes_at(0, 4000));
  EXPECT_EQ(pair.side(0).completions.size(), 1U);
}

/// Nobody acknowledges a read request out of turn, but what came after it tells that it is missing.
TEST(Adapter, a_lost_read_request_is_asked_again_without_a_timeout) {
  AdapterPair pair;
  QueuePair& qp = *pair.connect({})[0];
  ChannelAdapter& adapter = *pair.side(0).adapter;
  pair.side(1).fill(0, 4096, 5);
  int to_lose = 2;
  pair.pipe.set_filter([&](int, std::vector<std::byte>& bytes) {
    CellView cell;
    EXPECT_EQ(decode_cell(bytes, CrcCheck::kAlreadyVerified, cell), CellError::kNone);
    return cell.opcode == Opcode::kRdmaReadRequest && to_lose-- > 0 ? Verdict::kDrop : Verdict::kPass;
  });
  const auto post = [&](SendOpcode opcode, uint32_t offset) {
    const Sge sge = pair.side(0).sge(offset, 100);
    ASSERT_EQ(adapter.post_send(qp, {.wr_id = offset,
                                     .opcode = opcode,
                                     .sges = {&sge, 1},
                                     .remote_addr = pair.side(1).region.addr + offset,
                                     .rkey = pair.side(1).region.rkey}),
              PostResult::kOk);
  };
  post(SendOpcode::kRdmaRead, 0);
  for (uint32_t i = 1; i <= 20; ++i) {
    post(SendOpcode::kRdmaWrite, 4096 + i * 100);
    pair.run(2);
  }
  EXPECT_LE(to_lose, 0);
  EXPECT_EQ(pair.side(0).completions.size(), 21U);
  EXPECT_EQ(pair.side(0).bytes_at(0, 100), pair.side(1).bytes_at(0, 100));
  EXPECT_EQ(adapter.counters(qp).get(QpCounter::kTimeouts), 0U);
}

}  // namespace
}  // namespace weft::test
