#include "base/text_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/unique_fd.h"

namespace weft {
namespace {

const char* kind_of(mode_t mode) noexcept {
  switch (mode & S_IFMT) {
    case S_IFDIR:
      return "a directory";
    case S_IFIFO:
      return "a FIFO";
    case S_IFSOCK:
      return "a socket";
    default:
      return "a device";
  }
}

/// An empty text if the open file may be trusted.
std::string distrust(const struct stat& file, FileTrust trust) {
  const uid_t self = geteuid();
  if (self != 0 && file.st_uid != self && file.st_uid != 0)
    return fmt::format("it belongs to user {}, not to you", file.st_uid);
  if (trust == FileTrust::kSecret && (file.st_mode & 077) != 0) return "others may read it: chmod 600 it";
  if ((file.st_mode & S_IWOTH) != 0) return "everybody may write it: chmod o-w it";
  return {};
}

}  // namespace

Status check_is_file(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return errno_error("cannot read " + path, errno);
  if (S_ISREG(info.st_mode)) return {};
  return Error{fmt::format("cannot read {}: it is {}, not a file", path, kind_of(info.st_mode))};
}

Result<std::string> read_text_file(const std::string& path, FileTrust trust) {
  if (Status file = check_is_file(path); !file) return file.error();
  const std::string refused = "cannot read " + path;
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.valid()) return errno_error(refused, errno);
  if (trust != FileTrust::kAny) {
    struct stat info {};
    if (fstat(file.get(), &info) != 0) return errno_error(refused, errno);
    if (const std::string why = distrust(info, trust); !why.empty())
      return Error{fmt::format("{}: {}", refused, why)};
  }
  std::string text(kTextFileBytesMax + 1, '\0');
  size_t filled = 0;
  while (filled < text.size()) {
    const ssize_t got = read(file.get(), text.data() + filled, text.size() - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno_error(refused, errno);
    if (got == 0) break;
    filled += static_cast<size_t>(got);
  }
  if (filled > kTextFileBytesMax)
    return Error{fmt::format("{}: larger than {} bytes", refused, kTextFileBytesMax)};
  text.resize(filled);
  return text;
}

}  // namespace weft
