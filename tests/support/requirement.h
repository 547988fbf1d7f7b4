// tests/support/requirement.h -- how a test names the clauses it covers, and how that is held against
// it: a row counts only if the test evaluated an assertion after it had named the row. A test that names
// several rows has to evaluate as many different assertions, so that each has one of its own
// (scripts/clauses).
//
// GoogleTest keeps no count of assertions that held, so this header puts a counter into the two macros
// that every EXPECT_ and ASSERT_ of a file that includes it goes through.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft::test {

/// The rows that the running test has cited, and the assertions that it has evaluated since. Of the thread
/// that cites.
class Citation {
 public:
  void begin(const std::string& ids) {
    ids_ = ids;
    shown_bytes_ = 0;
    places_.clear();
  }
  /// An assertion was evaluated. The first at each place in the source shows one more row; a loop is one
  /// assertion.
  void evaluated(std::string_view file, int line) {
    if (shown_bytes_ == ids_.size()) return;
    const std::pair place(file, line);
    if (std::find(places_.begin(), places_.end(), place) != places_.end()) return;
    places_.push_back(place);
    const size_t next = ids_.find(' ', shown_bytes_ + 1);
    shown_bytes_ = next == std::string::npos ? ids_.size() : next;
    ::testing::Test::RecordProperty("asserted", ids_.substr(0, shown_bytes_));
  }

 private:
  std::string ids_;
  size_t shown_bytes_ = 0;  // of ids_
  std::vector<std::pair<std::string_view, int>> places_;
};
inline thread_local Citation citation;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

/// Records the IDs this test shows to hold, separated by one space: covers("SAN-VL-02 PUSH-CELL-03"). Once
/// a test.
inline void covers(const std::string& ids) {
  ::testing::Test::RecordProperty("req", ids);
  citation.begin(ids);
}

/// Passes an assertion's result on, and records that one was evaluated after the citation.
/// The defaults are the place of the assertion: clang 14 has no std::source_location.
inline ::testing::AssertionResult evaluated(::testing::AssertionResult result,
                                            const char* file = __builtin_FILE(),
                                            int line = __builtin_LINE()) {
  citation.evaluated(file, line);
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
