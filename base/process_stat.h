// base/process_stat.h -- whether a process runs, and which process has a number, according to the kernel.
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace weft {

/// Of /proc/PID/stat.
struct ProcessStat {
  int error = 0;         // errno of the failed read; ENOENT and ESRCH: there is no such process
  char state = 0;        // R, S, D, T, t, Z, X
  uint64_t started = 0;  // clock ticks after the boot; together with the PID it identifies the process

  [[nodiscard]] bool dead() const noexcept { return state == 'Z' || state == 'X'; }
};

/// Any thread; no memory is allocated.
[[nodiscard]] ProcessStat process_stat(pid_t pid) noexcept;
/// True when the process runs under our user. Any thread.
[[nodiscard]] bool is_of_this_user(pid_t pid) noexcept;

}  // namespace weft
