// base/result.h -- set-up code returns a value or one message that says what happened and how to mend it
// (house style 30). The data path uses enums instead.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "base/check.h"

namespace weft {

/// Why a set-up step failed. `text` is one line, lower case, with the path or name and the remedy.
struct Error {
  std::string text;
};

/// "what: strerror(errno_value)".
[[nodiscard]] Error errno_error(std::string what, int errno_value);

/// A value or an Error.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}      // NOLINT(google-explicit-constructor): return value;
  Result(Error error) : error_(std::move(error)) {}  // NOLINT(google-explicit-constructor): return Error{};

  [[nodiscard]] bool ok() const noexcept { return value_.has_value(); }
  explicit operator bool() const noexcept { return ok(); }
  /// Only when ok().
  [[nodiscard]] T& value() & {
    WEFT_CHECK(ok(), error_.text.c_str());
    return *value_;
  }
  [[nodiscard]] const T& value() const& {
    WEFT_CHECK(ok(), error_.text.c_str());
    return *value_;
  }
  [[nodiscard]] T&& value() && {
    WEFT_CHECK(ok(), error_.text.c_str());
    return std::move(*value_);
  }
  T* operator->() { return &value(); }
  T& operator*() & { return value(); }
  /// Only when !ok().
  [[nodiscard]] const Error& error() const noexcept { return error_; }

 private:
  std::optional<T> value_;
  Error error_;
};

/// Success or an Error.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)), ok_(false) {}  // NOLINT(google-explicit-constructor)
  [[nodiscard]] bool ok() const noexcept { return ok_; }
  explicit operator bool() const noexcept { return ok_; }
  [[nodiscard]] const Error& error() const noexcept { return error_; }

 private:
  Error error_;
  bool ok_ = true;
};
using Status = Result<void>;

}  // namespace weft
