// The worked examples of docs/wire_format.md, so that the bytes there stay true.
#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "base/crc32c.h"
#include "messages/cell.h"
#include "messages/flit.h"
#include "messages/netdev.h"
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

}  // namespace
}  // namespace weft
