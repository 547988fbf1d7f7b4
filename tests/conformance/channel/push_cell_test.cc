// PUSH-CELL: what an adapter puts on the wire, seen on the wire.
#include <numeric>

#include "base/crc32c.h"
#include "tests/support/adapter_pair.h"
#include "tests/support/requirement.h"

namespace weft::test {
namespace {

const QpConfig kRc{.type = QpType::kRc};

class PushCell : public ::testing::Test {
 protected:
  /// Posts a Send of `bytes` bytes from side 0 and runs until quiet; a receive WQE of 4096 bytes waits at
  /// side 1.
  void send(uint32_t bytes) {
    ASSERT_EQ(pair.post_recv(1, *qps[1], 7, {pair.side(1).sge(0, 4096)}), PostResult::kOk);
    const Sge sge = pair.side(0).sge(0, bytes);
    ASSERT_EQ(pair.side(0).adapter->post_send(*qps[0], {.wr_id = 1, .sges = {&sge, 1}}), PostResult::kOk);
    pair.run();
  }
  void write(uint32_t bytes, bool idata) {
    const Sge sge = pair.side(0).sge(0, bytes);
    const SendRequest request{.wr_id = 2,
                              .opcode = idata ? SendOpcode::kRdmaWriteWithImm : SendOpcode::kRdmaWrite,
                              .sges = {&sge, 1},
                              .imm = 0x07050100,
                              .remote_addr = pair.side(1).region.addr + 64,
                              .rkey = pair.side(1).region.rkey};
    ASSERT_EQ(pair.side(0).adapter->post_send(*qps[0], request), PostResult::kOk);
    pair.run();
  }
  void use(const QpConfig& config) { qps = pair.connect(config); }

  AdapterPair pair;
  std::array<QueuePair*, 2> qps{};
};

TEST_F(PushCell, PUSH_CELL_01_header_and_crc_come_from_the_adapter) {
  covers("PUSH-CELL-01");
  use(kRc);
  pair.side(0).fill(0, 100, 1);
  send(100);
  const auto cells = pair.pipe.sent_by(0, Opcode::kSend);
  ASSERT_EQ(cells.size(), 1U);
  const auto& bytes = cells[0]->bytes;
  const size_t covered = bytes.size() - kCrcBytes;
  EXPECT_EQ(load_be<uint32_t>(bytes.data() + covered), crc32c(std::span(bytes).first(covered)));
  EXPECT_EQ(bytes.size(), kCellHeaderBytes + 100 + kCrcBytes);
  // The consumer sees its bytes and nothing of header or CRC.
  EXPECT_EQ(pair.side(1).bytes_at(0, 100), pair.side(0).bytes_at(0, 100));
  EXPECT_EQ(pair.side(1).bytes_at(100, 64), std::vector<std::byte>(64));
}

TEST_F(PushCell, PUSH_CELL_02_seven_header_fields) {
  covers("PUSH-CELL-02");
  use(kRc);
  send(300);
  const auto cells = pair.pipe.sent_by(0, Opcode::kSend);
  ASSERT_EQ(cells.size(), 2U);
  const CellView& second = cells[1]->view;
  EXPECT_EQ(second.dlid, Lid(2));
  EXPECT_EQ(second.slid, Lid(1));
  EXPECT_EQ(second.dest_qpn, pair.side(1).adapter->qpn(*qps[1]));
  EXPECT_EQ(second.src_qpn, pair.side(0).adapter->qpn(*qps[0]));
  EXPECT_EQ(second.psn, Psn(100));
  EXPECT_EQ(second.cell_number, 1);
  EXPECT_EQ(second.payload.size(), 44U);
}

TEST_F(PushCell, PUSH_CELL_03_one_cell_up_to_256_bytes) {
  covers("PUSH-CELL-03");
  use(kRc);
  const std::array<std::pair<uint32_t, size_t>, 6> cases{
      {{1, 1}, {255, 1}, {256, 1}, {257, 2}, {512, 2}, {513, 3}}};
  for (const auto& [bytes, expected] : cases) {
    pair.pipe.clear_trace();
    send(bytes);
    EXPECT_EQ(pair.pipe.sent_by(0, Opcode::kSend).size(), expected) << bytes;
  }
}

TEST_F(PushCell, PUSH_CELL_04_one_completion_per_packet) {
  covers("PUSH-CELL-04");
  use(kRc);
  pair.side(0).fill(0, 1000, 3);
  send(1000);
  ASSERT_EQ(pair.side(1).completions.size(), 1U);
  const WorkCompletion& completion = pair.side(1).completions[0];
  EXPECT_EQ(completion.status, WcStatus::kSuccess);
  EXPECT_EQ(completion.opcode, WcOpcode::kRecv);
  EXPECT_EQ(completion.byte_count, 1000U);
  EXPECT_EQ(pair.side(1).bytes_at(0, 1000), pair.side(0).bytes_at(0, 1000));
}

TEST_F(PushCell, PUSH_CELL_05_a_broken_cell_stores_nothing) {
  covers("PUSH-CELL-05");
  use(kRc);
  pair.side(0).fill(0, 64, 9);
  const auto before = pair.side(1).bytes_at(0, 64);
  // Valid CRC, wrong version, length, reserved byte: the adapter itself has to refuse each.
  ASSERT_EQ(pair.post_recv(1, *qps[1], 7, {pair.side(1).sge(0, 4096)}), PostResult::kOk);
  for (const auto& [offset, value] : {std::pair<size_t, int>{12, 2}, {31, 63}, {16, 1}, {13, 0x7F}}) {
    pair.pipe.set_filter(
        [&](int from, std::vector<std::byte>&) { return from == 0 ? Verdict::kHold : Verdict::kPass; });
    std::vector<std::byte> cell(kCellHeaderBytes + 64 + kCrcBytes, std::byte{0x55});
    const CellTemplate fixed = make_cell_template({.dest_subnet = SubnetId(1),
                                                   .src_subnet = SubnetId(1),
                                                   .dlid = Lid(2),
                                                   .slid = Lid(1),
                                                   .vl = VirtualLane(0),
                                                   .sl = ServiceLevel(0),
                                                   .dest_qpn = pair.side(1).adapter->qpn(*qps[1]),
                                                   .src_qpn = pair.side(0).adapter->qpn(*qps[0])});
    (void)compose_cell_header(
        cell.data(), fixed,
        {.opcode = Opcode::kSend, .flags = kCellFirst | kCellLast, .psn = Psn(100), .payload_bytes = 64});
    cell[offset] = static_cast<std::byte>(value);
    pair.pipe.inject(1, cell);
    pair.run(20);
    EXPECT_EQ(pair.side(1).bytes_at(0, 64), before) << "offset " << offset;
    EXPECT_TRUE(pair.side(1).completions.empty()) << "offset " << offset;
  }
}

TEST_F(PushCell, PUSH_CELL_06_connectionless_packets_are_single_cells) {
  covers("PUSH-CELL-06");
  const QpConfig config{.type = QpType::kUd};
  QueuePair* qp = pair.make_qp(0, config);
  pair.bring_up(0, *qp, config, Qpn(0), Lid(0), Psn(1), Psn(0));
  const Sge sge = pair.side(0).sge(0, 257);
  const Destination dest{.lid = Lid(2), .qpn = Qpn(77), .qkey = AdapterPair::kQkey};
  EXPECT_EQ(pair.side(0).adapter->post_send(*qp, {.wr_id = 1, .sges = {&sge, 1}, .dest = dest}),
            PostResult::kTooLong);
  pair.run();
  EXPECT_TRUE(pair.pipe.sent_by(0).empty());
  const Sge fits = pair.side(0).sge(0, 256);
  EXPECT_EQ(pair.side(0).adapter->post_send(*qp, {.wr_id = 1, .sges = {&fits, 1}, .dest = dest}),
            PostResult::kOk);
  pair.run();
  EXPECT_EQ(pair.pipe.sent_by(0).size(), 1U);
}

TEST_F(PushCell, PUSH_CELL_07_va_and_handle_in_the_first_cell_only) {
  covers("PUSH-CELL-07 PUSH-RDMAW-01");
  use(kRc);
  pair.side(0).fill(0, 700, 5);
  write(700, false);
  const auto cells = pair.pipe.sent_by(0, Opcode::kRdmaWrite);
  ASSERT_EQ(cells.size(), 3U);
  EXPECT_TRUE(cells[0]->view.has(kCellVa));
  EXPECT_EQ(load_be<uint64_t>(cells[0]->bytes.data() + 32), pair.side(1).region.addr + 64);
  EXPECT_EQ(load_be<uint32_t>(cells[0]->bytes.data() + 40), pair.side(1).region.rkey.value());
  for (size_t i = 1; i < 3; ++i) {
    EXPECT_FALSE(cells[i]->view.has(kCellVa));
    EXPECT_EQ(cells[i]->view.payload.data(), cells[i]->bytes.data() + kCellHeaderBytes);
  }
  EXPECT_EQ(cells[1]->bytes[32], pair.side(0).memory[256]);
  EXPECT_EQ(pair.side(1).bytes_at(64, 700), pair.side(0).bytes_at(0, 700));
}

TEST_F(PushCell, PUSH_CELL_08_packet_crc_covers_all_cells) {
  covers("PUSH-CELL-08");
  use({.type = QpType::kRc, .packet_crc = true});
  pair.side(0).fill(0, 600, 5);
  // A middle cell exchanged for another valid one: its own CRC is right, the packet's is not.
  bool changed = false;
  pair.pipe.set_filter([&](int from, std::vector<std::byte>& bytes) {
    if (from == 0 && load_be<uint16_t>(bytes.data() + 28) == 1 && !changed) {
      changed = true;
      bytes[kCellHeaderBytes] ^= std::byte{1};
      const size_t covered = bytes.size() - kCrcBytes;
      store_be(bytes.data() + covered, crc32c(std::span(bytes).first(covered)));
    }
    return Verdict::kPass;
  });
  send(600);
  ASSERT_TRUE(changed);
  const auto naks = pair.pipe.sent_by(1, Opcode::kNak);
  ASSERT_FALSE(naks.empty());
  EXPECT_EQ(naks[0]->view.ack.code, AckCode::kPacketCrc);
  for (const WorkCompletion& completion : pair.side(1).completions) {
    if (completion.status == WcStatus::kSuccess) {
      EXPECT_EQ(pair.side(1).bytes_at(0, 600), pair.side(0).bytes_at(0, 600));
    }
  }
}

TEST_F(PushCell, PUSH_CELL_09_idata_stands_at_its_place) {
  covers("PUSH-CELL-09 PUSH-IDATA-01");
  use(kRc);
  ASSERT_EQ(pair.post_recv(1, *qps[1], 7, {}), PostResult::kOk);
  write(600, true);
  const auto cells = pair.pipe.sent_by(0, Opcode::kRdmaWrite);
  ASSERT_EQ(cells.size(), 3U);
  EXPECT_FALSE(cells[0]->view.has(kCellIdata));
  EXPECT_FALSE(cells[1]->view.has(kCellIdata));
  ASSERT_TRUE(cells[2]->view.has(kCellIdata));
  EXPECT_EQ(load_be<uint32_t>(cells[2]->bytes.data() + 32), 0x07050100U);
  EXPECT_EQ(cells[2]->view.payload.data(), cells[2]->bytes.data() + 36);
  EXPECT_EQ(cells[2]->bytes.size(), 32U + 4 + 88 + 4);
}

TEST_F(PushCell, PUSH_CELL_10_numbers_per_packet_and_cell) {
  covers("PUSH-CELL-10");
  use(kRc);
  for (int i = 0; i < 3; ++i) send(600);
  const auto cells = pair.pipe.sent_by(0, Opcode::kSend);
  ASSERT_EQ(cells.size(), 9U);
  for (uint32_t i = 0; i < 9; ++i) {
    EXPECT_EQ(cells[i]->view.psn, Psn(100 + i / 3));
    EXPECT_EQ(cells[i]->view.cell_number, i % 3);
  }
}

TEST_F(PushCell, PUSH_CELL_11_all_but_the_last_cell_are_full) {
  covers("PUSH-CELL-11 SAN-STRIPE-02");
  use(kRc);
  pair.side(0).fill(0, 600, 8);
  // Placement is by offset: deliver the cells backwards and the data is right all the same.
  pair.pipe.set_filter(
      [](int from, std::vector<std::byte>&) { return from == 0 ? Verdict::kHold : Verdict::kPass; });
  ASSERT_EQ(pair.post_recv(1, *qps[1], 7, {pair.side(1).sge(0, 4096)}), PostResult::kOk);
  const Sge sge = pair.side(0).sge(0, 600);
  ASSERT_EQ(pair.side(0).adapter->post_send(*qps[0], {.wr_id = 1, .sges = {&sge, 1}}), PostResult::kOk);
  pair.run(5);
  pair.pipe.set_filter(nullptr);
  pair.pipe.release_held(true);
  pair.run();
  const auto cells = pair.pipe.sent_by(0, Opcode::kSend);
  ASSERT_GE(cells.size(), 3U);
  EXPECT_EQ(cells[2]->view.payload.size(), 256U);
  EXPECT_EQ(cells[1]->view.payload.size(), 256U);
  EXPECT_EQ(cells[0]->view.payload.size(), 88U);
  ASSERT_EQ(pair.side(1).completions.size(), 1U);
  EXPECT_EQ(pair.side(1).bytes_at(0, 600), pair.side(0).bytes_at(0, 600));
}

}  // namespace
}  // namespace weft::test
