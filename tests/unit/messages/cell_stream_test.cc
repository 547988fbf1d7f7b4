#include "messages/cell_stream.h"

#include <gtest/gtest.h>

#include <cstring>
#include <tuple>
#include <vector>

#include "base/rng.h"

namespace weft {
namespace {

auto fields_of(const CellView& view) {
  const auto& ack = view.ack;
  return std::make_tuple(
      std::tuple(view.dest_subnet, view.src_subnet, view.dlid, view.slid, view.opcode),
      std::tuple(view.flags, view.flags2, view.vl, view.sl, view.dest_qpn, view.src_qpn),
      std::tuple(view.psn, view.cell_number, view.va, view.rkey, view.idata, view.qkey),
      std::tuple(view.srq, view.pkey, view.packet_crc, ack.psn, ack.cell_number, ack.code),
      std::tuple(ack.messages_completed, view.global_header, view.payload.data(), view.payload.size()));
}

/// A cell with `bytes` bytes behind its header and before its CRC, which nobody checks here.
std::vector<std::byte> stream_cell(const CellVariable& variable, size_t bytes, uint8_t fill) {
  const CellTemplate fixed = make_cell_template({.dest_subnet = SubnetId(1),
                                                 .src_subnet = SubnetId(1),
                                                 .dlid = Lid(7),
                                                 .slid = Lid(9),
                                                 .vl = VirtualLane(2),
                                                 .sl = ServiceLevel(3),
                                                 .dest_qpn = Qpn(0x123456),
                                                 .src_qpn = Qpn(0xabcdef)});
  std::vector<std::byte> cell(kCellHeaderBytes + bytes + kCrcBytes, std::byte{fill});
  (void)compose_cell_header(cell.data(), fixed, variable);
  return cell;
}

std::vector<std::byte> middle_cell(uint16_t number, uint16_t bytes) {
  return stream_cell(
      {.opcode = Opcode::kRdmaWrite, .psn = Psn(4), .cell_number = number, .payload_bytes = bytes}, bytes, 0);
}

std::vector<std::byte> whole_write(uint32_t psn, uint8_t fill) {
  return stream_cell({.opcode = Opcode::kRdmaWrite,
                      .flags = kCellFirst | kCellLast | kCellVa | kCellIdata,
                      .psn = Psn(psn),
                      .payload_bytes = 8},
                     kVaBytes + kIdataBytes + 8, fill);
}

/// Decodes `cell` with the stream and alone: both must say the same.
void expect_same(CellStream& stream, const std::vector<std::byte>& cell) {
  CellView alone;
  const CellError error = decode_cell(cell, CrcCheck::kAlreadyVerified, alone);
  ASSERT_EQ(stream.decode(cell, CrcCheck::kAlreadyVerified), error);
  if (error == CellError::kNone) {
    ASSERT_EQ(fields_of(stream.cell()), fields_of(alone));
  }
}

TEST(CellStream, a_cell_like_the_last_one_gives_its_own_fields) {
  CellStream stream;
  expect_same(stream, whole_write(5, 0x11));
  EXPECT_FALSE(stream.repeats());
  expect_same(stream, whole_write(6, 0x22));
  EXPECT_TRUE(stream.repeats());
  expect_same(stream, middle_cell(3, 256));
  EXPECT_FALSE(stream.repeats());
  expect_same(stream, middle_cell(4, 100));
  EXPECT_TRUE(stream.repeats());
}

std::vector<std::byte> ack(uint32_t psn, uint16_t blocks) {
  const auto bytes = static_cast<uint16_t>(16 * blocks);
  std::vector<std::byte> cell = stream_cell(
      {.opcode = Opcode::kAck, .flags = kCellFirst | kCellLast, .psn = Psn(psn), .payload_bytes = bytes},
      kAckBodyBytes + bytes, 0);
  store_be(&cell[kCellHeaderBytes], psn);
  store_be(&cell[kCellHeaderBytes + 8], psn + 1);
  return cell;
}

TEST(CellStream, acknowledgements_do_not_disturb_the_data_between_them) {
  CellStream stream;
  expect_same(stream, middle_cell(3, 256));
  expect_same(stream, ack(7, 0));
  EXPECT_EQ(stream.kind(), CellStream::kAck);
  EXPECT_FALSE(stream.repeats());
  expect_same(stream, middle_cell(4, 256));
  EXPECT_EQ(stream.kind(), CellStream::kData);
  EXPECT_TRUE(stream.repeats());
  expect_same(stream, ack(8, 3));
  EXPECT_TRUE(stream.repeats());
  expect_same(stream, ack(9, 4));  // more blocks than an ACK may have
  for (size_t bit = 0; bit < 8 * (kAckBodyBytes + 16); ++bit) {
    std::vector<std::byte> changed = ack(10, 1);
    changed[kCellHeaderBytes + bit / 8] ^= std::byte{1} << (bit % 8);
    expect_same(stream, changed);
  }
}

TEST(CellStream, a_cell_with_a_changed_bit_is_decoded_as_if_it_came_alone) {
  for (const auto& cell : {whole_write(5, 0x11), middle_cell(3, 16), ack(4, 1)}) {
    for (size_t bit = 0; bit < 8 * kCellHeaderBytes; ++bit) {
      CellStream stream;
      expect_same(stream, cell);
      std::vector<std::byte> changed = cell;
      changed[bit / 8] ^= std::byte{1} << (bit % 8);
      expect_same(stream, changed);
      expect_same(stream, cell);
    }
  }
}

TEST(CellStream, numbers_and_lengths_that_cannot_be_are_refused_behind_a_cell_of_their_kind) {
  for (const uint32_t number : {0U, 1U, 63U, 64U, 65U, 0x7FFFU, 0xFFFFU}) {
    CellStream stream;
    expect_same(stream, middle_cell(3, 16));
    expect_same(stream, middle_cell(static_cast<uint16_t>(number), 16));
  }
  CellStream stream;
  expect_same(stream, middle_cell(3, 16));
  for (const size_t bytes : {0U, 35U, 36U, 51U, 53U, 300U}) {
    std::vector<std::byte> cut = middle_cell(3, 16);
    cut.resize(bytes);
    expect_same(stream, cut);
  }
}

TEST(CellStream, a_wrong_checksum_is_noticed_when_it_is_to_be_checked) {
  CellStream stream;
  expect_same(stream, middle_cell(3, 16));
  EXPECT_EQ(stream.decode(middle_cell(4, 16), CrcCheck::kVerify), CellError::kCrc);
}

/// Cells of all kinds, most of them like the one before, some with changed bytes.
TEST(CellStream, any_stream_is_decoded_like_its_single_cells) {
  SeededRandom random(7);
  CellStream stream;
  std::vector<std::byte> cell;
  for (int i = 0; i < 200'000; ++i) {
    if (cell.empty() || random.next() % 8 == 0) {
      const OpcodeInfo& info = kOpcodes[random.next() % kOpcodes.size()];
      const auto flags = static_cast<uint8_t>(random.next());
      cell = stream_cell({.opcode = info.opcode,
                          .flags = random.next() % 2 == 0 ? flags : uint8_t{kCellFirst | kCellLast},
                          .flags2 = static_cast<uint8_t>(random.next() & kCell2OfPacket)},
                         random.next() % 80, static_cast<uint8_t>(random.next() % 3));
    }
    const auto bytes = static_cast<uint16_t>(cell.size() - kCellHeaderBytes - kCrcBytes);
    const auto parts = std::min<uint16_t>(bytes, static_cast<uint16_t>(random.next() % 4 * 4));
    store_be(&cell[30], static_cast<uint16_t>(bytes - parts));
    store_be(&cell[28], static_cast<uint16_t>(random.next() % 3 == 0 ? 0 : random.next() % 70));
    if (random.next() % 16 == 0) cell[random.next() % cell.size()] ^= std::byte{1} << (random.next() % 8);
    ASSERT_NO_FATAL_FAILURE(expect_same(stream, cell));
  }
}

}  // namespace
}  // namespace weft
