// LAY-NTB: every field of anchor record, slot and table entry at its place, and every wrong value refused by
// its reason.
#include "messages/window_layout.h"

#include <gtest/gtest.h>

#include <functional>

#include "base/crc32c.h"

namespace weft::test {
namespace {

constexpr uint64_t kMemoryBytes = 65'536;
constexpr uint64_t kRecordAt = 64;

WindowAnchor good_anchor() {
  return {.generation = 0x0102030405060708,
          .fifo_offset = 128,
          .fifo_bytes = 64 + 4 * 128,
          .table_offset = 1024,
          .table_bytes = 24 * 10,
          .slot_bytes = 128};
}

using Record = std::array<std::byte, kAnchorBytes>;

/// As the peer might: a field is set, and the CRC is right.
Record with(const std::function<void(std::byte*)>& change) {
  Record record = encode_anchor(good_anchor());
  change(record.data());
  store_be(record.data() + 60, crc32c(std::span(record).first(60)));
  return record;
}

AnchorFault fault_of(const Record& record, uint64_t at = kRecordAt, uint64_t memory = kMemoryBytes) {
  WindowAnchor out;
  const AnchorFault fault = decode_anchor(record, at, memory, out);
  EXPECT_EQ(out == WindowAnchor{}, fault != AnchorFault::kNone) << "set on success only";
  return fault;
}

TEST(WindowLayout, anchor_record_has_its_fields_where_the_page_says) {
  const Record record = encode_anchor(good_anchor());
  EXPECT_EQ(load_be<uint32_t>(record.data()), 0x414E4352U);
  EXPECT_EQ(load_be<uint16_t>(record.data() + 4), 1U);
  EXPECT_EQ(load_be<uint16_t>(record.data() + 6), 0U);
  EXPECT_EQ(load_be<uint64_t>(record.data() + 8), 0x0102030405060708U);
  EXPECT_EQ(load_be<uint64_t>(record.data() + 16), 128U);
  EXPECT_EQ(load_be<uint64_t>(record.data() + 24), 576U);
  EXPECT_EQ(load_be<uint64_t>(record.data() + 32), 1024U);
  EXPECT_EQ(load_be<uint64_t>(record.data() + 40), 240U);
  EXPECT_EQ(load_be<uint32_t>(record.data() + 48), 128U);
  EXPECT_EQ(load_be<uint64_t>(record.data() + 52), 0U);
  EXPECT_EQ(load_be<uint32_t>(record.data() + 60), crc32c(std::span(record).first(60)));
  WindowAnchor out;
  ASSERT_EQ(decode_anchor(record, kRecordAt, kMemoryBytes, out), AnchorFault::kNone);
  EXPECT_EQ(out, good_anchor());
  EXPECT_EQ(out.slots(), 4U);
  EXPECT_EQ(out.entries(), 10U);
  EXPECT_EQ(out.slot_at(0), 192U);
  EXPECT_EQ(out.slot_at(7), 192U + 3 * 128) << "positions wrap";
}

TEST(WindowLayout, each_bit_of_an_anchor_record_is_covered_by_its_crc) {
  for (size_t bit = 0; bit < kAnchorBytes * 8; ++bit) {
    Record record = encode_anchor(good_anchor());
    record[bit / 8] ^= std::byte{static_cast<uint8_t>(1U << bit % 8)};
    EXPECT_EQ(fault_of(record), AnchorFault::kCrc) << bit;
  }
}

struct WrongField {
  const char* what;
  AnchorFault fault;
  std::function<void(std::byte*)> change;
};

template <class T>
std::function<void(std::byte*)> field(size_t at, T value) {
  return [at, value](std::byte* record) { store_be(record + at, value); };
}

TEST(WindowLayout, each_wrong_field_of_an_anchor_record_has_its_reason) {
  const uint64_t top = UINT64_MAX;
  const std::vector<WrongField> wrong{
      {"magic", AnchorFault::kMagic, field(0, uint32_t{0x414E4353})},
      {"no magic", AnchorFault::kMagic, field(0, uint32_t{0})},
      {"version 0", AnchorFault::kVersion, field(4, uint16_t{0})},
      {"version 2", AnchorFault::kVersion, field(4, uint16_t{2})},
      {"reserved", AnchorFault::kReserved, field(6, uint16_t{1})},
      {"reserved behind", AnchorFault::kReserved, field(52, uint64_t{1})},
      {"slot 0", AnchorFault::kSlot, field(48, uint32_t{0})},
      {"slot 56", AnchorFault::kSlot, field(48, uint32_t{56})},
      {"slot 132", AnchorFault::kSlot, field(48, uint32_t{132})},
      {"slot 64 KiB + 8", AnchorFault::kSlot, field(48, uint32_t{65'544})},
      {"slot of all ones", AnchorFault::kSlot, field(48, UINT32_MAX)},
      {"fifo at an odd place", AnchorFault::kFifo, field(16, uint64_t{132})},
      {"fifo beyond", AnchorFault::kFifo, field(16, kMemoryBytes)},
      {"fifo ends beyond", AnchorFault::kFifo, field(16, kMemoryBytes - 568)},
      {"fifo that wraps", AnchorFault::kFifo, field(16, top - 7)},
      {"no fifo", AnchorFault::kFifo, field(24, uint64_t{0})},
      {"fifo without slots", AnchorFault::kFifo, field(24, uint64_t{64})},
      {"fifo smaller than its control block", AnchorFault::kFifo, field(24, uint64_t{56})},
      {"one slot", AnchorFault::kFifo, field(24, uint64_t{64 + 128})},
      {"three slots", AnchorFault::kFifo, field(24, uint64_t{64 + 3 * 128})},
      {"half a slot more", AnchorFault::kFifo, field(24, uint64_t{64 + 4 * 128 + 64})},
      {"fifo of all bytes", AnchorFault::kFifo, field(24, top)},
      {"table at an odd place", AnchorFault::kTable, field(32, uint64_t{1028})},
      {"table beyond", AnchorFault::kTable, field(32, kMemoryBytes + 8)},
      {"table that wraps", AnchorFault::kTable, field(32, top - 7)},
      {"half an entry", AnchorFault::kTable, field(40, uint64_t{12})},
      {"table of all bytes", AnchorFault::kTable, field(40, top)},
      {"fifo over the record", AnchorFault::kOverlap, field(16, uint64_t{120})},
      {"table over the record", AnchorFault::kOverlap, field(32, uint64_t{56})},
      {"table in the fifo", AnchorFault::kOverlap, field(32, uint64_t{696})},
      {"table around all", AnchorFault::kOverlap,
       [](std::byte* record) {
         store_be(record + 32, uint64_t{0});
         store_be(record + 40, uint64_t{24 * 100});
       }},
  };
  for (const WrongField& one : wrong) EXPECT_EQ(fault_of(with(one.change)), one.fault) << one.what;
  EXPECT_EQ(fault_of(with(field(8, uint64_t{7}))), AnchorFault::kNone) << "any generation";
  const uint64_t many = kTableEntriesMax + 1;
  EXPECT_EQ(fault_of(with(field(40, many * 24)), kRecordAt, 4 * many * 24), AnchorFault::kTable);
  EXPECT_EQ(fault_of(with(field(40, uint64_t{0}))), AnchorFault::kNone) << "a peer that shows nothing";
}

TEST(WindowLayout, a_record_lies_inside_the_window_memory) {
  const Record record = encode_anchor(good_anchor());
  for (const uint64_t at : {uint64_t{0}, uint64_t{4}, kMemoryBytes - 56, kMemoryBytes, UINT64_MAX - 7}) {
    EXPECT_EQ(fault_of(record, at), AnchorFault::kPlace) << at;
  }
  EXPECT_EQ(fault_of(record, kMemoryBytes - 64), AnchorFault::kNone);
  EXPECT_EQ(fault_of(record, 0x30), AnchorFault::kNone);
  EXPECT_EQ(fault_of(record, kRecordAt, 63), AnchorFault::kPlace);
}

TEST(WindowLayout, slots_say_length_contexts_and_sequence) {
  const auto bytes = encode_slot({112, 0xA1B2C3, 0x010203}, 0x1'0000'0005);
  EXPECT_EQ(load_be<uint32_t>(bytes.data()), 112U);
  EXPECT_EQ(load_be<uint32_t>(bytes.data() + 4), 0xA1B2C3U);
  EXPECT_EQ(load_be<uint32_t>(bytes.data() + 8), 0x010203U);
  EXPECT_EQ(load_be<uint32_t>(bytes.data() + 12), 5U);
  FifoSlot out;
  ASSERT_EQ(decode_slot(bytes, 128, 5, out), SlotFault::kNone);
  EXPECT_EQ(out.length, 112U);
  EXPECT_EQ(decode_slot(bytes, 120, 5, out), SlotFault::kLength) << "longer than the slot";
  EXPECT_EQ(decode_slot(encode_slot({UINT32_MAX, 1, 1}, 5), 128, 5, out), SlotFault::kLength);
  EXPECT_EQ(decode_slot(bytes, 128, 4, out), SlotFault::kSequence);
  EXPECT_EQ(decode_slot(bytes, 128, 6, out), SlotFault::kSequence);
}

TEST(WindowLayout, entries_are_whole_or_refused) {
  const WindowEntry good{0x7FFF'0000'1000, 0x2000, kTableRead | kTableWrite, 0xDEADBEEF};
  const auto bytes = encode_entry(good);
  EXPECT_EQ(load_be<uint64_t>(bytes.data()), good.start);
  EXPECT_EQ(load_be<uint64_t>(bytes.data() + 8), good.length);
  EXPECT_EQ(load_be<uint32_t>(bytes.data() + 16), 3U);
  EXPECT_EQ(load_be<uint32_t>(bytes.data() + 20), 0xDEADBEEFU);
  EXPECT_EQ(decode_entry(bytes), good);
  const auto fault = [&](auto change) {
    WindowEntry entry = good;
    change(entry);
    return fault_of(decode_entry(encode_entry(entry)));
  };
  EXPECT_EQ(fault([](WindowEntry&) {}), TableFault::kNone);
  EXPECT_EQ(fault([](WindowEntry& e) { e = {}; }), TableFault::kNone) << "free";
  EXPECT_EQ(fault([](WindowEntry& e) { e.length = 0; }), TableFault::kLength);
  EXPECT_EQ(fault([](WindowEntry& e) { e.start = UINT64_MAX; }), TableFault::kWraps);
  EXPECT_EQ(fault([](WindowEntry& e) { e.length = UINT64_MAX; }), TableFault::kWraps);
  EXPECT_EQ(fault([](WindowEntry& e) { e.start = 0 - e.length; }), TableFault::kNone) << "to the last byte";
  EXPECT_EQ(fault([](WindowEntry& e) { e.rights = 0; }), TableFault::kRights);
  EXPECT_EQ(fault([](WindowEntry& e) { e.rights = 8 | 1; }), TableFault::kRights);
  EXPECT_EQ(fault([](WindowEntry& e) { e.rights = UINT32_MAX; }), TableFault::kRights);
}

}  // namespace
}  // namespace weft::test
