// tests/support/requirement.h -- how a test names the clauses it covers, and how that is held against
// it: a row counts only if the test evaluated an assertion after it had named the row
// (scripts/clauses).
//
// GoogleTest keeps no count of assertions that held, so this header puts a counter into the two macros
// that every EXPECT_ and ASSERT_ of a file that includes it goes through.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace weft::test {

/// What the running test has cited and not yet followed by an assertion. Of the thread that cites.
inline thread_local std::string
    unshown_clauses;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

/// Records the IDs this test shows to hold, separated by spaces: covers("SAN-VL-02 PUSH-CELL-03"). Once
/// a test.
inline void covers(const std::string& ids) {
  ::testing::Test::RecordProperty("req", ids);
  unshown_clauses = ids;
}

/// Passes an assertion's result on, and records that one was evaluated after the citation.
inline ::testing::AssertionResult evaluated(::testing::AssertionResult result) {
  if (!unshown_clauses.empty()) {
    ::testing::Test::RecordProperty("asserted", std::exchange(unshown_clauses, {}));
  }
  return result;
}

}  // namespace weft::test

// A name of its own for each result: assertions stand in lambdas that stand in assertions.
#define WEFT_JUDGE(name, expression, fail, text)                                   \
  GTEST_AMBIGUOUS_ELSE_BLOCKER_                                                    \
  if (const ::testing::AssertionResult name = ::weft::test::evaluated(expression)) \
    ;                                                                              \
  else                                                                             \
    fail(text)

#undef GTEST_ASSERT_
#define GTEST_ASSERT_(expression, on_failure) \
  WEFT_JUDGE_PREDICATE(GTEST_CONCAT_TOKEN_(weft_result_, __COUNTER__), expression, on_failure)
#define WEFT_JUDGE_PREDICATE(name, expression, fail) \
  WEFT_JUDGE(name, expression, fail, name.failure_message())

#undef GTEST_TEST_BOOLEAN_
#define GTEST_TEST_BOOLEAN_(expression, text, actual, expected, fail)                                      \
  WEFT_JUDGE_BOOLEAN(GTEST_CONCAT_TOKEN_(weft_result_, __COUNTER__), expression, text, #actual, #expected, \
                     fail)
#define WEFT_JUDGE_BOOLEAN(name, expression, text, actual, expected, fail) \
  WEFT_JUDGE(name, ::testing::AssertionResult(expression), fail,           \
             ::testing::internal::GetBoolAssertionFailureMessage(name, text, actual, expected).c_str())
