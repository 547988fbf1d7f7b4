#include "base/log.h"

#include <unistd.h>

#include <array>
#include <chrono>
#include <ctime>
#include <memory>
#include <string>

#include "base/cancel_shield.h"
#include "base/out_of_memory.h"
#include "base/words.h"

namespace weft {
namespace {

struct LogState {
  std::string program = "weft";
  LogLevel lowest = LogLevel::kInfo;
  LogTime time = LogTime::kSeconds;
  std::chrono::seconds east{};  // of UTC; computed once, because the C library takes a lock for it
};

// The one process-wide setting: the destination of diagnostics belongs to the process, not to a core. Never
// destroyed, because our threads may still log while the program exits.
LogState& state() {
  static LogState& instance = *std::make_unique<LogState>().release();
  return instance;
}

constexpr std::array<std::string_view, 4> kLevelNames{"debug", "info", "warn", "error"};

}  // namespace

void log_setup(std::string_view program, LogLevel lowest, LogTime time) {
  state().program = program;
  state().lowest = lowest;
  state().time = time;
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  if (time == LogTime::kOfDay && localtime_r(&now, &local) != nullptr)
    state().east = std::chrono::seconds(local.tm_gmtoff);
}

bool parse_log_level(std::string_view text, LogLevel& out) noexcept {
  for (size_t i = 0; i < kLevelNames.size(); ++i) {
    if (kLevelNames[i] != text) continue;
    out = static_cast<LogLevel>(i);
    return true;
  }
  return false;
}

bool log_enabled(LogLevel level) noexcept {
  return level >= state().lowest;
}

std::string log_line(LogLevel level, std::string_view text) {
  const auto since = std::chrono::duration_cast<std::chrono::microseconds>(
      std::chrono::system_clock::now().time_since_epoch());
  const std::string rest =
      fmt::format("{:06} {} {}[{}]: {}\n", since.count() % 1'000'000, kLevelNames[static_cast<size_t>(level)],
                  state().program, getpid(), printable(text));
  if (state().time == LogTime::kSeconds) return fmt::format("{}.{}", since.count() / 1'000'000, rest);
  const auto local = std::chrono::floor<std::chrono::seconds>(since) + state().east;
  const std::chrono::hh_mm_ss of_day(local - std::chrono::floor<std::chrono::days>(local));
  return fmt::format("{:02}:{:02}:{:02}.{}", of_day.hours().count(), of_day.minutes().count(),
                     of_day.seconds().count(), rest);
}

void log_write(LogLevel level, std::string_view text) noexcept {
  const CancelShield shield;
  try {
    const std::string line = log_line(level, text);
    // One write per line keeps lines of several processes whole; a full pipe loses the line, not the program.
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
  } catch (...) {
    constexpr char kEnd = '\n';
    [[maybe_unused]] ssize_t written = write(STDERR_FILENO, text.data(), text.size());
    written = write(STDERR_FILENO, &kEnd, 1);
  }
}

void log_format(LogLevel level, fmt::string_view format, fmt::format_args args) noexcept {
  std::string text;
  if (with_memory([&] { text = fmt::vformat(format, args); })) return log_write(level, text);
  log_write(level, {format.data(), format.size()});
}

}  // namespace weft
