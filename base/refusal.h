// base/refusal.h -- why a call was refused, without allocating: the reason, which decides the errno, and the
// parts of a text, which the reader of the refusal formats.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/reason.h"

namespace weft {

/// A reason, and the unformatted line of an Error. The parts of the line must be literals, because only
/// pointers are kept.
class Refusal {
 public:
  /// Nothing was refused.
  Refusal() = default;
  /// The reason says enough.
  explicit Refusal(Reason reason) noexcept : reason_(reason) {}
  /// `line` has a `{}` for each number, at most two.
  Refusal(Reason reason, const char* line, uint64_t first = 0, uint64_t second = 0) noexcept
      : line_(line), numbers_{first, second}, reason_(reason) {}
  /// `line` with `ending` behind it.
  Refusal(Reason reason, const char* line, std::string_view ending) noexcept
      : line_(line), ending_(ending), reason_(reason) {}

  [[nodiscard]] Reason reason() const noexcept { return reason_; }
  [[nodiscard]] std::string text() const;

 private:
  const char* line_ = "";
  std::string_view ending_;
  uint64_t numbers_[2] = {};
  Reason reason_ = Reason::kOk;
};

}  // namespace weft
