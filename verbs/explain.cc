#include "verbs/explain.h"

#include <unistd.h>

#include <cstdlib>
#include <string>

namespace weft::verbs {

bool debug_names(std::string_view word) noexcept {
  const char* value = std::getenv("WEFT_DEBUG");
  std::string_view left = value != nullptr ? value : "";
  while (!left.empty()) {
    const size_t end = left.find(',');
    if (left.substr(0, end) == word) return true;
    left.remove_prefix(end == std::string_view::npos ? left.size() : end + 1);
  }
  return false;
}

bool explains() noexcept {
  static const bool on = debug_names("verbs");
  return on;
}

void explain_line(std::string_view text) noexcept {
  try {
    const std::string line = fmt::format("weft verbs[{}]: {}\n", getpid(), text);
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
  } catch (...) {
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
  }
}

}  // namespace weft::verbs
