// hca/helper_thread.h -- the thread that drives a device while no caller does. It blocks all signals but
// SIGSEGV and SIGBUS. It allocates no memory, except for memory windows: a thread's first allocation calls
// mmap() and munmap(), and some libraries (libfabric, UCX) patch the code of these functions while they
// assume that no other thread runs. They do so when a domain is opened, before its queue pairs can want a
// window.
#pragma once

#include <poll.h>
#include <pthread.h>

#include <atomic>
#include <mutex>
#include <vector>

#include "base/clock.h"
#include "base/worker_thread.h"
#include "hca/device.h"
#include "hca/fork_guard.h"

namespace weft::hca {

class HelperThread final : public Helper {
 public:
  /// Becomes the helper of `device`. Device and clock must outlive it.
  HelperThread(Device& device, const Clock& clock);
  /// Ends the thread. A child after fork() has no such thread.
  ~HelperThread() override;
  HelperThread(const HelperThread&) = delete;
  HelperThread& operator=(const HelperThread&) = delete;

  [[nodiscard]] bool start() noexcept override;
  void kick() noexcept override { kick_.wake(); }
  [[nodiscard]] bool running() const noexcept { return running_; }

 private:
  static constexpr size_t kFdsMax = 64;  // far more than the links of a device need

  void run() noexcept;

  Device& device_;
  const Clock& clock_;
  ForkGuard fork_guard_;
  WakeUp kick_;
  std::vector<pollfd> fds_{};  // descriptors that the thread waits for
  std::mutex starting_;
  pthread_t thread_{};
  std::atomic<bool> running_{false};
  std::atomic<bool> stop_{false};
};

}  // namespace weft::hca
