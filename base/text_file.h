// base/text_file.h -- reads the small files that people write and name on a command line: options,
// topologies, keys. Anything but a regular file is refused by name, so that a directory is not taken for an
// empty file and a FIFO cannot block the reader.
#pragma once

#include <cstddef>
#include <string>

#include "base/result.h"

namespace weft {

/// Files written by hand are smaller.
inline constexpr size_t kTextFileBytesMax = 1U << 20;

/// Fails unless `path` leads to a regular file. Errors read "cannot read PATH: why".
Status check_is_file(const std::string& path);
/// The whole file at `path`. Errors read "cannot read PATH: why".
Result<std::string> read_text_file(const std::string& path);

}  // namespace weft
