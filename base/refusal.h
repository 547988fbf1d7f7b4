// base/refusal.h -- why a call was refused, without allocating. A call made under a lock, or one whose caller
// needs only yes or no, returns the parts of the text; the reader of the refusal formats them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace weft {

/// The unformatted line of an Error. Its parts must be literals, because it keeps only pointers.
class Refusal {
 public:
  Refusal() = default;
  /// `line` has a `{}` for each number, at most two.
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
