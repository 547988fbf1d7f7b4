// Why a call was refused: the text that its parts make.
#include "base/refusal.h"

#include <gtest/gtest.h>

#include <string>

#include "base/result.h"

namespace weft {
namespace {

TEST(Refusal, is_put_together_by_who_reads_it) {
  EXPECT_EQ(Refusal().text(), "");
  EXPECT_EQ(Refusal(Reason::kNoSuchObject, "no such port").text(), "no such port");
  EXPECT_EQ(Refusal(Reason::kBadSize, "a port has 1 to {} partitions", 128).text(),
            "a port has 1 to 128 partitions");
  EXPECT_EQ(Refusal(Reason::kBadSize, "{} entries; 1 to {} are possible", 0, ~uint64_t{0}).text(),
            "0 entries; 1 to 18446744073709551615 are possible");
  EXPECT_EQ(Refusal(Reason::kBindOutOfBounds, "bind: ", std::string_view("out of bounds")).text(),
            "bind: out of bounds");
}

Refusable<int> half_of(int number) {
  if (number % 2 != 0) return Refusal{Reason::kBadSize, "half_of: {} is odd", static_cast<uint64_t>(number)};
  return number / 2;
}

Refusable<> check(int number) {
  const Refusable<int> half = half_of(number);
  if (!half) return half.error();
  return {};
}

Result<std::string> words(int number) {
  const Refusable<int> half = half_of(number);
  if (!half) return half.error();
  return std::to_string(half.value());
}

Status status(int number) {
  if (const Refusable<> good = check(number); !good) return good.error();
  return {};
}

TEST(Refusal, becomes_an_error_where_set_up_code_passes_it_on) {
  EXPECT_EQ(half_of(4).value(), 2);
  EXPECT_TRUE(check(4).ok());
  EXPECT_EQ(words(4).value(), "2");
  EXPECT_TRUE(status(4).ok());
  EXPECT_EQ(half_of(3).error().text(), "half_of: 3 is odd");
  EXPECT_EQ(check(3).error().text(), "half_of: 3 is odd");
  EXPECT_EQ(reason_of(half_of(3)), Reason::kBadSize);
  EXPECT_EQ(reason_of(check(3)), Reason::kBadSize);
  EXPECT_EQ(reason_of(half_of(4)), Reason::kOk);
  EXPECT_EQ(reason_of(check(4)), Reason::kOk);
  EXPECT_EQ(words(3).error().text, "half_of: 3 is odd");
  EXPECT_FALSE(words(3).ok());
  EXPECT_EQ(status(3).error().text, "half_of: 3 is odd");
  EXPECT_FALSE(status(3).ok());
}

}  // namespace
}  // namespace weft
