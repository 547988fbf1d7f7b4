#include "messages/cell.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "base/crc32c.h"

namespace weft {
namespace {

constexpr CellAddress kAddress{.dest_subnet = SubnetId(1),
                               .src_subnet = SubnetId(1),
                               .dlid = Lid(7),
                               .slid = Lid(9),
                               .vl = VirtualLane(2),
                               .sl = ServiceLevel(3),
                               .dest_qpn = Qpn(0x123456),
                               .src_qpn = Qpn(0xabcdef)};

std::vector<std::byte> make_cell(const CellVariable& variable, const std::vector<std::byte>& parts) {
  std::vector<std::byte> cell(kCellHeaderBytes + parts.size() + kCrcBytes);
  const uint32_t header_crc = compose_cell_header(cell.data(), make_cell_template(kAddress), variable);
  const uint32_t crc = crc32c_copy(header_crc, cell.data() + kCellHeaderBytes, parts.data(), parts.size());
  store_be(cell.data() + cell.size() - kCrcBytes, crc);
  return cell;
}

CellVariable send_variable(uint16_t payload_bytes) {
  return {.opcode = Opcode::kSend,
          .flags = kCellFirst | kCellLast,
          .psn = Psn(0xfffffe),
          .payload_bytes = payload_bytes};
}

TEST(Cell, header_fields_stand_where_the_layout_says) {
  const auto cell = make_cell(send_variable(3), std::vector<std::byte>(3));
  CellHeader header;
  std::memcpy(&header, cell.data(), sizeof header);
  EXPECT_EQ(header.dest_prefix.get(), kAddressPrefix);
  EXPECT_EQ(header.dlid.get(), 7);
  EXPECT_EQ(header.slid.get(), 9);
  EXPECT_EQ(header.version, kCellVersion);
  EXPECT_EQ(header.sl_vl, 0x32);
  EXPECT_EQ(header.dest_qpn.get(), 0x123456U);
  EXPECT_EQ(header.src_qpn.get(), 0xabcdefU);
  EXPECT_EQ(header.flags2_psn.get(), 0xfffffeU);
  EXPECT_EQ(header.payload_bytes.get(), 3);
}

TEST(Cell, round_trip_of_a_write_with_idata) {
  std::vector<std::byte> parts(kVaBytes + kIdataBytes + 5);
  store_be(parts.data(), uint64_t{0x1122334455667788});
  store_be(parts.data() + 8, uint32_t{0xa01});
  store_be(parts.data() + 12, uint32_t{0x07050100});
  parts[16] = std::byte{42};
  const CellVariable variable{.opcode = Opcode::kRdmaWrite,
                              .flags = kCellFirst | kCellLast | kCellVa | kCellIdata,
                              .flags2 = kCell2Solicited,
                              .psn = Psn(1),
                              .payload_bytes = 5};
  const auto cell = make_cell(variable, parts);
  CellView view;
  ASSERT_EQ(decode_cell(cell, CrcCheck::kVerify, view), CellError::kNone);
  EXPECT_EQ(view.va, 0x1122334455667788U);
  EXPECT_EQ(view.rkey, Rkey(0xa01));
  EXPECT_EQ(view.idata, 0x07050100U);
  EXPECT_EQ(view.payload.size(), 5U);
  EXPECT_EQ(view.payload[0], std::byte{42});
  EXPECT_EQ(view.vl, VirtualLane(2));
  EXPECT_EQ(view.sl, ServiceLevel(3));
}

TEST(Cell, each_malformed_field_has_its_own_reason) {
  struct Case {
    size_t offset;
    uint8_t value;
    CellError expected;
  };
  const std::array cases{Case{12, 2, CellError::kVersion},       Case{13, 0x7f, CellError::kOpcode},
                         Case{16, 1, CellError::kReserved},      Case{20, 1, CellError::kReserved},
                         Case{24, 1, CellError::kReserved},      Case{0, 9, CellError::kAddress},
                         Case{14, 0x40, CellError::kCellNumber}, Case{29, 70, CellError::kCellNumber},
                         Case{31, 9, CellError::kLength},        Case{14, 0xd0, CellError::kFlags}};
  for (const Case& c : cases) {
    auto cell = make_cell(send_variable(3), std::vector<std::byte>(3));
    cell[c.offset] = std::byte{c.value};
    CellView view;
    EXPECT_EQ(decode_cell(cell, CrcCheck::kAlreadyVerified, view), c.expected) << "offset " << c.offset;
  }
  auto cell = make_cell(send_variable(3), std::vector<std::byte>(3));
  CellView view;
  cell[33] = std::byte{1};
  EXPECT_EQ(decode_cell(cell, CrcCheck::kVerify, view), CellError::kCrc);
  EXPECT_EQ(decode_cell(std::span(cell).first(20), CrcCheck::kVerify, view), CellError::kTooShort);
}

TEST(Psn, wraps_at_24_bits) {
  EXPECT_TRUE(Psn(0xffffff).before(Psn(0)));
  EXPECT_EQ(Psn(1).distance_from(Psn(0xffffff)), 2);
  EXPECT_EQ(Psn(0xffffff).plus(2), Psn(1));
}

}  // namespace
}  // namespace weft
