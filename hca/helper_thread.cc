// How it works: the thread calls help(), then waits in ppoll() for kicks and for the links' descriptors until
// the time that help() returned. While it drives and traffic flows, it calls help() again without waiting,
// like the loop of a switch.
#include "hca/helper_thread.h"

#include <poll.h>
#include <sched.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/spin_policy.h"

namespace weft::hca {
namespace {

constexpr Duration kSleepMax = 500ms;  // bounds the delay after a lost wake-up

}  // namespace

HelperThread::HelperThread(Device& device, const Clock& clock) : device_(device), clock_(clock) {
  WEFT_CHECK(kick_.valid(), "a descriptor for the helper thread");
  fds_.reserve(kFdsMax);
  device_.set_helper(this);
}

HelperThread::~HelperThread() {
  if (fork_guard_.forked()) return;
  if (running_) {
    stop_ = true;
    kick();
    pthread_join(thread_, nullptr);
  }
  device_.set_helper(nullptr);
}

bool HelperThread::start() noexcept {
  const std::lock_guard guard(starting_);
  if (running_) return true;
  const auto run = [](void* self) -> void* {
    static_cast<HelperThread*>(self)->run();
    return nullptr;
  };
  if (start_worker(thread_, "weft-helper", run, this) != 0) return false;
  running_ = true;
  return true;
}

void HelperThread::run() noexcept {
  SpinPolicy spin;
  bool links_ready = false;
  bool stays = false;
  while (!stop_) {
    const Helped helped = device_.help(std::exchange(links_ready, false), std::exchange(stays, false));
    const Instant now = clock_.now();
    if (helped.work != 0) spin.worked(now, helped.work);
    if (helped.until <= now) {
      stays = helped.work != 0 || spin.yields(now);
      if (helped.work != 0 || !stays) continue;
      sched_yield();
      static_cast<void>(spin.yielded(now, clock_.now()));
      continue;
    }
    fds_.clear();
    fds_.push_back({kick_.fd(), POLLIN, 0});
    device_.wait_fds(fds_);
    const Duration wait = helped.until - now < kSleepMax ? helped.until - now : kSleepMax;
    const timespec timeout{0, wait.count()};
    if (ppoll(fds_.data(), fds_.size(), &timeout, nullptr) <= 0) continue;
    if (fds_[0].revents != 0) kick_.clear();
    links_ready = std::any_of(fds_.begin() + 1, fds_.end(), [](const pollfd& fd) { return fd.revents != 0; });
  }
}

}  // namespace weft::hca
