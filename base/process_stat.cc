#include "base/process_stat.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/unique_fd.h"

namespace weft {

ProcessStat process_stat(pid_t pid) noexcept {
  constexpr int kStartedBehind = 19;  // fields after the state, which follows the name
  std::array<char, 32> path{};
  std::snprintf(path.data(), path.size(), "/proc/%d/stat", pid);
  const UniqueFd file(open(path.data(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return {.error = errno};
  std::array<char, 1024> text{};
  const ssize_t bytes = read(file.get(), text.data(), text.size() - 1);
  if (bytes <= 0) return {.error = bytes == 0 ? ESRCH : errno};
  const char* at = std::strrchr(text.data(), ')');  // the last one, because the name may contain any
                                                    // character
  if (at == nullptr || at[1] == 0) return {.error = EINVAL};
  at += 2;
  ProcessStat out{.state = *at};
  for (int i = 0; i < kStartedBehind && at != nullptr; ++i) {
    at = std::strchr(at, ' ');
    if (at != nullptr) ++at;
  }
  if (at == nullptr) return {.error = EINVAL};
  out.started = std::strtoull(at, nullptr, 10);
  return out;
}

bool is_of_this_user(pid_t pid) noexcept {
  std::array<char, 32> path{};
  std::snprintf(path.data(), path.size(), "/proc/%d", pid);
  struct stat info {};
  return stat(path.data(), &info) == 0 && info.st_uid == geteuid();
}

}  // namespace weft
