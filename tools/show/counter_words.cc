#include "tools/show/counter_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

#include "session/netdev_session.h"

namespace weft::tools {
namespace {

/// QP states by number; tests/system/test_programs.py compares them with libweft_ibverbs.
constexpr std::array<std::string_view, 7> kQpStates{"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
constexpr std::array<std::string_view, 11> kServices{"?", "?", "RC",  "UC",       "UD",      "RD",
                                                     "?", "?", "RAW", "XRC send", "XRC recv"};
/// As session::to_string() prints them.
constexpr std::array<std::string_view, 6> kSessionStates{"idle", "connecting", "opening",
                                                         "open", "closing",    "lost"};
static_assert(kSessionStates.size() == static_cast<size_t>(session::SessionState::kCount));
constexpr std::array<std::string_view, 4> kWays{"?", "switch", "window", "both"};
constexpr std::array<std::string_view, 2> kNoYes{"no", "yes"};

/// An entry that is no counter, by its last word and the word before it; numbers are skipped (qp.0.number,
/// node.guid.2).
struct Entry {
  std::string_view parent;
  std::string_view word;
  CounterKind kind;
  std::span<const std::string_view> states{};
  uint32_t hex_digits = 0;  // 0: decimal
};
constexpr uint32_t kDotted = UINT32_MAX;  // in place of a number of digits: an IPv4 address
constexpr std::array kEntries{
    Entry{"link", "up", CounterKind::kState, kNoYes},
    Entry{"link", "incarnation", CounterKind::kNumber},
    Entry{"vl", "credits", CounterKind::kGauge},
    Entry{"vl", "held", CounterKind::kGauge},
    Entry{"", "qps", CounterKind::kGauge},
    Entry{"fault", "number", CounterKind::kNumber},
    Entry{"fault", "port", CounterKind::kNumber},
    Entry{"fault", "guid", CounterKind::kNumber, {}, 16},
    Entry{"node", "guid", CounterKind::kNumber, {}, 16},
    Entry{"node", "ipv4", CounterKind::kNumber, {}, kDotted},
    Entry{"qp", "number", CounterKind::kNumber, {}, 6},
    Entry{"qp", "service", CounterKind::kState, kServices},
    Entry{"qp", "qp_state", CounterKind::kState, kQpStates},
    Entry{"qp", "way", CounterKind::kState, kWays},
    Entry{"qp", "peer_lid", CounterKind::kNumber},
    Entry{"qp", "peer_number", CounterKind::kNumber, {}, 6},
    Entry{"now", "state", CounterKind::kState, kSessionStates},
    Entry{"now", "incarnation", CounterKind::kNumber},
    Entry{"now", "own_exposed", CounterKind::kGauge},
    Entry{"now", "own_indicated", CounterKind::kGauge},
    Entry{"now", "own_freed", CounterKind::kGauge},
    Entry{"now", "peer_elements", CounterKind::kGauge},
    Entry{"now", "peer_free", CounterKind::kGauge},
    Entry{"now", "frames_in_flight", CounterKind::kGauge},
    Entry{"now", "frames_waiting", CounterKind::kGauge},
    Entry{"now", "peer_lid", CounterKind::kNumber},
};

/// Removes the last word from a dotted name and returns it.
std::string_view take_last(std::string_view& name) noexcept {
  const size_t dot = name.rfind('.');
  const std::string_view word = dot == std::string_view::npos ? name : name.substr(dot + 1);
  name = dot == std::string_view::npos ? std::string_view() : name.substr(0, dot);
  return word;
}

bool is_number(std::string_view word) noexcept {
  return !word.empty() && std::all_of(word.begin(), word.end(), [](char c) { return c >= '0' && c <= '9'; });
}

const Entry* entry_of(std::string_view name) noexcept {
  std::string_view word = take_last(name);
  if (is_number(word)) word = take_last(name);
  std::string_view parent = take_last(name);
  if (is_number(parent)) parent = take_last(name);
  const auto* const at = std::find_if(kEntries.begin(), kEntries.end(), [&](const Entry& entry) {
    return entry.word == word && (entry.parent.empty() || entry.parent == parent);
  });
  return at == kEntries.end() ? nullptr : at;
}

}  // namespace

std::string dotted_ipv4(uint32_t address) {
  return fmt::format("{}.{}.{}.{}", address >> 24, address >> 16 & 0xFF, address >> 8 & 0xFF, address & 0xFF);
}

CounterKind counter_kind(std::string_view name) noexcept {
  const Entry* const entry = entry_of(name);
  return entry == nullptr ? CounterKind::kCounter : entry->kind;
}

std::string_view counter_state(std::string_view name, uint64_t value) noexcept {
  const Entry* const entry = entry_of(name);
  if (entry == nullptr || entry->kind != CounterKind::kState) return {};
  return value < entry->states.size() ? entry->states[value] : "?";
}

std::string counter_text(std::string_view name, uint64_t value) {
  const Entry* const entry = entry_of(name);
  if (entry == nullptr) return std::to_string(value);
  if (entry->kind == CounterKind::kState) return std::string(counter_state(name, value));
  if (entry->hex_digits == kDotted) return dotted_ipv4(static_cast<uint32_t>(value));
  if (entry->hex_digits == 16) return fmt::format("{:016x}", value);
  return entry->hex_digits != 0 ? fmt::format("0x{:06x}", value) : std::to_string(value);
}

}  // namespace weft::tools
