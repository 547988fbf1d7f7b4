// base/log.h -- one line per event on standard error: "12.345678 warn weft-switch: port 3: peer hung up", or
// with the time of day, "16:15:07.345678 warn …", for logs that people read live. Lower case, LIDs in
// decimal, QP numbers, keys and GUIDs in hex. Never on a per-frame path; use LogLimiter there.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/clock.h"

namespace weft {

enum class LogLevel : uint8_t { kDebug, kInfo, kWarn, kError };

/// kSeconds: since 1970, which `weft logs` sorts and shows as local time. kOfDay: local time of day.
enum class LogTime : uint8_t { kSeconds, kOfDay };

/// Sets the program name shown in each line and the lowest level printed. Call once, before threads start.
void log_setup(std::string_view program, LogLevel lowest, LogTime time = LogTime::kSeconds);
/// Parses "debug", "info", "warn" or "error"; false leaves `out` unchanged.
[[nodiscard]] bool parse_log_level(std::string_view text, LogLevel& out) noexcept;
[[nodiscard]] bool log_enabled(LogLevel level) noexcept;
/// The line that log_write() would print, for a log other than our standard error.
[[nodiscard]] std::string log_line(LogLevel level, std::string_view text);
void log_write(LogLevel level, std::string_view text) noexcept;
/// Formats the text and writes its line; without memory for the text, its format as it stands.
void log_format(LogLevel level, fmt::string_view format, fmt::format_args args) noexcept;

template <class... Args>
void log(LogLevel level, fmt::format_string<Args...> format, const Args&... args) noexcept {
  if (log_enabled(level)) log_format(level, format, fmt::make_format_args(args...));
}

/// Lets one event through per interval and counts the rest. Owner thread only.
class LogLimiter {
 public:
  explicit LogLimiter(Duration interval) noexcept : interval_(interval) {}
  /// True when the caller may log now; `suppressed()` then says how many calls were refused since the last
  /// one.
  [[nodiscard]] bool allow(Instant now) noexcept {
    if (now < next_) {
      ++held_;
      return false;
    }
    next_ = now + interval_;
    suppressed_ = std::exchange(held_, 0);
    return true;
  }
  [[nodiscard]] uint64_t suppressed() const noexcept { return suppressed_; }

 private:
  Duration interval_;
  Instant next_ = Instant::min();
  uint64_t held_ = 0;
  uint64_t suppressed_ = 0;
};

}  // namespace weft
