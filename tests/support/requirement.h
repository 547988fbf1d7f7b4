// tests/support/requirement.h -- how a conformance test names the clauses it covers.
#pragma once

#include <gtest/gtest.h>

#include <string>

namespace weft::test {

/// Records the IDs this test shows to hold, separated by spaces: covers("SAN-VL-02 PUSH-CELL-03").
/// scripts/clauses counts an ID only when every test that cites it ran and passed.
inline void covers(const std::string& ids) {
  ::testing::Test::RecordProperty("req", ids);
}

}  // namespace weft::test
