#include "tools/show/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

namespace weft::tools {

Window terminal_window() {
  Window window;
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return window;
  if (size.ws_row > 0) window.rows = size.ws_row;
  if (size.ws_col > 0) window.columns = size.ws_col;
  return window;
}

std::string fitted(const std::string& text, size_t columns) {
  if (text.size() <= columns) return text;
  return columns < 2 ? text.substr(0, columns) : text.substr(0, columns - 2) + "..";
}

std::string full_screen(const std::vector<std::string>& lines, const Window& window) {
  std::string out = "\x1b[H";
  const size_t count = std::min(lines.size(), std::max<size_t>(window.rows, 2) - 1);
  for (size_t i = 0; i < count; ++i) out += fitted(lines[i], window.columns) + "\x1b[K\n";
  return out + "\x1b[J";
}

}  // namespace weft::tools
