// tools/show/counter_words.h -- kinds of the entries of a stats page, and the form in which people read their
// values. Most entries are counters; one table lists the others. docs/counters.md describes every entry, and
// scripts/tidy compares that page with the code.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace weft::tools {

enum class CounterKind : uint8_t {
  kCounter,  // counts events; its growth per second is a rate
  kGauge,    // a present amount
  kState,    // the number of a state, which has a word
  kNumber,   // identifies something: a QP, a LID, an incarnation
};

/// Kind of an entry by its dotted name; the node's name may stand in front.
[[nodiscard]] CounterKind counter_kind(std::string_view name) noexcept;

/// The word of a state; "?" for an unknown number; empty if `name` is no state.
[[nodiscard]] std::string_view counter_state(std::string_view name, uint64_t value) noexcept;

/// The value as `weft stat` prints it: states as words, QP numbers and GUIDs in hex, IPv4 addresses with
/// dots, all others in decimal.
[[nodiscard]] std::string counter_text(std::string_view name, uint64_t value);

/// "10.87.0.1", from an address in host byte order.
[[nodiscard]] std::string dotted_ipv4(uint32_t address);

}  // namespace weft::tools
