#include "tools/launch/daemon.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <span>

#include "base/process_limits.h"

namespace weft::tools {
namespace {

constexpr int kReportFd = STDERR_FILENO + 1;

/// The bytes of this process's arguments, which are contiguous.
std::span<char> command_line;

std::string read_all(int fd) {
  std::string text;
  std::array<char, 512> chunk;
  for (ssize_t bytes = 0; (bytes = read(fd, chunk.data(), chunk.size())) > 0;)
    text.append(chunk.data(), static_cast<size_t>(bytes));
  return text;
}

void wait_for_end(pid_t child) noexcept {
  while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
}

/// Gives up all descriptors of the starter except `report`. For example, a pipe whose reader waits for its
/// end must not stay open in the daemon.
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

void remember_command_line(int argc, char** argv) noexcept {
  if (argc <= 0) return;
  char* end = argv[0];
  for (int i = 0; i < argc && argv[i] == end; ++i) end += std::strlen(argv[i]) + 1;
  command_line = {argv[0], end};
}

void show_command_line(std::string_view text) noexcept {
  if (command_line.empty()) return;
  const size_t kept = std::min(text.size(), command_line.size() - 1);
  std::copy_n(text.begin(), kept, command_line.begin());
  std::fill(command_line.begin() + static_cast<std::ptrdiff_t>(kept), command_line.end(), '\0');
}

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
    wait_for_end(pid);
    const std::string text = read_all(in.get());
    if (text.empty()) return Error{"the fabric ended before it was ready"};
    if (text[0] != 'r') return Error{text.substr(1)};
    report.set_note(text.substr(1));
    return false;
  }
  // The caller may execute a program that waits for all of its children, so the daemon must not be its child.
  const pid_t daemon = fork();
  if (daemon != 0) {
    if (daemon < 0) DaemonReport(std::move(out)).failed(no_process("cannot start a daemon", errno).text);
    _exit(0);
  }
  // A process group of its own keeps signals of the terminal away. It is not a session of its own: with
  // autogroups the kernel schedules each session as one unit, and sched_yield() only yields to tasks of the
  // same session. Programs and a switch that share a core would then wait for each other's time slices
  // (docs/performance.md).
  setpgid(0, 0);
  in.reset();
  report = DaemonReport(keep_only(std::move(out)));
  close_range(kReportFd + 1, ~0U, 0);
  return true;
}

}  // namespace weft::tools
