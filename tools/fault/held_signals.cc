#include "tools/fault/held_signals.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <ctime>

namespace weft::tools {

HeldSignals::HeldSignals() noexcept {
  sigset_t held;
  sigemptyset(&held);
  sigemptyset(&ending_);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    sigaddset(&held, number);
    // A blocked signal is queued even if it is ignored (nohup).
    struct sigaction now {};
    if (sigaction(number, nullptr, &now) == 0 && now.sa_handler != SIG_IGN) sigaddset(&ending_, number);
  }
  sigaddset(&held, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &held, &before_);
}

HeldSignals::~HeldSignals() {
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

bool HeldSignals::wait(Duration time) noexcept {
  const MonotonicClock clock;
  const Instant end = clock.now() + time;
  for (;;) {
    const auto left = std::max<int64_t>(std::chrono::nanoseconds(end - clock.now()).count(), 0);
    const timespec limit{.tv_sec = left / 1'000'000'000, .tv_nsec = left % 1'000'000'000};
    const int came = sigtimedwait(&ending_, nullptr, &limit);
    if (came > 0) {
      raise(came);  // it acts when this object ends
      return false;
    }
    if (errno != EINTR) return true;
  }
}

}  // namespace weft::tools
