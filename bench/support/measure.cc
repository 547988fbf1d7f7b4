#include "bench/support/measure.h"

#include <fmt/core.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>

#include "base/check.h"
#include "base/loop_runner.h"

namespace weft::bench {

void print_figure(std::string_view name, double value, std::string_view unit) {
  fmt::print("{{\"name\": \"{}\", \"value\": {:.6g}, \"unit\": \"{}\", \"build\": \"{}\"}}\n", name, value,
             unit, WEFT_BUILD_TYPE);
  std::fflush(stdout);
}

void pin_to_core(int core) {
  (void)bind_to_core(core < 0 ? kAnyCore : static_cast<uint32_t>(core));
}

std::byte* map_shared(size_t bytes) {
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  WEFT_CHECK(at != MAP_FAILED, "no shared memory");
  return static_cast<std::byte*>(at);
}

namespace {

/// In the child: makes it end with its parent, and after `seconds_max` in any case.
void bind_to_parent(pid_t parent, unsigned seconds_max) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  alarm(seconds_max);
}

}  // namespace

void Children::start(const std::function<void()>& body, unsigned seconds_max) {
  const pid_t parent = getpid();
  const pid_t pid = fork();
  WEFT_CHECK(pid >= 0, "fork failed");
  if (pid == 0) {
    bind_to_parent(parent, seconds_max);
    body();
    std::fflush(stdout);
    _exit(0);
  }
  pids_.push_back(pid);
}

void Children::exec(const std::vector<std::string>& arguments, int core, unsigned seconds_max) {
  start(
      [&] {
        pin_to_core(core);
        std::vector<char*> raw;
        for (const std::string& argument : arguments) raw.push_back(const_cast<char*>(argument.c_str()));
        raw.push_back(nullptr);
        execv(raw[0], raw.data());
        fmt::print(stderr, "cannot run {}\n", arguments[0]);
        _exit(127);
      },
      seconds_max);
}

void Children::stop() {
  for (const pid_t pid : pids_) kill(pid, SIGTERM);
  for (const pid_t pid : pids_) waitpid(pid, nullptr, 0);
  pids_.clear();
}

bool Children::wait() {
  bool good = true;
  for (const pid_t pid : pids_) {
    int status = 0;
    waitpid(pid, &status, 0);
    good = good && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  pids_.clear();
  return good;
}

Children::~Children() {
  for (const pid_t pid : pids_) kill(pid, SIGKILL);
  for (const pid_t pid : pids_) waitpid(pid, nullptr, 0);
}

double percentile(std::vector<double>& samples, double fraction) {
  if (samples.empty()) return 0;
  std::sort(samples.begin(), samples.end());
  const auto index = static_cast<size_t>(fraction * static_cast<double>(samples.size()));
  return samples[std::min(index, samples.size() - 1)];
}

void yield_core() noexcept {
  sched_yield();
}

}  // namespace weft::bench
