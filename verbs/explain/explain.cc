#include "verbs/explain/explain.h"

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <string>

#include "base/cancel_shield.h"
#include "base/debug_words.h"
#include "base/out_of_memory.h"
#include "base/words.h"

namespace weft::verbs {

namespace {

std::string_view debug_value() noexcept {
  const char* value = secure_getenv("WEFT_DEBUG");
  return value != nullptr ? value : "";
}

}  // namespace

bool debug_names(std::string_view word) noexcept {
  static const bool told = with_memory([] {
    if (const std::string text = unknown_debug_words(debug_value()); !text.empty()) explain_line(text);
  });
  static_cast<void>(told);
  return has_debug_word(debug_value(), word);
}

bool explains() noexcept {
  static const bool on = debug_names("verbs");
  return on;
}

void explain_line(std::string_view text) noexcept {
  const CancelShield shield;  // polls and posts, which are noexcept, explain too
  try {
    const std::string line = fmt::format("weft verbs[{}]: {}\n", getpid(), printable(text));
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
  } catch (...) {
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
  }
}

void explain_once(std::string_view text) noexcept {
  static std::atomic<pid_t> told{0};  // a child after fork() prints its own line
  const pid_t own = getpid();
  const bool each_time = explains();  // first, because it names unknown words of WEFT_DEBUG
  if (told.exchange(own, std::memory_order_relaxed) != own || each_time) explain_line(text);
}

}  // namespace weft::verbs
