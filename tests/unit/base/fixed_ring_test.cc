#include "base/fixed_ring.h"

#include <gtest/gtest.h>

namespace weft::test {
namespace {

TEST(FixedRingTest, keeps_its_values_and_their_order_when_it_is_widened) {
  for (int passed = 0; passed < 4; ++passed) {  // where the oldest one stands
    FixedRing<int> ring;
    ring.expect(8);
    ring.reset(4);
    for (int i = 0; i < passed; ++i) {
      ASSERT_TRUE(ring.push(-1));
      ring.pop();
    }
    for (int i = 0; i < 4; ++i) ASSERT_TRUE(ring.push(i));
    ring.widen(8);
    EXPECT_EQ(ring.capacity(), 8U);
    for (int i = 4; i < 8; ++i) ASSERT_TRUE(ring.push(i));
    EXPECT_FALSE(ring.push(8));
    for (int i = 0; i < 8; ++i) {
      EXPECT_EQ(ring.front(), i);
      ring.pop();
    }
    EXPECT_TRUE(ring.empty());
  }
}

}  // namespace
}  // namespace weft::test
