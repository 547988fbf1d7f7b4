#include "rdma_cm/process_mark.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

#include "base/fnv.h"
#include "base/unique_fd.h"

namespace weft::rdma_cm {
namespace {

/// What /proc/PID/stat says of a process; `error` is an errno.
struct Seen {
  int error = 0;
  char state = 0;
  uint64_t started = 0;
};

Seen look_at(uint32_t pid) noexcept {
  constexpr int kStartedBehind = 19;  // fields behind the state, which is the first behind the name
  std::array<char, 32> path{};
  std::snprintf(path.data(), path.size(), "/proc/%u/stat", pid);
  const UniqueFd file(open(path.data(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return {.error = errno};
  std::array<char, 1024> text{};
  const ssize_t bytes = read(file.get(), text.data(), text.size() - 1);
  if (bytes <= 0) return {.error = bytes == 0 ? ESRCH : errno};
  const char* at = std::strrchr(text.data(), ')');  // a name may have any other character
  if (at == nullptr || at[1] == 0) return {.error = EINVAL};
  at += 2;
  Seen out{.state = *at};
  for (int i = 0; i < kStartedBehind && at != nullptr; ++i) {
    at = std::strchr(at, ' ');
    if (at != nullptr) ++at;
  }
  if (at == nullptr) return {.error = EINVAL};
  out.started = std::strtoull(at, nullptr, 10);
  return out;
}

/// Of the process numbers of a PID namespace, since the host was booted.
uint64_t space_number() {
  std::string name;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> name;
  std::array<char, 64> space{};
  const ssize_t bytes = readlink("/proc/self/ns/pid", space.data(), space.size());
  if (name.empty() || bytes <= 0) return 0;
  return fnv1a(name.append(space.data(), static_cast<size_t>(bytes)));
}

}  // namespace

MadProcess this_process(uint64_t incarnation) {
  MadProcess out{.incarnation = incarnation, .pid = static_cast<uint32_t>(getpid())};
  const Seen self = look_at(out.pid);
  if (self.error != 0) return out;
  out.started = self.started;
  out.space = space_number();
  return out;
}

Presence presence_of(const MadProcess& process, const MadProcess& self) noexcept {
  if (process.space == 0 || process.space != self.space) return Presence::kUnknown;
  const Seen seen = look_at(process.pid);
  if (seen.error == ENOENT || seen.error == ESRCH) return Presence::kEnded;
  if (seen.error != 0) return Presence::kUnknown;
  const bool dead = seen.state == 'Z' || seen.state == 'X' || seen.started != process.started;
  return dead ? Presence::kEnded : Presence::kRuns;
}

}  // namespace weft::rdma_cm
