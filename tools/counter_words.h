// tools/counter_words.h -- what an entry of a stats page is and how people read its value. Most entries count
// events; the others are listed in one table. docs/counters.md describes every entry, and scripts/tidy
// compares that page with the code.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace weft::tools {

enum class CounterKind : uint8_t {
  kCounter,  // grows; its growth per second is its rate
  kGauge,    // an amount as it is now
  kState,    // numbers a state, which has a word
  kNumber,   // names something: a QP, a LID, an incarnation
};

/// Of an entry by its dotted name; the name of its node may stand before that.
[[nodiscard]] CounterKind counter_kind(std::string_view name) noexcept;

/// The word of a state, "?" for one that this program does not know; empty where `name` is no state.
[[nodiscard]] std::string_view counter_state(std::string_view name, uint64_t value) noexcept;

/// The value as `weft stat` prints it: a state as its word, the number of a QP and a GUID in hex, an IPv4
/// address with dots, all others in decimal.
[[nodiscard]] std::string counter_text(std::string_view name, uint64_t value);

/// "10.87.0.1", from the address in the order of the host.
[[nodiscard]] std::string dotted_ipv4(uint32_t address);

}  // namespace weft::tools
