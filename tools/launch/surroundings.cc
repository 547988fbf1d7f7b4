#include "tools/launch/surroundings.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string_view>

#include "base/unique_fd.h"

namespace weft::tools {
namespace {

using Kept = std::vector<std::string>;
using Resource = decltype(RLIMIT_CPU);

constexpr size_t kCoresMax = 8192;              // more than any Linux build supports
constexpr unsigned long kTimerSlackNs = 50000;  // the value after a login
constexpr rlim_t kStackBytes = 8 << 20;
constexpr rlim_t kDescriptors = 1024;

/// A limit that would sooner or later end a fabric if it stayed.
struct FatalLimit {
  Resource resource;
  std::string_view name;
};
constexpr std::array<FatalLimit, 4> kFatalLimits{{{RLIMIT_CPU, "CPU time"},
                                                  {RLIMIT_FSIZE, "file sizes"},
                                                  {RLIMIT_AS, "address space"},
                                                  {RLIMIT_DATA, "data"}}};
constexpr std::array kOtherLimits{RLIMIT_NPROC,      RLIMIT_MEMLOCK,  RLIMIT_LOCKS,
                                  RLIMIT_SIGPENDING, RLIMIT_MSGQUEUE, RLIMIT_RTTIME};

void take_default_signals() noexcept {
  for (int number = 1; number < NSIG; ++number) signal(number, SIG_DFL);
  signal(SIGXFSZ, SIG_IGN);  // beyond the limit write() fails; the fabric continues
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

void take_all_cores() {
  const size_t bytes = CPU_ALLOC_SIZE(kCoresMax);
  const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> cores(CPU_ALLOC(kCoresMax),
                                                               [](cpu_set_t* set) { CPU_FREE(set); });
  if (cores == nullptr) return;
  CPU_ZERO_S(bytes, cores.get());
  for (size_t core = 0; core < kCoresMax; ++core) CPU_SET_S(core, bytes, cores.get());
  sched_setaffinity(0, bytes, cores.get());  // the kernel ignores cores outside the cpuset
}

void take_default_scheduling(Kept& kept) {
  constexpr int kWhoProcess = 1;  // for ioprio_set()
  const sched_param none{};
  if ((sched_getscheduler(0) & ~SCHED_RESET_ON_FORK) != SCHED_OTHER &&
      sched_setscheduler(0, SCHED_OTHER, &none) != 0)
    kept.emplace_back("a scheduling class other than SCHED_OTHER");
  setpriority(PRIO_PROCESS, 0, 0);
  if (const int nice = getpriority(PRIO_PROCESS, 0); nice > 0) kept.push_back(fmt::format("nice {}", nice));
  take_all_cores();
  syscall(SYS_set_mempolicy, 0, nullptr, 0);
  syscall(SYS_ioprio_set, kWhoProcess, 0, 0);
  prctl(PR_SET_TIMERSLACK, kTimerSlackNs);
  prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0);
  const UniqueFd score(open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC));
  if (score.valid()) [[maybe_unused]]
    const ssize_t written = write(score.get(), "0", 1);
}

/// Sets the soft limit to `wanted`, or to the hard limit if that is lower.
void set_soft(Resource resource, rlim_t wanted) noexcept {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0) return;
  limit.rlim_cur = std::min(wanted, limit.rlim_max);
  setrlimit(resource, &limit);
}

void take_default_limits(Kept& kept) {
  const rlimit unlimited{RLIM_INFINITY, RLIM_INFINITY};
  for (const FatalLimit& each : kFatalLimits) {
    if (setrlimit(each.resource, &unlimited) == 0) continue;
    set_soft(each.resource, RLIM_INFINITY);
    rlimit left{};
    getrlimit(each.resource, &left);
    if (left.rlim_cur != RLIM_INFINITY)
      kept.push_back(fmt::format("a limit of {} ({})", each.name, static_cast<uint64_t>(left.rlim_cur)));
  }
  for (const Resource resource : kOtherLimits) set_soft(resource, RLIM_INFINITY);
  set_soft(RLIMIT_STACK, kStackBytes);
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < kDescriptors)
    set_soft(RLIMIT_NOFILE, kDescriptors);
}

/// Keeps the session: with autogroups the kernel shares cores out by session (docs/performance.md).
void leave_terminal() noexcept {
  const UniqueFd terminal(open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (terminal.valid()) ioctl(terminal.get(), TIOCNOTTY);
}

}  // namespace

std::vector<std::string> leave_surroundings() {
  Kept kept;
  take_default_signals();
  take_default_scheduling(kept);
  take_default_limits(kept);
  leave_terminal();
  umask(077);
  if (chdir("/") != 0) kept.emplace_back("the working directory");
  return kept;
}

}  // namespace weft::tools
