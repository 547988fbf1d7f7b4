#include "rdma_cm/process_mark.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <fstream>
#include <string>

#include "base/fnv.h"
#include "base/process_stat.h"

namespace weft::rdma_cm {
namespace {

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
  const ProcessStat self = process_stat(getpid());
  if (self.error != 0) return out;
  out.started = self.started;
  out.space = space_number();
  return out;
}

Presence presence_of(const MadProcess& process, const MadProcess& self) noexcept {
  if (process.space == 0 || process.space != self.space) return Presence::kUnknown;
  const ProcessStat seen = process_stat(static_cast<pid_t>(process.pid));
  if (seen.error == ENOENT || seen.error == ESRCH) return Presence::kEnded;
  if (seen.error != 0) return Presence::kUnknown;
  return seen.dead() || seen.started != process.started ? Presence::kEnded : Presence::kRuns;
}

}  // namespace weft::rdma_cm
