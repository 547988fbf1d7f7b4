// base/parse_number.h -- parses a text that must be a number as a whole: "12abc", "" and "-1" for an unsigned
// type are refused.
#pragma once

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

namespace weft {

/// The decimal number `text`; empty if `text` has any other character, a prefix such as 0x, or does not fit
/// `Number`.
template <class Number>
[[nodiscard]] std::optional<Number> parse_number(std::string_view text, int base = 10) noexcept {
  Number out{};
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), out, base);
  if (fault != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return out;
}

/// As above in hexadecimal, with or without 0x.
template <class Number>
[[nodiscard]] std::optional<Number> parse_hex(std::string_view text) noexcept {
  if (text.starts_with("0x") || text.starts_with("0X")) text.remove_prefix(2);
  return parse_number<Number>(text, 16);
}

/// The number at the beginning of `text`, and the rest of the text behind any spaces; empty if `text` begins
/// with something else.
[[nodiscard]] inline std::optional<std::pair<double, std::string_view>> leading_number(
    std::string_view text) noexcept {
  double value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault != std::errc{}) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  return std::pair{value, text};
}

}  // namespace weft
