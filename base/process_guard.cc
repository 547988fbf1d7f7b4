#include "base/process_guard.h"

#include <fcntl.h>
#include <sys/signalfd.h>

#include <cerrno>
#include <csignal>

#include "base/log.h"

namespace weft {
namespace {

constexpr Duration kCheckInterval =
    std::chrono::milliseconds(20);  // two system calls each time while the loop spins

}  // namespace

Result<std::unique_ptr<ProcessGuard>> ProcessGuard::create(LoopRunner& loop, int parent_fd) {
  sigset_t wanted;
  sigemptyset(&wanted);
  sigaddset(&wanted, SIGTERM);
  sigaddset(&wanted, SIGINT);
  if (pthread_sigmask(SIG_BLOCK, &wanted, nullptr) != 0 || std::signal(SIGPIPE, SIG_IGN) == SIG_ERR) {
    return errno_error("cannot set up signals", errno);
  }
  UniqueFd signals(signalfd(-1, &wanted, SFD_NONBLOCK | SFD_CLOEXEC));
  if (!signals.valid()) return errno_error("cannot set up signals", errno);
  if (parent_fd >= 0 && fcntl(parent_fd, F_GETFD) < 0) {
    return errno_error("--parent-fd names no descriptor", errno);
  }
  return std::unique_ptr<ProcessGuard>(
      new ProcessGuard(loop, std::move(signals), parent_fd));  // tidy: private constructor
}

int ProcessGuard::poll(Instant now) noexcept {
  if (now < check_at_) return 0;
  check_at_ = now + kCheckInterval;
  signalfd_siginfo info{};
  if (read(signals_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    log(LogLevel::kInfo, "{}: ending", info.ssi_signo == SIGTERM ? "SIGTERM" : "SIGINT");
    loop_.stop();
  }
  // Polled, never read: all children of the launcher share this open file and its O_NONBLOCK flag, so that
  // one of them could make a read() of the others block.
  pollfd parent{parent_fd_, 0, 0};
  if (parent_fd_ >= 0 && ::poll(&parent, 1, 0) > 0 && (parent.revents & (POLLHUP | POLLERR)) != 0) {
    log(LogLevel::kInfo, "parent is gone: ending");
    parent_fd_ = -1;
    loop_.stop();
  }
  return 0;
}

void ProcessGuard::wait_fds(std::vector<pollfd>& out) const {
  out.push_back({signals_.get(), POLLIN, 0});
  if (parent_fd_ >= 0) out.push_back({parent_fd_, 0, 0});  // poll() always reports a hang-up
}

}  // namespace weft
