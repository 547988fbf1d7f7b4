// The worked examples of docs/wire_format.md, so that the bytes there stay true.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/crc32c.h"
#include "messages/cell.h"
#include "messages/flit.h"
#include "messages/multicast.h"
#include "messages/netdev.h"
#include "messages/transport_headers.h"
#include "tests/support/netdev_random.h"

namespace weft {
namespace {

const char* const kCell =
    "02 00 00 01 00 02 02 00  00 01 00 01 01 02 da 00"
    "00 4a 1c 07 00 91 d3 02  00 2f 0a 11 00 00 00 04"
    "5c 3a 71 e6 d0 42 15 00  2a 9e 4c 01 07 05 01 00"
    "77 65 66 74 15 00 01 a6";
const char* const kFlit = "00 c0 00 38 01 02 00 fe  00 00 00 40 ef 3f e9 1c";

TEST(WireGolden, a_write_with_idata) {
  const std::vector<std::byte> cell = test::from_hex(kCell);
  CellView view;
  ASSERT_EQ(decode_cell(cell, CrcCheck::kVerify, view), CellError::kNone);
  EXPECT_EQ(view.dlid, Lid(2));
  EXPECT_EQ(view.slid, Lid(1));
  EXPECT_EQ(view.opcode, Opcode::kRdmaWrite);
  EXPECT_EQ(view.flags, kCellFirst | kCellLast | kCellVa | kCellIdata | kCellAckWanted);
  EXPECT_EQ(view.psn, Psn(0x2f0a11));
  EXPECT_EQ(view.va, 0x5c3a71e6d0421000U + 5 * 256);
  EXPECT_EQ(view.rkey, Rkey(0x2a9e4c01));
  EXPECT_EQ(decode_idata(view.idata), (PoolElement{7, 5, 256}));
  ASSERT_EQ(view.payload.size(), 4U);
  EXPECT_EQ(std::memcmp(view.payload.data(), "weft", 4), 0);
}

TEST(WireGolden, the_lid_of_a_group) {
  const std::vector<std::byte> bytes = test::from_hex("ff 12 40 1b ff ff 00 00  00 00 00 00 e0 00 00 01");
  Gid gid{};
  std::copy(bytes.begin(), bytes.end(), gid.begin());
  EXPECT_EQ(multicast_lid(gid), Lid(0xf38f));
  for (int last = 0; last < 256; ++last) {
    gid[15] = static_cast<std::byte>(last);
    EXPECT_TRUE(is_multicast(multicast_lid(gid)));
  }
}

/// A switch knows the datagrams to QP1 of all endnodes by this LID, so no other group may have it.
TEST(WireGolden, the_lid_of_all_endnodes_is_no_other_groups) {
  EXPECT_EQ(multicast_lid(kGidEverybody), kLidEverybody);
  Gid gid = kGidEverybody;
  int displaced = 0;
  for (uint32_t i = 0; i < 1U << 16; ++i) {
    store_be(&gid[8], i + 1);
    ASSERT_NE(multicast_lid(gid), kLidEverybody) << i;
    displaced += multicast_lid(gid) == kLidMulticastFirst ? 1 : 0;
  }
  EXPECT_GT(displaced, 0);
}

TEST(WireGolden, the_cell_in_a_flit) {
  const std::vector<std::byte> cell = test::from_hex(kCell);
  const uint32_t cell_crc = load_be<uint32_t>(cell.data() + cell.size() - kCrcBytes);
  std::vector<std::byte> header(kFlitHeaderBytes);
  compose_cell_flit(header.data(),
                    {.kind = FlitKind::kData,
                     .vl = VirtualLane(0),
                     .flags = kFlitHead | kFlitTail,
                     .payload_bytes = static_cast<uint16_t>(cell.size()),
                     .sequence = 0x0102,
                     .acknowledged = 0x00fe,
                     .credit_vl = VirtualLane(0),
                     .credit = 64},
                    cell_crc);
  EXPECT_EQ(header, test::from_hex(kFlit));
}

// ---- LAY-ACK, LAY-READ, UD: what stands behind the header -------------------------------------

const char* const kAck =
    "02 00 00 01 00 01 02 00  00 01 00 02 01 10 c0 00"
    "00 91 d3 02 00 4a 1c 07  00 2f 0a 11 00 00 00 00"
    "00 2f 0a 11 00 00 00 00  00 00 00 01 32 f0 bb 14";
const char* const kSelectiveAck =
    "02 00 00 01 00 01 02 00  00 01 00 02 01 10 c0 00"
    "00 91 d3 02 00 4a 1c 07  00 2f 0a 11 00 00 00 20"
    "00 2f 0a 11 00 03 00 00  00 00 00 07 00 2f 0a 12"
    "00 00 00 00 00 00 00 00  00 00 00 0d 00 2f 0a 14"
    "00 00 00 00 80 00 00 00  00 00 00 00 9a 03 34 cb";
const char* const kNak =
    "02 00 00 01 00 01 02 00  00 01 00 02 01 11 c0 00"
    "00 91 d3 02 00 4a 1c 07  00 2f 0a 11 00 00 00 00"
    "00 2f 0a 11 00 00 03 00  00 00 00 01 7e eb 10 43";
const char* const kDatagram =
    "02 00 00 01 00 02 02 00  00 01 00 01 01 21 c0 10"
    "00 00 00 01 00 00 00 42  00 00 00 09 00 00 00 02"
    "80 01 00 00 ff ff 00 00  ca fe 6f 42 fa d5";
const char* const kReliableWrite =
    "02 00 00 01 00 02 02 00  00 01 00 01 01 23 d2 10"
    "00 00 00 2a 00 00 00 42  00 00 00 09 00 00 00 02"
    "5c 3a 71 e6 d0 42 10 00  2a 9e 4c 01 80 01 00 00"
    "ff ff 00 00 ca fe fd 52 5c 83";
const char* const kReadRequest =
    "02 00 00 01 00 02 02 00  00 01 00 01 01 03 c2 00"
    "00 4a 1c 07 00 91 d3 02  00 2f 0a 11 00 00 00 20"
    "1a 01 b1 02 00 00 00 00  00 00 70 00 00 00 02 00"
    "2a 9e 4c 01 5c 3a 71 e6  d0 42 10 00 00 00 00 05"
    "0f 84 1a d9";

CellView decoded(const std::vector<std::byte>& cell) {
  CellView view;
  EXPECT_EQ(decode_cell(cell, CrcCheck::kVerify, view), CellError::kNone);
  return view;
}

/// With the CRC made right again, so that only the form is left to be refused.
CellError changed(const char* hex, size_t offset, uint8_t value) {
  std::vector<std::byte> cell = test::from_hex(hex);
  cell[offset] = static_cast<std::byte>(value);
  const size_t covered = cell.size() - kCrcBytes;
  store_be(cell.data() + covered, crc32c(std::span(cell).first(covered)));
  CellView view;
  return decode_cell(cell, CrcCheck::kVerify, view);
}

TEST(WireGolden, an_ack_is_48_bytes) {
  const std::vector<std::byte> cell = test::from_hex(kAck);
  ASSERT_EQ(cell.size(), 48U);
  const CellView view = decoded(cell);
  EXPECT_EQ(view.opcode, Opcode::kAck);
  EXPECT_EQ(view.ack.psn, Psn(0x2f0a11));
  EXPECT_EQ(view.ack.cell_number, 0);
  EXPECT_EQ(view.ack.code, AckCode::kAck);
  EXPECT_EQ(view.ack.messages_completed, 1U);
  EXPECT_TRUE(view.payload.empty());
  EXPECT_EQ(changed(kAck, 39, 1), CellError::kReserved);
  EXPECT_EQ(changed(kAck, 32, 1), CellError::kReserved) << "a PSN has 24 bits";
  EXPECT_EQ(changed(kAck, 38, 8), CellError::kReserved) << "codes end at 7";
}

TEST(WireGolden, a_selective_ack_has_blocks_of_sixteen_bytes) {
  const std::vector<std::byte> cell = test::from_hex(kSelectiveAck);
  const CellView view = decoded(cell);
  EXPECT_EQ(view.ack.cell_number, 3);
  EXPECT_EQ(view.ack.messages_completed, 7U);
  ASSERT_EQ(view.payload.size(), 2 * sizeof(SelectiveBlockWire));
  SelectiveBlockWire blocks[2];
  std::memcpy(static_cast<void*>(blocks), view.payload.data(), sizeof blocks);
  EXPECT_EQ(blocks[0].psn.get(), 0x2f0a12U);
  EXPECT_EQ(blocks[0].base_cell.get(), 0);
  EXPECT_EQ(blocks[0].bitmap.get(), 0xDU);
  EXPECT_EQ(blocks[1].psn.get(), 0x2f0a14U);
  EXPECT_EQ(blocks[1].bitmap.get(), uint64_t{1} << 63);
  for (const size_t reserved : {44U, 50U, 51U, 60U, 66U}) {
    EXPECT_EQ(changed(kSelectiveAck, reserved, 1), CellError::kReserved) << reserved;
  }
  // Blocks are whole, and at most three: with them an ACK is one conformance flit.
  for (const size_t payload : {1U, 15U, 17U, 64U}) {
    std::vector<std::byte> ack = test::from_hex(kAck);
    ack.insert(ack.end() - kCrcBytes, payload, std::byte{0});
    store_be(ack.data() + 30, static_cast<uint16_t>(payload));
    CellView out;
    EXPECT_EQ(decode_cell(ack, CrcCheck::kAlreadyVerified, out), CellError::kLength) << payload;
  }
}

TEST(WireGolden, a_nak_differs_in_operation_and_code) {
  const CellView view = decoded(test::from_hex(kNak));
  EXPECT_EQ(view.opcode, Opcode::kNak);
  EXPECT_EQ(view.ack.code, AckCode::kRemoteAccess);
  EXPECT_EQ(view.ack.psn, Psn(0x2f0a11));
}

TEST(WireGolden, a_datagram_has_eight_bytes_more) {
  const std::vector<std::byte> cell = test::from_hex(kDatagram);
  const CellView view = decoded(cell);
  EXPECT_EQ(view.opcode, Opcode::kUdSend);
  EXPECT_EQ(view.sl, ServiceLevel(1));
  EXPECT_EQ(view.qkey, 0x80010000U);
  EXPECT_EQ(view.pkey, 0xFFFF);
  EXPECT_EQ(view.payload.data(), cell.data() + 40);
  EXPECT_EQ(view.payload.size(), 2U);
  EXPECT_EQ(changed(kDatagram, 38, 1), CellError::kReserved);
  EXPECT_EQ(changed(kDatagram, 39, 1), CellError::kReserved);
  for (const size_t pkey : {16U, 20U})
    EXPECT_EQ(changed(kDatagram, pkey, 1), CellError::kReserved) << "its partition stands behind the Q_Key";
}

TEST(WireGolden, a_reliable_datagram_write_has_its_q_key_behind_the_address) {
  const std::vector<std::byte> cell = test::from_hex(kReliableWrite);
  const CellView view = decoded(cell);
  EXPECT_EQ(view.opcode, Opcode::kRdWrite);
  EXPECT_EQ(view.va, 0x5c3a71e6d0421000U);
  EXPECT_EQ(view.rkey, Rkey(0x2a9e4c01));
  EXPECT_EQ(view.qkey, 0x80010000U);
  EXPECT_EQ(view.pkey, 0xFFFF);
  EXPECT_EQ(view.payload.data(), cell.data() + 52);
  EXPECT_EQ(view.payload.size(), 2U);
  EXPECT_EQ(changed(kReliableWrite, 50, 1), CellError::kReserved);
  EXPECT_EQ(changed(kReliableWrite, 51, 1), CellError::kReserved);
  EXPECT_EQ(changed(kReliableWrite, 14, 0x80 | 0x10), CellError::kFlags) << "it is one cell";
}

TEST(WireGolden, a_read_request_names_sink_and_source) {
  const std::vector<std::byte> cell = test::from_hex(kReadRequest);
  const CellView view = decoded(cell);
  EXPECT_EQ(view.opcode, Opcode::kRdmaReadRequest);
  ReadRequestWire request;
  ASSERT_EQ(view.payload.size(), sizeof request);
  std::memcpy(static_cast<void*>(&request), view.payload.data(), sizeof request);
  EXPECT_EQ(request.sink_key.get(), 0x1a01b102U);
  EXPECT_EQ(request.sink_address.get(), 0x7000U);
  EXPECT_EQ(request.length.get(), 512U);
  EXPECT_EQ(request.source_key.get(), 0x2a9e4c01U);
  EXPECT_EQ(request.source_address.get(), 0x5c3a71e6d0421000U);
  EXPECT_EQ(request.message_sequence.get(), 5U);
}

// ---- LAY-FLIT ---------------------------------------------------------------------------------

struct FlitExample {
  const char* header;
  FlitFields fields;
  std::vector<std::byte> payload;
};

std::vector<FlitExample> flit_examples() {
  std::vector<std::byte> full(96);
  for (size_t i = 0; i < full.size(); ++i) full[i] = static_cast<std::byte>(i);
  return {{"02 80 00 60 01 02 00 fe  03 00 00 40 18 2e 0e 5e",
           {.kind = FlitKind::kData,
            .vl = VirtualLane(2),
            .flags = kFlitHead,
            .payload_bytes = 96,
            .sequence = 0x0102,
            .acknowledged = 0x00fe,
            .credit_vl = VirtualLane(3),
            .credit = 0x40},
           full},
          {"02 40 00 04 01 03 00 fe  03 00 00 41 ac fc 65 42",
           {.kind = FlitKind::kData,
            .vl = VirtualLane(2),
            .flags = kFlitTail,
            .payload_bytes = 4,
            .sequence = 0x0103,
            .acknowledged = 0x00fe,
            .credit_vl = VirtualLane(3),
            .credit = 0x41},
           test::from_hex("01020304")},
          {"10 00 00 00 01 03 00 fe  00 00 00 00 5b 09 64 3e",
           {.kind = FlitKind::kAck, .sequence = 0x0103, .acknowledged = 0x00fe},
           {}},
          {"20 00 00 00 01 03 00 fe  01 00 00 07 79 fc c2 58",
           {.kind = FlitKind::kRepeat,
            .sequence = 0x0103,
            .acknowledged = 0x00fe,
            .credit_vl = VirtualLane(1),
            .credit = 7},
           {}},
          {"30 10 00 00 01 03 00 fe  02 00 ff ff 85 33 3d 22",
           {.kind = FlitKind::kCredit,
            .flags = kFlitAnswer,
            .sequence = 0x0103,
            .acknowledged = 0x00fe,
            .credit_vl = VirtualLane(2),
            .credit = 0xFFFF},
           {}}};
}

TEST(WireGolden, flits_of_every_kind) {
  const FlitProfile profile{.payload_bytes_max = 96, .lanes = 4, .whole_cell = false};
  for (const FlitExample& example : flit_examples()) {
    std::vector<std::byte> flit(kFlitHeaderBytes);
    flit.insert(flit.end(), example.payload.begin(), example.payload.end());
    compose_flit(flit.data(), example.fields, false, 0);
    std::vector<std::byte> expected = test::from_hex(example.header);
    expected.insert(expected.end(), example.payload.begin(), example.payload.end());
    EXPECT_EQ(flit, expected) << example.header;
    FlitView view;
    ASSERT_EQ(decode_flit(expected, profile, view), FlitError::kNone) << example.header;
    EXPECT_EQ(view.fields, example.fields) << example.header;
    EXPECT_EQ(view.payload.size(), example.payload.size());
  }
}

}  // namespace
}  // namespace weft
