#include "tools/daemon.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/process_limits.h"

namespace weft::tools {
namespace {

constexpr int kReportFd = STDERR_FILENO + 1;

std::string read_all(int fd) {
  std::string text;
  std::array<char, 512> chunk;
  for (ssize_t bytes = 0; (bytes = read(fd, chunk.data(), chunk.size())) > 0;)
    text.append(chunk.data(), static_cast<size_t>(bytes));
  return text;
}

/// What was open where it was started -- a pipe that somebody reads to its end -- is not the daemon's.
UniqueFd keep_only(UniqueFd report) {
  {
    const UniqueFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
    for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(null.get(), fd);
  }
  if (report.get() == kReportFd) return report;
  dup3(report.get(), kReportFd, O_CLOEXEC);
  return UniqueFd(kReportFd);
}

}  // namespace

void DaemonReport::send(const std::string& text) {
  if (!fd_.valid()) return;
  [[maybe_unused]] const ssize_t written = write(fd_.get(), text.data(), text.size());
  fd_.reset();
}

Result<bool> start_daemon(DaemonReport& report) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return errno_error("cannot open a pipe", errno);
  UniqueFd in(ends[0]);
  UniqueFd out(ends[1]);
  const pid_t pid = fork();
  if (pid < 0) return no_process("cannot start a daemon", errno);
  if (pid != 0) {
    out.reset();
    const std::string text = read_all(in.get());
    if (text == "r") return false;
    return Error{text.empty() ? "the fabric ended before it was ready" : text.substr(1)};
  }
  // A process group of its own keeps signals of the terminal away. Not a session: with autogroups the kernel
  // schedules each session as one, and sched_yield() gives a core away within its session only, so programs
  // and a switch that share a core would wait for each other's time slices (docs/performance.md).
  setpgid(0, 0);
  in.reset();
  report = DaemonReport(keep_only(std::move(out)));
  close_range(kReportFd + 1, ~0U, 0);
  return true;
}

}  // namespace weft::tools
