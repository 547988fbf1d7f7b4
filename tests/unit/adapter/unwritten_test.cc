// Which bytes of a piece later packets have not written, beside a plain list of bytes.
#include "adapter/transport/unwritten.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/rng.h"

namespace weft::test {
using namespace adapter;
namespace {

class UnwrittenOf : public ::testing::Test {
 protected:
  explicit UnwrittenOf() : memory(kCellPayloadBytesMax) {}
  [[nodiscard]] uintptr_t at(uint64_t offset) const {
    return reinterpret_cast<uintptr_t>(memory.data()) + offset;
  }
  /// One flag for each byte: true where it is unwritten.
  static std::vector<bool> bytes_of(const Unwritten& unwritten, uint64_t size) {
    std::vector<bool> bytes(size);
    uint64_t last = 0;
    unwritten.for_each([&](uint64_t from, uint64_t count) {
      EXPECT_GE(from, last) << "in order";
      EXPECT_NE(count, 0U);
      last = from + count;
      for (uint64_t i = from; i < last; ++i) bytes.at(i) = true;
    });
    return bytes;
  }

  std::vector<std::byte> memory;
};

TEST_F(UnwrittenOf, any_order_of_writes_leaves_what_none_of_them_touched) {
  SeededRandom random(5);
  for (uint32_t round = 0; round < 2000; ++round) {
    const uint64_t size = 1 + random.below(300);
    Unwritten unwritten({memory.data() + 500, size});
    std::vector<bool> expected(size, true);
    for (uint64_t writes = random.below(9); writes != 0; --writes) {
      const uint64_t from = 400 + random.below(500);
      const uint64_t count = random.below(round % 2 == 0 ? 20 : 200);
      unwritten.write(at(from), count);
      for (uint64_t i = from; i < from + count; ++i)
        if (i >= 500 && i < 500 + size) expected[i - 500] = false;
    }
    ASSERT_EQ(bytes_of(unwritten, size), expected) << "round " << round;
  }
}

TEST_F(UnwrittenOf, a_whole_cell_ends_with_the_first_write_over_it) {
  for (const uint64_t size : {uint64_t{1}, uint64_t{64}, uint64_t{65}, memory.size()}) {
    Unwritten unwritten({memory.data(), size});
    EXPECT_FALSE(unwritten.none());
    unwritten.write(at(0), size - 1);
    EXPECT_FALSE(unwritten.none());
    unwritten.write(at(0), size);
    EXPECT_TRUE(unwritten.none());
    EXPECT_EQ(bytes_of(unwritten, size), std::vector<bool>(size, false));
  }
}

TEST_F(UnwrittenOf, writes_at_either_end_move_that_end) {
  Unwritten unwritten({memory.data(), 1000});
  unwritten.write(at(0), 10);
  unwritten.write(at(900), 100);
  EXPECT_EQ(unwritten.first_address(), at(10));
  EXPECT_EQ(unwritten.end_address(), at(900));
  unwritten.write(at(10), 890);
  EXPECT_TRUE(unwritten.none());
}

}  // namespace
}  // namespace weft::test
