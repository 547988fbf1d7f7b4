// base/private_files.h -- opens what belongs to this user alone. A path in a directory that others may write
// to, /tmp for one, may lead to whatever they put there: what is opened is looked at by its descriptor before
// it is believed, and a link is never followed.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace weft {

/// Opens the directory `path`, from the directory `at` (AT_FDCWD: the working directory). Fails, and says
/// what to do, unless it is a directory of this user with mode 0700 or less. `what`, "state directory",
/// begins the message. errno is that of open(), ENOENT where nothing is, or EPERM for what is refused.
Result<UniqueFd> open_private_directory(int at, const std::string& path, const std::string& what);
/// Opens a regular file of this user; `flags` and `mode` as for open(). Not valid, with errno, when it cannot
/// be opened, is a link, or belongs to another user (EPERM).
[[nodiscard]] UniqueFd open_own_file(int at, const std::string& path, int flags, mode_t mode = 0600) noexcept;
/// The file as text; empty when open_own_file() refuses it.
[[nodiscard]] std::string own_file_text(int at, const std::string& path);
/// Removes `name` with all that is in it; links are removed, not followed.
void remove_tree(int at, const std::string& name) noexcept;

}  // namespace weft
