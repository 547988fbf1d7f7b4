// base/refusal.h -- why a call was refused, said without taking memory: a call that is made under a lock, or
// whose caller asks for no more than yes or no, hands out the parts of the text, and the
// reader of the refusal puts them together.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace weft {

/// A line as Error has it, in parts. What it is made of lasts for ever: literals.
class Refusal {
 public:
  Refusal() = default;
  /// `line` has one `{}` for each number that is to stand there, at most two.
  explicit Refusal(const char* line, uint64_t first = 0, uint64_t second = 0) noexcept
      : line_(line), numbers_{first, second} {}
  /// `line` with `ending` behind it.
  Refusal(const char* line, std::string_view ending) noexcept : line_(line), ending_(ending) {}

  [[nodiscard]] std::string text() const;

 private:
  const char* line_ = "";
  std::string_view ending_;
  uint64_t numbers_[2] = {};
};

}  // namespace weft
