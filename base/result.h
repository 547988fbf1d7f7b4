// base/result.h -- the result of set-up code: a value, or one message with the cause and its remedy (house
// style 30). The data path uses enums instead.
#pragma once

#include <concepts>
#include <optional>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/refusal.h"

namespace weft {

/// Why a set-up step failed. `text` is one line, lower case, with the path or name and the remedy.
struct Error {
  std::string text;
};

/// "what: strerror(errno_value)".
[[nodiscard]] Error errno_error(std::string what, int errno_value);

[[nodiscard]] inline const std::string& text_of(const Error& error) noexcept {
  return error.text;
}
[[nodiscard]] inline std::string text_of(const Refusal& refusal) {
  return refusal.text();
}

/// A value, or the reason why there is none: an Error, or a Refusal for calls that must not allocate
/// (Refusable).
template <class T, class Why = Error>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}  // NOLINT(google-explicit-constructor): return value;
  Result(Why why) : why_(std::move(why)) {}      // NOLINT(google-explicit-constructor): return Error{};
  /// Formats the text of the refusal.
  Result(const Refusal& refusal)  // NOLINT(google-explicit-constructor): return Refusal{};
      requires std::same_as<Why, Error> : why_{refusal.text()} {}

  [[nodiscard]] bool ok() const noexcept { return value_.has_value(); }
  explicit operator bool() const noexcept { return ok(); }
  /// Only when ok().
  [[nodiscard]] T& value() & {
    WEFT_CHECK(ok(), text_of(why_).c_str());
    return *value_;
  }
  [[nodiscard]] const T& value() const& {
    WEFT_CHECK(ok(), text_of(why_).c_str());
    return *value_;
  }
  [[nodiscard]] T&& value() && {
    WEFT_CHECK(ok(), text_of(why_).c_str());
    return std::move(*value_);
  }
  T* operator->() { return &value(); }
  T& operator*() & { return value(); }
  /// Only when !ok().
  [[nodiscard]] const Why& error() const noexcept { return why_; }

 private:
  std::optional<T> value_;
  Why why_;
};

/// Success, or the reason of the failure.
template <class Why>
class [[nodiscard]] Result<void, Why> {
 public:
  Result() = default;
  Result(Why why) : why_(std::move(why)), ok_(false) {}  // NOLINT(google-explicit-constructor)
  Result(const Refusal& refusal)                         // NOLINT(google-explicit-constructor)
      requires std::same_as<Why, Error> : why_{refusal.text()},
                                          ok_(false) {}
  [[nodiscard]] bool ok() const noexcept { return ok_; }
  explicit operator bool() const noexcept { return ok_; }
  [[nodiscard]] const Why& error() const noexcept { return why_; }

 private:
  Why why_;
  bool ok_ = true;
};
using Status = Result<void>;

/// Result of a call that must not allocate when it refuses.
template <class T = void>
using Refusable = Result<T, Refusal>;

template <class T>
[[nodiscard]] Reason reason_of(const Refusable<T>& result) noexcept {
  return result.ok() ? Reason::kOk : result.error().reason();
}

}  // namespace weft
