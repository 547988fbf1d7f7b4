#include "tools/launch/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdlib>
#include <sstream>

#include "base/process_limits.h"
#include "base/unique_fd.h"

namespace weft::tools {
namespace {

using namespace std::chrono_literals;

constexpr size_t kOutputBytesMax = 64 * 1024;
constexpr off_t kLogBytesMax = 8 << 20;

/// The child's part between fork() and exec(): system calls only. Returns only on failure, with errno set.
struct ChildSetup {
  std::vector<char*> argv;
  std::vector<int> fds;  // descriptors that become 0, 1, 2, 3, ...
  int netns_fd;
  int report_fd;
  pid_t parent;
  bool end_with_parent;

  void become() {
    close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);  // also descriptors that this process itself inherited
    // Move descriptors above all numbers that the child is to see, but no higher than needed, because the
    // limit of open files may be low.
    const auto above = static_cast<int>(fds.size());
    const int parked = fcntl(report_fd, F_DUPFD_CLOEXEC, above);
    if (parked < 0) return;
    report_fd = parked;
    for (int& fd : fds) {
      fd = fcntl(fd, F_DUPFD_CLOEXEC, above);
      if (fd < 0) return;
    }
    if (netns_fd >= 0 && setns(netns_fd, CLONE_NEWNET) != 0) return;
    for (size_t i = 0; i < fds.size(); ++i)
      if (dup2(fds[i], static_cast<int>(i)) < 0) return;
    setpgid(0, 0);
    if (end_with_parent) {
      prctl(PR_SET_PDEATHSIG, SIGTERM);
      if (getppid() != parent) _exit(1);
    }
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    for (const int number : {SIGPIPE, SIGINT, SIGTERM, SIGCHLD, SIGHUP}) signal(number, SIG_DFL);
    execv(argv[0], argv.data());
  }
};

/// Opens a log for appending. A log of more than kLogBytesMax is renamed to *.old first.
int open_log(const std::string& path) {
  if (path.empty()) return open("/dev/null", O_WRONLY | O_CLOEXEC);
  struct stat info {};
  if (stat(path.c_str(), &info) == 0 && info.st_size > kLogBytesMax)
    rename(path.c_str(), (path + ".old").c_str());
  return open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
}

Result<pid_t> fork_and_exec(const ChildSpec& spec, int output) {
  const UniqueFd null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  std::array<int, 2> report{};
  if (!null.valid() || pipe2(report.data(), O_CLOEXEC) != 0)
    return errno_error("cannot start " + spec.argv[0], errno);
  const UniqueFd report_in(report[0]);
  UniqueFd report_out(report[1]);

  ChildSetup setup{{},       {null.get(), output, output}, spec.netns_fd, report_out.get(),
                   getpid(), spec.end_with_parent};
  std::vector<std::string> words = spec.argv;
  for (std::string& word : words) setup.argv.push_back(word.data());
  setup.argv.push_back(nullptr);
  setup.fds.insert(setup.fds.end(), spec.handed.begin(), spec.handed.end());

  const pid_t pid = fork();
  if (pid < 0) return no_process("cannot start " + spec.argv[0], errno);
  if (pid == 0) {
    setup.become();
    const int failure = errno;
    [[maybe_unused]] const ssize_t told = write(setup.report_fd, &failure, sizeof failure);
    _exit(127);
  }
  report_out.reset();
  int failure = 0;
  ssize_t got = 0;
  do got = read(report_in.get(), &failure, sizeof failure);
  while (got < 0 && errno == EINTR);
  if (got == sizeof failure) {
    waitpid(pid, nullptr, 0);
    return errno_error("cannot start " + spec.argv[0], failure);
  }
  return pid;
}

}  // namespace

Result<pid_t> start_child(const ChildSpec& spec) {
  const UniqueFd log(open_log(spec.log_path));
  if (!log.valid()) return errno_error("cannot open log " + spec.log_path, errno);
  return fork_and_exec(spec, log.get());
}

Result<CommandResult> run_command(const std::vector<std::string>& argv, int netns_fd, Duration timeout) {
  ChildSpec spec;
  spec.argv = argv;
  spec.netns_fd = netns_fd;
  if (spec.argv[0].find('/') == std::string::npos) {
    spec.argv[0] = find_program(argv[0]);
    if (spec.argv[0].empty())
      return Error{fmt::format("program '{}' is not installed; run scripts/setup", argv[0])};
  }
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return errno_error("cannot run " + argv[0], errno);
  const UniqueFd in(ends[0]);
  UniqueFd out(ends[1]);
  Result<pid_t> pid = fork_and_exec(spec, out.get());
  if (!pid.ok()) return pid.error();
  out.reset();

  CommandResult result;
  const Instant end = MonotonicClock().now() + timeout;
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - MonotonicClock().now());
    pollfd item{in.get(), POLLIN, 0};
    const int ready = left > 0ms ? ::poll(&item, 1, static_cast<int>(left.count()) + 1) : 0;
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) {
      kill(pid.value(), SIGKILL);
      waitpid(pid.value(), nullptr, 0);
      return Error{fmt::format("'{}' did not end in time", fmt::join(argv, " "))};
    }
    std::array<char, 4096> chunk;
    const ssize_t bytes = read(in.get(), chunk.data(), chunk.size());
    if (bytes <= 0) break;
    if (result.output.size() < kOutputBytesMax)
      result.output.append(chunk.data(), static_cast<size_t>(bytes));
  }
  int status = 0;
  while (waitpid(pid.value(), &status, 0) < 0 && errno == EINTR) {
  }
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

std::string find_program(const std::string& name) {
  std::array<char, PATH_MAX> self{};
  const ssize_t bytes = readlink("/proc/self/exe", self.data(), self.size() - 1);
  std::string places;
  if (bytes > 0) places = std::string(self.data(), static_cast<size_t>(bytes));
  places = places.substr(0, places.rfind('/'));
  const char* path = std::getenv("PATH");
  places += fmt::format(":{}:/usr/sbin:/sbin", path != nullptr ? path : "/usr/bin:/bin");
  std::istringstream list(places);
  for (std::string place; std::getline(list, place, ':');) {
    std::string candidate = fmt::format("{}/{}", place, name);
    if (place.starts_with("/") && access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return {};
}

}  // namespace weft::tools
