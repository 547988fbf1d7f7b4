// hca/helper_thread.h -- the thread that drives a device while no caller does. All signals but SIGSEGV and
// SIGBUS are blocked in it, and it takes no memory: the first that a thread takes maps and unmaps some, and
// libraries of programs (libfabric, UCX) rewrite the code of mmap() and munmap() while they believe that
// no other thread runs.
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
  /// Becomes the helper of the device; both references must outlive it.
  HelperThread(Device& device, const Clock& clock);
  /// Ends the thread. In a child after fork() there is none to end.
  ~HelperThread() override;
  HelperThread(const HelperThread&) = delete;
  HelperThread& operator=(const HelperThread&) = delete;

  [[nodiscard]] bool start() noexcept override;
  void kick() noexcept override { kick_.wake(); }
  [[nodiscard]] bool running() const noexcept { return running_; }

 private:
  static constexpr size_t kFdsMax = 64;  // far more than the links of a device have

  void run() noexcept;

  Device& device_;
  const Clock& clock_;
  ForkGuard fork_guard_;
  WakeUp kick_;
  std::vector<pollfd> fds_{};  // what the thread waits for
  std::mutex starting_;
  pthread_t thread_{};
  std::atomic<bool> running_{false};
  std::atomic<bool> stop_{false};
};

}  // namespace weft::hca
