#include "messages/cell.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "base/crc32c.h"
#include "tests/support/reason_table.h"

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

TEST(Cell, nothing_of_the_cell_before_stays_in_a_view) {
  constexpr std::array kRich{
      CellVariable{.opcode = Opcode::kRdmaWrite, .flags = kCellFirst | kCellLast | kCellGlobal | kCellVa},
      CellVariable{
          .opcode = Opcode::kUdSend, .flags = kCellFirst | kCellLast | kCellIdata, .flags2 = kCell2Solicited},
      CellVariable{.opcode = Opcode::kRdWrite, .flags = kCellFirst | kCellLast | kCellVa},
      CellVariable{.opcode = Opcode::kSend, .flags = kCellFirst | kCellLast | kCellPacketCrc},
      CellVariable{.opcode = Opcode::kNak, .flags = kCellFirst | kCellLast}};
  const auto plain = make_cell(send_variable(3), std::vector<std::byte>(3));
  for (const CellVariable& variable : kRich) {
    const bool global = (variable.flags & kCellGlobal) != 0;
    const bool nak = variable.opcode == Opcode::kNak;
    const uint32_t parts_bytes =
        (global ? kGlobalHeaderBytes + kVaBytes : 0) +
        (variable.opcode == Opcode::kUdSend ? kDatagramHeaderBytes + kIdataBytes : 0) +
        (variable.opcode == Opcode::kRdWrite ? kVaBytes + kDatagramHeaderBytes : 0) +
        (variable.opcode == Opcode::kSend ? kCrcBytes : 0) + (nak ? kAckBodyBytes : 0);
    std::vector<std::byte> parts(parts_bytes, std::byte{1});
    if (nak) parts[0] = parts[7] = std::byte{0};
    if (variable.opcode == Opcode::kUdSend) parts[6] = parts[7] = std::byte{0};
    if (variable.opcode == Opcode::kRdWrite) parts[18] = parts[19] = std::byte{0};
    CellView view;
    ASSERT_EQ(decode_cell(make_cell(variable, parts), CrcCheck::kVerify, view), CellError::kNone);
    ASSERT_EQ(decode_cell(plain, CrcCheck::kVerify, view), CellError::kNone);
    EXPECT_EQ(view.va, 0U);
    EXPECT_EQ(view.rkey, Rkey(0));
    EXPECT_EQ(view.idata, 0U);
    EXPECT_EQ(view.qkey, 0U);
    EXPECT_EQ(view.pkey, kPkeyDefault);
    EXPECT_EQ(view.packet_crc, 0U);
    EXPECT_EQ(view.flags2, 0U);
    EXPECT_EQ(view.global_header, nullptr);
    EXPECT_EQ(view.ack.psn, Psn(0));
    EXPECT_EQ(view.ack.cell_number, 0U);
    EXPECT_EQ(view.ack.code, AckCode::kAck);
    EXPECT_EQ(view.ack.messages_completed, 0U);
    EXPECT_EQ(view.payload.data(), plain.data() + kCellHeaderBytes);
    EXPECT_EQ(view.payload.size(), 3U);
  }
}

/// What the layout says of flags, rule by rule.
CellError rule_broken(const OpcodeInfo& operation, uint8_t flags, uint16_t number) {
  const auto set = [flags](CellFlag flag) { return (flags & flag) != 0; };
  const auto may = [&](OpcodeProperty property) { return (operation.properties & property) != 0; };
  if (set(kCellFirst) != (number == 0) || number >= kCellsPerPacketMax) return CellError::kCellNumber;
  if (!may(kOpMultiCell) && !(set(kCellFirst) && set(kCellLast))) return CellError::kFlags;
  if (set(kCellVa) != (set(kCellFirst) && may(kOpVaInFirstCell))) return CellError::kFlags;
  if (set(kCellIdata) && !may(kOpMayCarryIdata)) return CellError::kFlags;
  if (set(kCellPacketCrc) && !set(kCellLast)) return CellError::kFlags;
  return CellError::kLength;  // the cell below is longer than any of these
}

TEST(Cell, every_operation_with_every_set_of_flags) {
  constexpr std::array<uint16_t, 4> kNumbers{0, 1, 63, 64};
  for (const OpcodeInfo& operation : kOpcodes) {
    for (uint32_t flags = 0; flags < 256; ++flags) {
      for (const uint16_t number : kNumbers) {
        const CellVariable variable{
            .opcode = operation.opcode, .flags = static_cast<uint8_t>(flags), .cell_number = number};
        CellView view;
        EXPECT_EQ(decode_cell(make_cell(variable, std::vector<std::byte>(200)), CrcCheck::kVerify, view),
                  rule_broken(operation, variable.flags, number))
            << operation.name << ", flags " << flags << ", cell " << number;
      }
    }
  }
}

TEST(Cell, neither_end_has_the_permissive_lid_or_none) {
  for (const uint16_t lid : {uint16_t{0}, uint16_t{kLidMax + 1}}) {
    for (const bool source : {false, true}) {
      CellAddress address = kAddress;
      (source ? address.slid : address.dlid) = Lid(lid);
      std::vector<std::byte> cell(kCellHeaderBytes + kCrcBytes);
      store_be(cell.data() + kCellHeaderBytes,
               compose_cell_header(cell.data(), make_cell_template(address), send_variable(0)));
      CellView view;
      EXPECT_EQ(decode_cell(cell, CrcCheck::kVerify, view), CellError::kAddress) << lid << source;
    }
  }
}

/// A Send of three bytes, one byte of which is changed, or of which the first `bytes` arrive.
struct Malformed {
  CellError reason;
  size_t offset;
  uint8_t value;
  size_t bytes = 39;
};

constexpr std::array kMalformed{
    Malformed{CellError::kTooShort, 0, 2, 20}, Malformed{CellError::kVersion, 12, 2},
    Malformed{CellError::kOpcode, 13, 0x7f},   Malformed{CellError::kReserved, 24, 1},
    Malformed{CellError::kAddress, 0, 9},      Malformed{CellError::kCellNumber, 14, 0x40},
    Malformed{CellError::kCellNumber, 29, 70}, Malformed{CellError::kLength, 31, 9},
    Malformed{CellError::kLength, 12, 1, 38},  Malformed{CellError::kFlags, 14, 0xd0},
    Malformed{CellError::kCrc, 33, 1},
};
static_assert(test::names_every_reason(kMalformed, CellError::kTooShort, CellError::kCount));

TEST(Cell, each_malformed_field_has_its_own_reason) {
  for (const Malformed& one : kMalformed) {
    auto cell = make_cell(send_variable(3), std::vector<std::byte>(3));
    ASSERT_EQ(cell.size(), 39U);
    cell[one.offset] = std::byte{one.value};
    CellView view;
    const std::span<const std::byte> arrived = std::span(cell).first(one.bytes);
    EXPECT_EQ(decode_cell(arrived, CrcCheck::kVerify, view), one.reason) << "offset " << one.offset;
  }
}

TEST(Psn, wraps_at_24_bits) {
  EXPECT_TRUE(Psn(0xffffff).before(Psn(0)));
  EXPECT_EQ(Psn(1).distance_from(Psn(0xffffff)), 2);
  EXPECT_EQ(Psn(0xffffff).plus(2), Psn(1));
}

}  // namespace
}  // namespace weft
