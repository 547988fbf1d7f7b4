// tests/support/built_cells.h -- cells built by hand, one at a time, into an RC QP, and what comes back. The
// peer is the test itself; the pipe's other end has no adapter.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <vector>

#include "messages/transport_headers.h"
#include "tests/support/adapter_pair.h"

namespace weft::test {

inline constexpr Psn kFirst{0xFFFFF0};  // numbers wrap soon
inline constexpr Qpn kPeer{0x222222};

/// A cell; its CRC is made right.
struct Built {
  Opcode opcode = Opcode::kSend;
  int32_t psn = 0;  // from kFirst
  uint16_t cell = 0;
  uint8_t flags = kCellFirst | kCellLast;
  uint8_t flags2 = 0;
  std::vector<std::byte> parts{};  // between header and data
  uint32_t bytes = 16;
  std::byte fill{0x5A};
  Lid slid{2};
  Qpn source = kPeer;
};

/// One RC QP, ready to receive and send.
class BuiltCells : public ::testing::Test {
 protected:
  void SetUp() override { make({}); }

  void make(adapter::QpConfig config) {
    qp = pair.make_qp(0, config);
    pair.bring_up(0, *qp, config, kPeer, Lid(2), Psn(1), kFirst);
    pair.run_one(0);
  }
  void post_recv(uint64_t wr_id, uint32_t bytes = 1024) {
    ASSERT_EQ(pair.post_recv(0, *qp, wr_id, {pair.side(0).sge(static_cast<uint32_t>(wr_id) * 4096, bytes)}),
              adapter::PostResult::kOk);
  }
  std::vector<std::byte> build(const Built& cell) {
    const CellTemplate fixed = make_cell_template({.dest_subnet = SubnetId(1),
                                                   .src_subnet = SubnetId(1),
                                                   .dlid = Lid(1),
                                                   .slid = cell.slid,
                                                   .vl = VirtualLane(0),
                                                   .sl = ServiceLevel(0),
                                                   .dest_qpn = pair.side(0).adapter->qpn(*qp),
                                                   .src_qpn = cell.source});
    std::vector<std::byte> out(kCellHeaderBytes + cell.parts.size() + cell.bytes + kCrcBytes, cell.fill);
    (void)compose_cell_header(out.data(), fixed,
                              {.opcode = cell.opcode,
                               .flags = cell.flags,
                               .flags2 = cell.flags2,
                               .psn = kFirst.plus(static_cast<uint32_t>(cell.psn)),
                               .cell_number = cell.cell,
                               .payload_bytes = static_cast<uint16_t>(cell.bytes)});
    std::copy(cell.parts.begin(), cell.parts.end(), out.begin() + kCellHeaderBytes);
    return out;
  }
  void receive(const Built& cell) {
    pair.pipe.inject(0, build(cell));
    pair.run_one(0);
  }
  static std::vector<std::byte> va_and_key(uint64_t va, Rkey key) {
    std::vector<std::byte> out(kVaBytes);
    store_be(out.data(), va);
    store_be(out.data() + 8, key.value());
    return out;
  }
  Built write(int32_t psn, uint64_t va, Rkey key, uint32_t bytes = 16) {
    return {.opcode = Opcode::kRdmaWrite,
            .psn = psn,
            .flags = kCellFirst | kCellLast | kCellVa | kCellAckWanted,
            .parts = va_and_key(va, key),
            .bytes = bytes};
  }
  /// A message of one cell; the first has number 1.
  void post_send() {
    const adapter::Sge sge = pair.side(0).sge(0, 16);
    ASSERT_EQ(pair.side(0).adapter->post_send(*qp, {.sges = {&sge, 1}}), adapter::PostResult::kOk);
  }
  /// An acknowledgement of nothing in order, and out of it of the message with that number.
  void receive_block(uint32_t psn) {
    std::vector<std::byte> cell = build({.opcode = Opcode::kAck,
                                         .parts = std::vector<std::byte>(kAckBodyBytes),
                                         .bytes = sizeof(SelectiveBlockWire),
                                         .fill = std::byte{0}});
    std::byte* block = cell.data() + kCellHeaderBytes + kAckBodyBytes;
    store_be(block, psn);
    store_be(block + 8, uint64_t{1});
    pair.pipe.inject(0, cell);
    pair.run_one(0);
  }
  /// Takes what the adapter has sent since the last call.
  std::vector<CellView> answers() {
    std::vector<CellView> out;
    for (const TracedCell* cell : pair.pipe.sent_by(0)) {
      kept.push_back(cell->bytes);  // the views point into it
      EXPECT_EQ(decode_cell(kept.back(), CrcCheck::kVerify, out.emplace_back()), CellError::kNone);
    }
    pair.pipe.clear_trace();
    return out;
  }
  /// An acknowledgement of nothing new in order, with one block: cell 0 of packet `psn` has come.
  static void expect_block(const CellView& ack, int32_t psn) {
    EXPECT_EQ(ack.ack.psn, kFirst.plus(Psn::kMask));
    ASSERT_EQ(ack.payload.size(), sizeof(SelectiveBlockWire));
    EXPECT_EQ(Psn(load_be<uint32_t>(ack.payload.data())), kFirst.plus(static_cast<uint32_t>(psn)));
    EXPECT_EQ(load_be<uint16_t>(ack.payload.data() + 4), 0);
    EXPECT_EQ(load_be<uint64_t>(ack.payload.data() + 8), 1U);
  }
  uint64_t counted(adapter::AdapterCounter counter) { return pair.side(0).adapter->counters().get(counter); }
  uint64_t counted(adapter::QpCounter counter) { return pair.side(0).adapter->counters(*qp).get(counter); }
  adapter::QpState state() { return pair.side(0).adapter->query_qp(*qp).state; }
  const std::vector<adapter::WorkCompletion>& completions() { return pair.side(0).completions; }

  AdapterPair pair;
  adapter::QueuePair* qp = nullptr;
  std::deque<std::vector<std::byte>> kept;
};

}  // namespace weft::test
