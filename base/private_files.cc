#include "base/private_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace weft {
namespace {

constexpr const char* kWhatToDo = "must be a directory of this user with mode 0700";

/// Why a directory is not private to this user; empty if it is.
std::string fault_of(const struct stat& info, const std::string& path) {
  if (S_ISLNK(info.st_mode)) return fmt::format("is a symbolic link and {}; remove the link", kWhatToDo);
  if (!S_ISDIR(info.st_mode)) return fmt::format("is not a directory and {}; remove it", kWhatToDo);
  if (info.st_uid != geteuid()) return fmt::format("belongs to user {} and {}", info.st_uid, kWhatToDo);
  if ((info.st_mode & 077) != 0)
    return fmt::format("has mode {:04o} and {}: chmod 700 {}", info.st_mode & 07777, kWhatToDo, path);
  return {};
}

}  // namespace

Result<UniqueFd> open_private_directory(int at, const std::string& path, const std::string& what) {
  struct stat info {};
  UniqueFd fd(openat(at, path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  const int fault = errno;
  const bool seen =
      fd.valid() ? fstat(fd.get(), &info) == 0 : fstatat(at, path.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0;
  const std::string wrong = seen ? fault_of(info, path) : std::string();
  errno = wrong.empty() ? fault : EPERM;
  if (!wrong.empty()) return Error{fmt::format("{} {} {}", what, path, wrong)};
  if (!fd.valid()) return errno_error(fmt::format("cannot use {} {}", what, path), fault);
  return fd;
}

Status make_directory(const std::string& path) {
  if (mkdir(path.c_str(), 0700) == 0) return {};
  if (errno != EEXIST) return errno_error("cannot make directory " + path, errno);
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return errno_error("cannot use directory " + path, errno);
  if (!S_ISDIR(info.st_mode)) return Error{fmt::format("{} is not a directory: choose another path", path)};
  if (info.st_uid != geteuid() && info.st_uid != 0)
    return Error{fmt::format("directory {} belongs to user {}: choose one of this user", path, info.st_uid)};
  return {};
}

UniqueFd open_own_file(int at, const std::string& path, int flags, mode_t mode) noexcept {
  // O_NONBLOCK keeps open() from waiting for the other end of a FIFO; regular files ignore it.
  UniqueFd fd(openat(at, path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, mode));
  struct stat info {};
  if (!fd.valid()) return fd;
  if (fstat(fd.get(), &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == geteuid()) return fd;
  fd.reset();
  errno = EPERM;
  return fd;
}

std::string own_file_text(int at, const std::string& path) {
  const UniqueFd fd = open_own_file(at, path, O_RDONLY);
  std::string text;
  std::array<char, 4096> chunk;
  for (ssize_t got = 0; fd.valid() && (got = read(fd.get(), chunk.data(), chunk.size())) > 0;)
    text.append(chunk.data(), static_cast<size_t>(got));
  return text;
}

void remove_tree(int at, const std::string& name) noexcept {
  if (unlinkat(at, name.c_str(), 0) == 0 || errno == ENOENT) return;
  UniqueFd fd(openat(at, name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  const int listed = fd.valid() ? fcntl(fd.get(), F_DUPFD_CLOEXEC, 0) : -1;
  DIR* list = listed >= 0 ? fdopendir(listed) : nullptr;
  if (list == nullptr) return;
  while (const dirent* entry = readdir(list)) {
    const char* each = static_cast<const char*>(entry->d_name);
    if (std::strcmp(each, ".") != 0 && std::strcmp(each, "..") != 0) remove_tree(fd.get(), each);
  }
  closedir(list);
  unlinkat(at, name.c_str(), AT_REMOVEDIR);
}

}  // namespace weft
