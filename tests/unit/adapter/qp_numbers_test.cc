// Numbers of queue pairs: random, never two at once, and at rest for a minute after use.
#include "adapter/queues/qp_numbers.h"

#include <gtest/gtest.h>

#include <set>

#include "adapter/limits.h"
#include "tests/support/requirement.h"

namespace weft::adapter {
namespace {

using namespace std::chrono_literals;

constexpr uint32_t kPlaces = 1U << 16;  // so a place has 256 numbers
constexpr uint32_t kRound = (kQpnMask + 1) / kPlaces;

class QpNumbersOfOnePlace : public ::testing::Test {
 protected:
  /// One use of the place, from now on for `use`.
  Qpn use_once(Duration use = Duration::zero()) {
    const Qpn number = numbers.take(now);
    now += use;
    if (number != kQpnAny) numbers.give_back(number, now);
    return number;
  }

  SeededRandom random{5};
  QpNumbers numbers{1, kPlaces, random};
  Instant now{};  // as an adapter has it before its first turn
};

TEST_F(QpNumbersOfOnePlace, no_number_comes_again_within_a_minute_of_its_last_use) {
  test::covers("DECISIONS-4");
  EXPECT_EQ(kQpnRest, 60s);
  for (int round = 0; round < 3; ++round) {
    std::set<Qpn> used;
    for (uint32_t i = 0; i < kRound; ++i) EXPECT_TRUE(used.insert(use_once()).second) << round << ", " << i;
    EXPECT_EQ(used.count(Qpn(0)), 0U);
    EXPECT_EQ(use_once(), kQpnAny) << "round " << round;
    now += 60s - 1ns;
    EXPECT_EQ(use_once(), kQpnAny) << "round " << round;
    now += 1ns;
  }
}

/// What counts is when a number was in use last, not when it was given out.
TEST_F(QpNumbersOfOnePlace, a_long_use_is_no_rest) {
  test::covers("DECISIONS-4");
  const Qpn first = use_once();
  for (uint32_t i = 1; i < kRound; ++i) EXPECT_NE(use_once(10min), first);
  EXPECT_EQ(use_once(), kQpnAny);
  now += kQpnRest;
  EXPECT_EQ(use_once(), first);
}

TEST(QpNumbers, while_a_place_rests_the_others_are_used) {
  test::covers("DECISIONS-4");
  SeededRandom random(6);
  QpNumbers numbers(2, kPlaces, random);
  const Qpn held = numbers.take(Instant{});
  for (uint32_t i = 0; i < kRound; ++i) numbers.give_back(numbers.take(Instant{}), Instant{});
  EXPECT_EQ(numbers.take(Instant{}), kQpnAny);
  numbers.give_back(held, Instant{});
  const Qpn next = numbers.take(Instant{});
  EXPECT_EQ(next.value() % kPlaces, held.value() % kPlaces);
  EXPECT_NE(next, held);
}

TEST(QpNumbers, all_at_once_are_different_and_none_is_a_management_number) {
  SeededRandom random(7);
  QpNumbers numbers(62, 64, random);
  std::set<Qpn> out;
  for (int i = 0; i < 62; ++i) {
    const Qpn number = numbers.take(Instant{});
    EXPECT_GT(number, kQpnGsi);
    EXPECT_LE(number.value(), kQpnMask);
    EXPECT_TRUE(out.insert(number).second);
  }
  EXPECT_EQ(numbers.take(Instant{}), kQpnAny);
  numbers.give_back(kQpnGsi, Instant{});
  EXPECT_EQ(numbers.take(Instant{}), kQpnAny) << "a management number is not given out";
}

}  // namespace
}  // namespace weft::adapter
