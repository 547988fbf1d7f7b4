// base/private_files.h -- opens files and directories that belong to this user alone. In a directory that
// other users may write, such as /tmp, they may have put anything at our path, so the opened descriptor is
// checked before it is used, and links are never followed.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace weft {

/// Opens the directory `path`, from the directory `at` (AT_FDCWD: the working directory). Fails, and says
/// what to do, unless it is a directory of this user with mode 0700 or less. `what`, "state directory",
/// begins the message. errno is that of open() (ENOENT: no such directory), or EPERM for a refusal.
Result<UniqueFd> open_private_directory(int at, const std::string& path, const std::string& what);
/// Makes the directory `path` with mode 0700, in a parent that exists. A directory that exists stays as it
/// is; it is refused if it belongs neither to this user nor to root, because its owner could change the files
/// that we put there.
Status make_directory(const std::string& path);
/// Opens a regular file of this user; `flags` and `mode` as for open(). Not valid, with errno, when it cannot
/// be opened, is a link, or belongs to another user (EPERM).
[[nodiscard]] UniqueFd open_own_file(int at, const std::string& path, int flags, mode_t mode = 0600) noexcept;
/// The file as text; empty when open_own_file() refuses it.
[[nodiscard]] std::string own_file_text(int at, const std::string& path);
/// Removes `name` with all that is in it; links are removed, not followed.
void remove_tree(int at, const std::string& name) noexcept;

}  // namespace weft
