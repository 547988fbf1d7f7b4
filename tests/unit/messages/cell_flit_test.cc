// The inline case of decode_flit() takes exactly what decode_flit() takes, and says the same of it.
#include "messages/cell_flit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "base/crc32c.h"
#include "base/crc32c_few.h"

namespace weft {
namespace {

constexpr FlitProfile kProfile{.payload_bytes_max = 512, .lanes = 4, .whole_cell = true};

/// A slot with a flit whose payload, `bytes` long, ends in its CRC; both CRCs are right.
std::vector<std::byte> make_slot(uint32_t bytes, const FlitFields& given) {
  std::vector<std::byte> slot(kFlitHeaderBytes + kProfile.payload_bytes_max + 64);
  for (size_t i = 0; i < bytes; ++i) slot[kFlitHeaderBytes + i] = static_cast<std::byte>(i * 37 + bytes);
  const uint32_t crc = crc32c({slot.data() + kFlitHeaderBytes, bytes - kCrcBytes});
  store_be(slot.data() + kFlitHeaderBytes + bytes - kCrcBytes, crc);
  FlitFields fields = given;
  fields.payload_bytes = static_cast<uint16_t>(bytes);
  compose_cell_flit(slot.data(), fields, crc);
  return slot;
}

constexpr FlitFields kFields{.kind = FlitKind::kData,
                             .vl = VirtualLane(3),
                             .flags = kFlitHead | kFlitTail,
                             .sequence = 0x1234,
                             .acknowledged = 0xfffe,
                             .credit_vl = VirtualLane(2),
                             .credit = 0x8001};

/// Both decoders agree: what the inline one takes is good and reads the same, and what is good it takes.
void expect_agreement(const std::vector<std::byte>& slot, const FlitProfile& profile) {
  FlitView quick;
  FlitView whole;
  const bool taken = decode_cell_flit(slot, profile, quick);
  const FlitError error = decode_flit(slot, profile, whole);
  const bool cell = error == FlitError::kNone && whole.fields.kind == FlitKind::kData && profile.whole_cell;
  ASSERT_EQ(taken, cell) << to_string(error);
  if (!taken) return;
  EXPECT_EQ(quick.fields, whole.fields);
  EXPECT_EQ(quick.cell_crc, whole.cell_crc);
  EXPECT_EQ(quick.payload.data(), whole.payload.data());
  EXPECT_EQ(quick.payload.size(), whole.payload.size());
}

TEST(CellFlit, cells_of_every_length_are_taken) {
  for (uint32_t bytes = 30; bytes <= kProfile.payload_bytes_max + 8; ++bytes) {
    SCOPED_TRACE(bytes);
    const auto slot = make_slot(bytes, kFields);
    FlitView view;
    EXPECT_EQ(decode_cell_flit(slot, kProfile, view),
              bytes >= kCellHeaderBytes + kCrcBytes && bytes <= kProfile.payload_bytes_max);
    expect_agreement(slot, kProfile);
  }
}

TEST(CellFlit, no_changed_bit_is_taken) {
  for (const uint32_t bytes : {36U, 60U, 75U, 200U}) {
    const auto good = make_slot(bytes, kFields);
    for (size_t bit = 0; bit < (kFlitHeaderBytes + bytes) * 8; ++bit) {
      auto slot = good;
      slot[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
      FlitView view;
      EXPECT_FALSE(decode_cell_flit(slot, kProfile, view)) << bytes << " bytes, bit " << bit;
    }
  }
}

TEST(CellFlit, rules_behind_a_right_crc_are_those_of_decode_flit) {
  for (const int lane : {0, 3, 4, 14, 15}) {
    for (const int credit_lane : {0, 3, 4, 15}) {
      for (const int flags : {0xC0, 0x80, 0x40, 0xE0, 0xC1, 0xD0}) {
        FlitFields fields = kFields;
        fields.vl = VirtualLane(static_cast<uint8_t>(lane));
        fields.credit_vl = VirtualLane(static_cast<uint8_t>(credit_lane));
        fields.flags = static_cast<uint8_t>(flags);
        expect_agreement(make_slot(60, fields), kProfile);
      }
    }
  }
  for (const FlitKind kind : {FlitKind::kAck, FlitKind::kRepeat, FlitKind::kCredit}) {
    FlitFields fields = kFields;
    fields.kind = kind;
    expect_agreement(make_slot(60, fields), kProfile);
  }
  expect_agreement(make_slot(60, kFields), {.payload_bytes_max = 512, .lanes = 4, .whole_cell = false});
  auto slot = make_slot(60, kFields);
  slot.resize(kFlitHeaderBytes + 59);
  expect_agreement(slot, kProfile);
  slot.resize(20);
  expect_agreement(slot, kProfile);
}

TEST(CrcOfFew, is_the_crc) {
  std::vector<std::byte> from(200);
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i * 91 + 5);
  for (size_t bytes = 0; bytes <= from.size(); ++bytes) {
    std::vector<std::byte> to(from.size());
    const uint32_t crc = crc32c_extend(77, from.data(), bytes);
    EXPECT_EQ(crc32c_of_few(77, from.data(), bytes), crc) << bytes;
    EXPECT_EQ(crc32c_copy_of_few(77, to.data(), from.data(), bytes), crc) << bytes;
    EXPECT_TRUE(std::equal(from.begin(), from.begin() + static_cast<ptrdiff_t>(bytes), to.begin())) << bytes;
    EXPECT_TRUE(bytes == to.size() || to[bytes] == std::byte{0}) << bytes;
  }
}

}  // namespace
}  // namespace weft
