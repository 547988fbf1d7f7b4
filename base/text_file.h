// base/text_file.h -- reads the small files that people write and name on a command line: options,
// topologies, keys. Anything but a regular file is refused by name, so that a directory is not taken for an
// empty file and a FIFO cannot block the reader.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/result.h"

namespace weft {

/// Files written by hand are smaller.
inline constexpr size_t kTextFileBytesMax = 1U << 20;

/// Required owner and mode of a file. A file of root is as good as one of this user, and root may
/// use the files of every user.
enum class FileTrust : uint8_t {
  kAny,
  kOwn,     // written by this user: it belongs to it, and not everybody may write it
  kSecret,  // read by this user alone: also mode 0600 or less
};

/// Fails unless `path` leads to a regular file. Errors read "cannot read PATH: why".
Status check_is_file(const std::string& path);
/// The whole file at `path`; links are followed. Owner and mode are those of the file that is read. Errors
/// read "cannot read PATH: why".
Result<std::string> read_text_file(const std::string& path, FileTrust trust = FileTrust::kAny);

}  // namespace weft
