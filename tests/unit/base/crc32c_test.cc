#include "base/crc32c.h"

#include <gtest/gtest.h>

#include <array>
#include <string_view>
#include <vector>

#include "base/rng.h"

namespace weft {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

TEST(Crc32c, known_vectors) {
  EXPECT_EQ(crc32c(bytes_of("123456789")), 0xe3069283U);  // RFC 3720 B.4 and the usual check value
  const std::array<std::byte, 32> zeros{};
  EXPECT_EQ(crc32c(zeros), 0x8a9136aaU);
  std::array<std::byte, 32> ones;
  ones.fill(std::byte{0xff});
  EXPECT_EQ(crc32c(ones), 0x62a8ab43U);
  EXPECT_EQ(crc32c({}), 0U);
}

TEST(Crc32c, every_version_agrees_at_every_length_and_offset) {
  SeededRandom random(7);
  std::vector<std::byte> data(4200);
  random.fill(data);
  std::vector<std::byte> copy(data.size());
  for (size_t bytes = 0; bytes < data.size(); bytes += bytes < 300 ? 1 : 97) {
    const size_t offset = bytes % 8;
    if (offset + bytes > data.size()) break;
    const std::byte* from = data.data() + offset;
    const uint32_t expected = crc32c_extend_table(17, from, bytes);
    EXPECT_EQ(crc32c_extend(17, from, bytes), expected) << bytes;
    EXPECT_EQ(crc32c_copy(17, copy.data(), from, bytes), expected) << bytes;
    EXPECT_EQ(std::vector(from, from + bytes), std::vector(copy.data(), copy.data() + bytes));
  }
}

TEST(Crc32c, extend_and_combine_equal_the_whole) {
  SeededRandom random(8);
  std::vector<std::byte> data(1000);
  random.fill(data);
  for (size_t split : {size_t{0}, size_t{1}, size_t{31}, size_t{32}, size_t{500}, size_t{1000}}) {
    const uint32_t whole = crc32c(data);
    const uint32_t head = crc32c(std::span(data).first(split));
    const uint32_t tail = crc32c(std::span(data).subspan(split));
    EXPECT_EQ(crc32c_extend(head, data.data() + split, data.size() - split), whole);
    EXPECT_EQ(crc32c_combine(head, tail, data.size() - split), whole);
  }
}

}  // namespace
}  // namespace weft
