// How it works: before a fabric ends, the launcher renames the FIFO and then checks once more whether a user
// has it open. A user who opens the FIFO checks afterwards that its name still leads to it. So either the
// user notices the renaming and tries again, or the launcher notices the user.
#include "tools/launch/fabric_users.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

namespace weft::tools {
namespace {

constexpr const char* kDoor = "users";
constexpr const char* kClosed = ".ending";
/// Programs and scripts use low descriptor numbers; this number is out of their way.
constexpr int kUseFd = 700;

bool nobody_has(int reader) noexcept {
  pollfd item{reader, POLLIN, 0};
  return poll(&item, 1, 0) == 1 && (item.revents & POLLHUP) != 0;
}

/// Moves the descriptor to kUseFd, or as high as the limit of this process allows.
UniqueFd out_of_the_way(UniqueFd fd) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return fd;
  const auto top = static_cast<int>(std::min<rlim_t>(limit.rlim_cur, kUseFd + 1)) - 1;
  const int high = fcntl(fd.get(), F_DUPFD, std::max(top - 16, 0));
  return high < 0 ? std::move(fd) : UniqueFd(high);
}

}  // namespace

Result<FabricUsers> FabricUsers::create(const StateDir& dir) {
  FabricUsers out(dir.file(kDoor));
  unlink(out.path_.c_str());
  if (mkfifo(out.path_.c_str(), 0600) != 0) return errno_error("cannot make " + out.path_, errno);
  out.reader_.reset(open(out.path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW));
  if (!out.reader_.valid()) return errno_error("cannot open " + out.path_, errno);
  return out;
}

bool FabricUsers::end_if_unused() noexcept {
  const std::string closed = path_ + kClosed;
  if (rename(path_.c_str(), closed.c_str()) != 0) return true;  // the directory was removed
  if (nobody_has(reader_.get())) return true;
  static_cast<void>(rename(closed.c_str(), path_.c_str()));
  return false;
}

UserEntry enter_fabric(const StateDir& dir, const RunRecord& record, UniqueFd& use) {
  if (!record.ends_unused) return UserEntry::kNoDoor;
  const std::string path = dir.file(kDoor);
  UniqueFd fd(open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOFOLLOW));
  struct stat opened {};
  struct stat named {};
  const bool same = fd.valid() && fstat(fd.get(), &opened) == 0 && S_ISFIFO(opened.st_mode) &&
                    stat(path.c_str(), &named) == 0 && opened.st_ino == named.st_ino &&
                    opened.st_dev == named.st_dev;
  if (!same) return UserEntry::kEnding;
  use = out_of_the_way(std::move(fd));
  return UserEntry::kJoined;
}

}  // namespace weft::tools
