// PUSH-CELL: the cells of an adapter, read from the wire.
#include <algorithm>
#include <cstring>

#include "base/crc32c.h"
#include "tests/support/adapter_pair.h"
#include "tests/support/requirement.h"

namespace weft::test {
using namespace adapter;
namespace {

const QpConfig kRc{.type = QpType::kRc};

class PushCell : public ::testing::Test {
 protected:
  /// Posts a Send of `bytes` bytes at side 0 and runs until quiet. Side 1 has one receive WQE of 4096 bytes.
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
  // The consumer sees the payload and no byte of header or CRC.
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
  // The same fields at the offsets of LAY-CELL, read without the decoder.
  const std::byte* at = cells[1]->bytes.data();
  EXPECT_EQ(load_be<uint64_t>(at) >> 16, 0x0200'0001'0002U) << "destination address: subnet 1, LID 2";
  EXPECT_EQ(load_be<uint64_t>(at + 4) & 0xFFFF'FFFF'FFFFU, 0x0200'0001'0001U) << "source address";
  EXPECT_EQ(load_be<uint32_t>(at + 16), pair.side(1).adapter->qpn(*qps[1]).value());
  EXPECT_EQ(load_be<uint32_t>(at + 20), pair.side(0).adapter->qpn(*qps[0]).value());
  EXPECT_EQ(load_be<uint32_t>(at + 24) & kQpnMask, 100U) << "PSN";
  EXPECT_EQ(load_be<uint16_t>(at + 28), 1U) << "cell number";
  EXPECT_EQ(load_be<uint16_t>(at + 30), 44U) << "payload length";
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

/// A Send of 64 bytes from side 0 to side 1 as the first packet, built by hand with a correct CRC.
std::vector<std::byte> hand_made_send(AdapterPair& pair, const std::array<QueuePair*, 2>& qps) {
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
  const size_t covered = cell.size() - kCrcBytes;
  store_be(cell.data() + covered, crc32c(std::span(cell).first(covered)));
  return cell;
}

uint64_t sum(const CounterSet<CellError>& counters) {
  uint64_t out = 0;
  for (size_t i = 0; i < static_cast<size_t>(CellError::kCount); ++i)
    out += counters.get(static_cast<CellError>(i));
  return out;
}

TEST(PushCellBroken, PUSH_CELL_05_a_flipped_bit_stores_nothing_and_is_counted) {
  covers("PUSH-CELL-05");
  AdapterPair pair(256, {}, true);
  const auto qps = pair.connect(kRc);
  ASSERT_EQ(pair.post_recv(1, *qps[1], 7, {pair.side(1).sge(0, 4096)}), PostResult::kOk);
  const std::vector<std::byte> good = hand_made_send(pair, qps);
  uint64_t flips = 0;
  for (size_t bit = 0; bit < good.size() * 8; ++bit) {
    std::vector<std::byte> cell = good;
    cell[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
    pair.pipe.inject_as_is(1, cell);
    pair.run(1);
    ASSERT_EQ(sum(pair.side(1).adapter->bad_cells()), ++flips) << "bit " << bit;
    ASSERT_TRUE(pair.side(1).completions.empty()) << "bit " << bit;
  }
  EXPECT_TRUE(pair.side(1).memory == std::vector<std::byte>(kPairBufferBytes));
  EXPECT_TRUE(pair.pipe.sent_by(1).empty()) << "nor answered";
  // The unchanged cell goes to the memory of the descriptor, without header and CRC.
  pair.pipe.inject_as_is(1, good);
  pair.run(5);
  ASSERT_EQ(pair.side(1).completions.size(), 1U);
  std::vector<std::byte> expected(kPairBufferBytes);
  std::fill_n(expected.begin(), 64, std::byte{0x55});
  EXPECT_TRUE(pair.side(1).memory == expected);
}

TEST_F(PushCell, PUSH_CELL_05_a_cell_that_cannot_be_stores_nothing) {
  covers("PUSH-CELL-05");
  use(kRc);
  ASSERT_EQ(pair.post_recv(1, *qps[1], 7, {pair.side(1).sge(0, 4096)}), PostResult::kOk);
  // The CRC is right, but version, length, reserved byte or operation is wrong. Each has its own drop
  // counter.
  struct Case {
    size_t offset;
    int value;
    CellError error;
  };
  const Case cases[] = {{12, 2, CellError::kVersion},
                        {31, 63, CellError::kLength},
                        {24, 1, CellError::kReserved},
                        {13, 0x7F, CellError::kOpcode},
                        {0, 3, CellError::kAddress}};
  for (const Case& one : cases) {
    std::vector<std::byte> cell = hand_made_send(pair, qps);
    cell[one.offset] = static_cast<std::byte>(one.value);
    pair.pipe.inject(1, cell);
    pair.run(20);
    EXPECT_EQ(pair.side(1).adapter->bad_cells().get(one.error), 1U) << "offset " << one.offset;
    EXPECT_TRUE(pair.side(1).memory == std::vector<std::byte>(kPairBufferBytes)) << "offset " << one.offset;
    EXPECT_TRUE(pair.side(1).completions.empty()) << "offset " << one.offset;
  }
}

TEST_F(PushCell, PUSH_CELL_06_connectionless_packets_are_single_cells) {
  covers("PUSH-CELL-06");
  for (const QpType type : {QpType::kUd, QpType::kRd}) {
    const QpConfig config{.type = type};
    QueuePair* qp = pair.make_qp(0, config);
    pair.bring_up(0, *qp, config, Qpn(0), Lid(0), Psn(1), Psn(0));
    pair.pipe.clear_trace();
    const Destination dest{.lid = Lid(2), .qpn = Qpn(77), .qkey = AdapterPair::kQkey};
    const Sge sge = pair.side(0).sge(0, 257);
    EXPECT_EQ(pair.side(0).adapter->post_send(*qp, {.wr_id = 1, .sges = {&sge, 1}, .dest = dest}),
              PostResult::kTooLong);
    pair.run(10);
    EXPECT_TRUE(pair.pipe.sent_by(0).empty());
    const Sge fits = pair.side(0).sge(0, 256);
    EXPECT_EQ(pair.side(0).adapter->post_send(*qp, {.wr_id = 1, .sges = {&fits, 1}, .dest = dest}),
              PostResult::kOk);
    pair.run(10);
    ASSERT_EQ(pair.pipe.sent_by(0).size(), 1U);
    EXPECT_TRUE(pair.pipe.sent_by(0)[0]->view.has(kCellFirst));
    EXPECT_TRUE(pair.pipe.sent_by(0)[0]->view.has(kCellLast));
  }
}

TEST_F(PushCell, PUSH_CELL_07_va_and_handle_in_the_first_cell_only) {
  covers("PUSH-CELL-07 PUSH-RDMAW-01");
  use(kRc);
  pair.side(0).fill(0, 700, 5);
  write(700, false);
  const auto cells = pair.pipe.sent_by(0, Opcode::kRdmaWrite);
  ASSERT_EQ(cells.size(), 3U);
  EXPECT_EQ(cells[0]->view.flags & (kCellVa | kCellIdata), kCellVa);
  EXPECT_EQ(load_be<uint64_t>(cells[0]->bytes.data() + 32), pair.side(1).region.addr + 64);
  EXPECT_EQ(load_be<uint32_t>(cells[0]->bytes.data() + 40), pair.side(1).region.rkey.value());
  for (size_t i = 1; i < 3; ++i) {
    EXPECT_FALSE(cells[i]->view.has(kCellVa));
    EXPECT_EQ(cells[i]->view.payload.data(), cells[i]->bytes.data() + kCellHeaderBytes);
  }
  EXPECT_EQ(cells[0]->bytes.size(), 32U + 12 + 256 + 4) << "header, VA and MH, data, CRC";
  EXPECT_EQ(cells[1]->bytes.size(), 32U + 256 + 4);
  EXPECT_EQ(cells[2]->bytes.size(), 32U + 188 + 4);
  EXPECT_EQ(std::memcmp(cells[0]->bytes.data() + 44, pair.side(0).memory.data(), 256), 0);
  EXPECT_EQ(std::memcmp(cells[1]->bytes.data() + 32, pair.side(0).memory.data() + 256, 256), 0);
  EXPECT_EQ(std::memcmp(cells[2]->bytes.data() + 32, pair.side(0).memory.data() + 512, 188), 0);
  EXPECT_EQ(pair.side(1).bytes_at(64, 700), pair.side(0).bytes_at(0, 700));
}

TEST_F(PushCell, PUSH_CELL_08_packet_crc_covers_all_cells) {
  covers("PUSH-CELL-08");
  use({.type = QpType::kRc, .packet_crc = true});
  pair.side(0).fill(0, 600, 5);
  // A middle cell is replaced by another valid cell: its own CRC is right, the packet CRC is wrong.
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

/// The 600-byte write with idata and packet CRC of LAY-CELL, with its byte ranges.
TEST_F(PushCell, PUSH_CELL_08_the_example_of_the_layout) {
  covers("PUSH-CELL-08 PUSH-CELL-09 PUSH-CELL-11");
  use({.type = QpType::kRc, .packet_crc = true});
  pair.side(0).fill(0, 600, 5);
  ASSERT_EQ(pair.post_recv(1, *qps[1], 7, {}), PostResult::kOk);
  write(600, true);
  const auto cells = pair.pipe.sent_by(0, Opcode::kRdmaWrite);
  ASSERT_EQ(cells.size(), 3U);
  const std::array<int, 3> flags{kCellFirst | kCellVa, 0, kCellLast | kCellIdata | kCellPacketCrc};
  const std::array<size_t, 3> sizes{304, 292, 132};
  uint32_t crc = 0;
  for (size_t i = 0; i < 3; ++i) {
    const auto& bytes = cells[i]->bytes;
    EXPECT_EQ(cells[i]->view.flags & ~kCellAckWanted, flags[i]) << i;
    ASSERT_EQ(bytes.size(), sizes[i]);
    const size_t end = i == 2 ? 124 : bytes.size() - kCrcBytes;
    crc = crc32c_extend(crc, bytes.data() + kCellHeaderBytes, end - kCellHeaderBytes);
  }
  EXPECT_EQ(load_be<uint32_t>(cells[2]->bytes.data() + 124), crc)
      << "over VA, MH, idata and data in cell order";
  EXPECT_EQ(std::memcmp(cells[2]->bytes.data() + 36, pair.side(0).memory.data() + 512, 88), 0);
  EXPECT_EQ(pair.side(1).bytes_at(64, 600), pair.side(0).bytes_at(0, 600));
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
  // In a packet of one cell the idata follows address and handle.
  pair.pipe.clear_trace();
  ASSERT_EQ(pair.post_recv(1, *qps[1], 7, {}), PostResult::kOk);
  write(88, true);
  const auto single = pair.pipe.sent_by(0, Opcode::kRdmaWrite);
  ASSERT_EQ(single.size(), 1U);
  EXPECT_EQ(load_be<uint32_t>(single[0]->bytes.data() + 44), 0x07050100U);
  EXPECT_EQ(single[0]->view.payload.data(), single[0]->bytes.data() + 48);
  EXPECT_EQ(single[0]->bytes.size(), 32U + 12 + 4 + 88 + 4);
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
  // The other direction has its own numbers, and they wrap. Another QP pair of the same adapters does too.
  pair.pipe.clear_trace();
  const auto others = pair.connect(kRc);
  for (uint32_t i = 0; i < 20; ++i) {
    QueuePair& from = *(i < 18 ? qps : others)[1];
    ASSERT_EQ(pair.post_recv(0, *(i < 18 ? qps : others)[0], 7, {pair.side(0).sge(0, 4096)}),
              PostResult::kOk);
    const Sge sge = pair.side(1).sge(0, 600);
    ASSERT_EQ(pair.side(1).adapter->post_send(from, {.wr_id = 1, .sges = {&sge, 1}}), PostResult::kOk);
    pair.run(5);
  }
  const auto back = pair.pipe.sent_by(1, Opcode::kSend);
  ASSERT_EQ(back.size(), 60U);
  for (uint32_t i = 0; i < 60; ++i) {
    EXPECT_EQ(back[i]->view.psn, Psn((0xFFFFF0 + (i < 54 ? i / 3 : i / 3 - 18)) & kQpnMask));
    EXPECT_EQ(back[i]->view.cell_number, i % 3);
  }
}

/// Reliable datagrams number packets per end-to-end context and direction, for all queue pairs of the
/// context.
TEST_F(PushCell, PUSH_CELL_10_numbers_per_packet_of_a_context) {
  covers("PUSH-CELL-10");
  const QpConfig config{.type = QpType::kRd};
  std::array<std::array<QueuePair*, 2>, 2> ends{};
  for (int side = 0; side < 2; ++side) {
    for (QueuePair*& qp : ends[static_cast<size_t>(side)]) {
      qp = pair.make_qp(side, config);
      pair.bring_up(side, *qp, config, Qpn(0), Lid(0), Psn(7), Psn(7));
      for (uint64_t i = 0; i < 4; ++i) {
        ASSERT_EQ(pair.post_recv(side, *qp, i, {pair.side(side).sge(0, 256)}), PostResult::kOk);
      }
    }
  }
  const auto send = [&](int from, size_t qp, size_t to) {
    const Sge sge = pair.side(from).sge(0, 100);
    const Destination dest{.lid = Lid(static_cast<uint16_t>(2 - from)),
                           .qpn = pair.side(1 - from).adapter->qpn(*ends[static_cast<size_t>(1 - from)][to]),
                           .qkey = AdapterPair::kQkey};
    ASSERT_EQ(pair.side(from).adapter->post_send(*ends[static_cast<size_t>(from)][qp],
                                                 {.sges = {&sge, 1}, .dest = dest}),
              PostResult::kOk);
    pair.run(20);
  };
  for (const size_t qp : {0U, 1U, 0U}) {
    send(0, qp, 1 - qp);
    send(1, qp, qp);
  }
  std::array<Psn, 2> first{};
  for (int from = 0; from < 2; ++from) {
    const auto cells = pair.pipe.sent_by(from, Opcode::kRdSend);
    ASSERT_EQ(cells.size(), 3U);
    first[static_cast<size_t>(from)] = cells[0]->view.psn;
    for (uint32_t i = 0; i < 3; ++i) {
      EXPECT_EQ(cells[i]->view.psn, cells[0]->view.psn.plus(i));
      EXPECT_EQ(cells[i]->view.cell_number, 0);
    }
    EXPECT_NE(cells[0]->view.src_qpn, cells[1]->view.src_qpn);
  }
  EXPECT_NE(first[0], first[1]) << "each direction has numbers of its own";
}

TEST_F(PushCell, PUSH_CELL_11_all_but_the_last_cell_are_full) {
  covers("PUSH-CELL-11 SAN-STRIPE-02");
  use(kRc);
  pair.side(0).fill(0, 600, 8);
  // Cells are placed by their offset: the data is right although the cells arrive in reverse order.
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
