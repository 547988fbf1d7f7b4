// tests/support/reason_table.h -- "each is counted under its own name" (decisions 5.9): a test walks a table
// of reasons with what provokes each, and does not compile while a reason is missing.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstddef>

#include "base/counters.h"

namespace weft::test {

/// Does `cases`, whose elements have a `reason`, name each enumerator from `first` up to but not `end`? Some
/// may stand there twice.
template <class Reason, class Case, size_t N>
[[nodiscard]] consteval bool names_every_reason(const std::array<Case, N>& cases, Reason first, Reason end) {
  for (auto value = static_cast<size_t>(first); value < static_cast<size_t>(end); ++value) {
    bool named = false;
    for (const Case& one : cases) named |= one.reason == static_cast<Reason>(value);
    if (!named) return false;
  }
  return true;
}

/// Of the counters from `first` up to but not `end`, `reason` has moved and no other.
template <class Reason>
void expect_only(const CounterSet<Reason>& counters, Reason reason, Reason first, Reason end) {
  for (auto value = static_cast<size_t>(first); value < static_cast<size_t>(end); ++value) {
    const auto counter = static_cast<Reason>(value);
    EXPECT_EQ(counters.get(counter) != 0, counter == reason)
        << CounterSet<Reason>::label(counter) << " while provoking " << CounterSet<Reason>::label(reason);
  }
}

}  // namespace weft::test
