#include "base/log.h"

#include <unistd.h>

#include <array>
#include <chrono>
#include <memory>
#include <string>

namespace weft {
namespace {

struct LogState {
  std::string program = "weft";
  LogLevel lowest = LogLevel::kInfo;
};

// The one process-wide setting: where diagnostics go is a property of the process, not of a core. Never
// destroyed: threads of ours in a program that exits may still have something to say.
LogState& state() {
  static LogState& instance = *std::make_unique<LogState>().release();
  return instance;
}

constexpr std::array<std::string_view, 4> kLevelNames{"debug", "info", "warn", "error"};

}  // namespace

void log_setup(std::string_view program, LogLevel lowest) {
  state().program = program;
  state().lowest = lowest;
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
  return fmt::format("{}.{:06} {} {}[{}]: {}\n", since.count() / 1'000'000, since.count() % 1'000'000,
                     kLevelNames[static_cast<size_t>(level)], state().program, getpid(), text);
}

void log_write(LogLevel level, std::string_view text) noexcept {
  try {
    const std::string line = log_line(level, text);
    // One write per line keeps lines of several processes whole; a full pipe loses the line, not the program.
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
  } catch (...) {
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
  }
}

}  // namespace weft
