#include "base/crc32c.h"

#include <gtest/gtest.h>

#include <algorithm>
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
  for (size_t bytes = 0; bytes < data.size(); bytes += bytes < 900 ? 1 : 97) {
    const size_t offset = bytes % 8;
    if (offset + bytes > data.size()) break;
    const std::byte* from = data.data() + offset;
    const uint32_t expected = crc32c_extend_table(17, from, bytes);
    EXPECT_EQ(crc32c_extend(17, from, bytes), expected) << bytes;
    EXPECT_EQ(crc32c_copy_narrow(17, copy.data(), from, bytes), expected) << bytes;
    std::fill(copy.begin(), copy.end(), std::byte{0x5a});
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

TEST(Crc32c, combine_reaches_lengths_that_nobody_hashes) {
  // Splitting a long run of zero bytes anywhere gives the same CRC, so combining must be consistent with
  // itself.
  const uint32_t head = crc32c(bytes_of("head"));
  const uint64_t far = (uint64_t{1} << 40) + 12345;
  const uint32_t at_once = crc32c_combine(head, 0, far);
  EXPECT_EQ(crc32c_combine(crc32c_combine(head, 0, far - 999), 0, 999), at_once);
  EXPECT_EQ(crc32c_combine(head, 7, 0), head ^ 7U);
}

TEST(Crc32c, words_equal_the_bytes_they_stand_for) {
  SeededRandom random(9);
  for (int round = 0; round < 100; ++round) {
    std::array<uint64_t, 4> words{random.next(), random.next(), random.next(), random.next()};
    const auto before = static_cast<uint32_t>(random.next());
    EXPECT_EQ(crc32c_words(before, words[0], words[1], words[2], words[3]),
              crc32c_extend_table(before, words.data(), sizeof words));
    EXPECT_EQ(crc32c_words(before, words[0]), crc32c_extend_table(before, words.data(), 8));
    const auto half = static_cast<uint32_t>(words[0] >> 16);
    EXPECT_EQ(crc32c_half(before, half), crc32c_extend_table(before, &half, sizeof half));
  }
  const std::array<uint32_t, 2> halves{0x01020304, 0x05060708};
  EXPECT_EQ(crc32c_words(0, word_of(halves[0], halves[1])),
            crc32c_extend_table(0, halves.data(), sizeof halves));
}

TEST(Crc32c, long_inputs_take_several_rounds_and_any_alignment) {
  SeededRandom random(10);
  std::vector<std::byte> data(20'000);
  random.fill(data);
  std::vector<std::byte> copy(data.size() + 16, std::byte{0x5a});
  for (size_t bytes : {3071U, 3072U, 3073U, 3176U, 6144U, 8192U, 8260U, 16'385U, 19'990U}) {
    for (size_t offset : {0U, 1U, 4U, 7U}) {
      const std::byte* from = data.data() + offset;
      const uint32_t expected = crc32c_extend_table(0, from, bytes);
      EXPECT_EQ(crc32c_extend(0, from, bytes), expected) << bytes << " at " << offset;
      std::byte* to = copy.data() + (7 - offset);
      std::fill(copy.begin(), copy.end(), std::byte{0x5a});
      EXPECT_EQ(crc32c_copy(0, to, from, bytes), expected) << bytes << " at " << offset;
      EXPECT_TRUE(std::equal(from, from + bytes, to));
      EXPECT_EQ(to[bytes], std::byte{0x5a}) << "wrote beyond the end";
      EXPECT_EQ(crc32c_copy_narrow(0, to, from, bytes), expected) << bytes << " at " << offset;
    }
  }
}

}  // namespace
}  // namespace weft
