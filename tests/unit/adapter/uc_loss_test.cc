// What the unacknowledged connected service drops: every packet that is missing is counted, by that a session
// knows what it lost (decisions 2.19).
#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <vector>

#include "base/crc32c.h"
#include "base/endian.h"
#include "tests/support/adapter_pair.h"
#include "tests/support/requirement.h"

namespace weft::test {
using namespace adapter;
namespace {

class UcLoss : public ::testing::Test {
 protected:
  ChannelAdapter& adapter(int index = 0) { return *pair.side(index).adapter; }
  /// A write of `bytes` with immediate data, as far as it comes.
  void write_with_imm(QueuePair& qp, uint32_t bytes) {
    const Sge sge = pair.side(0).sge(0, bytes);
    ASSERT_EQ(adapter().post_send(qp, {.opcode = SendOpcode::kRdmaWriteWithImm,
                                       .sges = {&sge, 1},
                                       .remote_addr = pair.side(1).region.addr,
                                       .rkey = pair.side(1).region.rkey}),
              PostResult::kOk);
    pair.run(5);
  }
  AdapterPair pair;
};

TEST_F(UcLoss, uc_counts_every_packet_that_is_missing) {
  struct Loss {
    uint32_t packet_bytes;
    std::vector<int> dropped;  // cells of two messages of 1024 bytes
    uint64_t missed;
  };
  const std::array<Loss, 3> losses{{{1024, {3, 4}, 2},  // the end of one packet and the beginning of the next
                                    {512, {0}, 2},      // the first packet of a message, so all of it
                                    {256, {0}, 4}}};
  for (const Loss& loss : losses) {
    auto qps = pair.connect({.type = QpType::kUc, .packet_bytes = loss.packet_bytes});
    for (uint64_t i = 0; i < 2; ++i)
      ASSERT_EQ(pair.post_recv(1, *qps[1], i, {pair.side(1).sge(0, 1024)}), PostResult::kOk);
    int cells = 0;
    pair.pipe.set_filter([&](int, std::vector<std::byte>&) {
      const bool gone = std::count(loss.dropped.begin(), loss.dropped.end(), cells++) != 0;
      return gone ? Verdict::kDrop : Verdict::kPass;
    });
    const Sge sge = pair.side(0).sge(0, 1024);
    for (uint64_t i = 0; i < 2; ++i)
      ASSERT_EQ(adapter().post_send(*qps[0], {.wr_id = i, .sges = {&sge, 1}}), PostResult::kOk);
    pair.run(5);
    pair.pipe.set_filter(nullptr);
    EXPECT_EQ(adapter(1).missed_packets(*qps[1]), loss.missed) << loss.packet_bytes;
    EXPECT_EQ(adapter(1).counters(*qps[1]).get(QpCounter::kProtocolViolations), 0U) << "a loss is none";
  }
}

TEST_F(UcLoss, a_uc_write_that_nobody_can_be_told_of_is_missed) {
  auto qps = pair.connect({.type = QpType::kUc, .idata_takes_recv_wqe = true});
  write_with_imm(*qps[0], 16);
  EXPECT_EQ(adapter(1).counters().get(AdapterCounter::kDropNoRecvWqe), 1U);
  EXPECT_EQ(adapter(1).missed_packets(*qps[1]), 1U);
}

/// Not over memory, which others may have changed since.
TEST_F(UcLoss, a_packet_crc_is_over_what_came) {
  covers("PUSH-CELL-08");
  auto qps = pair.connect({.type = QpType::kUc, .idata_takes_recv_wqe = true, .packet_crc = true});
  const auto write = [&] {
    ASSERT_EQ(pair.post_recv(1, *qps[1], 0, {}), PostResult::kOk);
    write_with_imm(*qps[0], 512);
  };
  const auto errors = [&] { return adapter(1).counters(*qps[1]).get(QpCounter::kPacketCrcErrors); };
  pair.pipe.set_filter([cells = 0](int, std::vector<std::byte>&) mutable {
    return cells++ == 0 ? Verdict::kPass : Verdict::kHold;
  });
  write();
  pair.side(1).memory[0] ^= std::byte{1};
  pair.pipe.set_filter(nullptr);
  pair.pipe.release_held();
  pair.run(5);
  EXPECT_EQ(pair.side(1).completions.size(), 1U);
  EXPECT_EQ(errors(), 0U);
  pair.pipe.set_filter([cells = 0](int, std::vector<std::byte>& cell) mutable {
    if (cells++ == 0) {  // its own CRC is right
      cell[kCellHeaderBytes + kVaBytes] ^= std::byte{1};
      const size_t covered = cell.size() - kCrcBytes;
      store_be(cell.data() + covered, crc32c(std::span(cell).first(covered)));
    }
    return Verdict::kPass;
  });
  write();
  EXPECT_EQ(pair.side(1).completions.size(), 1U) << "nobody is told of a packet that was changed";
  EXPECT_EQ(errors(), 1U);
  EXPECT_EQ(adapter(1).missed_packets(*qps[1]), 1U);
}

TEST_F(UcLoss, an_endnode_without_inbound_rdma_drops_unacknowledged_writes_too) {
  AdapterLimits limits;
  limits.inbound_rdma = false;
  AdapterPair closed(256, limits);
  auto qps = closed.connect({.type = QpType::kUc});
  closed.side(0).fill(0, 16, 1);
  const Sge sge = closed.side(0).sge(0, 16);
  ASSERT_EQ(closed.side(0).adapter->post_send(*qps[0], {.opcode = SendOpcode::kRdmaWrite,
                                                        .sges = {&sge, 1},
                                                        .remote_addr = closed.side(1).region.addr,
                                                        .rkey = closed.side(1).region.rkey}),
            PostResult::kOk);
  closed.run(5);
  EXPECT_EQ(closed.side(1).bytes_at(0, 16), std::vector<std::byte>(16));
  EXPECT_EQ(closed.side(1).adapter->counters().get(AdapterCounter::kDropAccess), 1U);
}

}  // namespace
}  // namespace weft::test
