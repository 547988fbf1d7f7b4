// base/parse_number.h -- parses a text that must be a number as a whole: "12abc", "" and "-1" for an unsigned
// type are refused.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

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

}  // namespace weft
