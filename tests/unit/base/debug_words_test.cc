// The words of WEFT_DEBUG.
#include "base/debug_words.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

TEST(DebugWords, are_read_whole_with_commas_between) {
  EXPECT_TRUE(has_debug_word("verbs,cm", "cm"));
  EXPECT_TRUE(has_debug_word(",cm", "cm"));
  EXPECT_FALSE(has_debug_word("cm", "verbs"));
  EXPECT_FALSE(has_debug_word("cmx", "cm"));
  EXPECT_FALSE(has_debug_word("", "cm"));
}

TEST(DebugWords, all_and_1_stand_for_each) {
  for (const std::string_view word : kDebugWords) {
    EXPECT_TRUE(has_debug_word("all", word));
    EXPECT_TRUE(has_debug_word("1", word));
    EXPECT_TRUE(has_debug_word("x,all", word));
  }
}

TEST(DebugWords, unknown_ones_are_named_with_those_that_are_known) {
  EXPECT_EQ(unknown_debug_words("verbs,cm,all,1,"), "");
  EXPECT_EQ(unknown_debug_words("verb,cm,0"), "WEFT_DEBUG: unknown 'verb', '0'; known are verbs, cm and all");
}

}  // namespace
}  // namespace weft
