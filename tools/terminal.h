// tools/terminal.h -- the window of a terminal that is drawn over again and again.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace weft::tools {

struct Window {
  size_t rows = 24;
  size_t columns = 80;
};

/// The window of standard output; what a terminal does not say is as in Window.
[[nodiscard]] Window terminal_window();

/// `text` in at most `columns` characters; a longer one ends with "..". Counts bytes: for text that is ASCII.
[[nodiscard]] std::string fitted(const std::string& text, size_t columns);

/// What draws `lines` from the first row of the window and clears the rest. At most one line less than the
/// window has, so that nothing scrolls; each is cut to its width.
[[nodiscard]] std::string full_screen(const std::vector<std::string>& lines, const Window& window);

}  // namespace weft::tools
