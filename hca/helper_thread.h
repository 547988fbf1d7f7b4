// hca/helper_thread.h -- the thread that drives a device while no caller does. All signals are blocked in
// it.
#pragma once

#include <pthread.h>

#include <atomic>
#include <mutex>

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
  void run() noexcept;

  Device& device_;
  const Clock& clock_;
  ForkGuard fork_guard_;
  WakeUp kick_;
  std::mutex starting_;
  pthread_t thread_{};
  std::atomic<bool> running_{false};
  std::atomic<bool> stop_{false};
};

}  // namespace weft::hca
