// tools/show/terminal.h -- drawing over the window of a terminal repeatedly.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace weft::tools {

struct Window {
  size_t rows = 24;
  size_t columns = 80;
};

/// The window of standard output; a size that the terminal does not report has the default of Window.
[[nodiscard]] Window terminal_window();

/// `text` in at most `columns` characters; a longer text ends with "..". Counts bytes, so it is for ASCII
/// text.
[[nodiscard]] std::string fitted(const std::string& text, size_t columns);

/// The output that draws `lines` from the first row of the window and clears the rest. Uses one line less
/// than the window has, so that nothing scrolls. Each line is cut to the window's width.
[[nodiscard]] std::string full_screen(const std::vector<std::string>& lines, const Window& window);

}  // namespace weft::tools
