// hca/fork_guard.h -- tells a process from its children after fork() by one load, from a page that the kernel
// zeroes in a child.
#pragma once

#include <atomic>

namespace weft::hca {

/// Any thread.
class ForkGuard {
 public:
  ForkGuard();
  ~ForkGuard();
  ForkGuard(const ForkGuard&) = delete;
  ForkGuard& operator=(const ForkGuard&) = delete;

  /// True in a child of the process that made this object.
  [[nodiscard]] bool forked() const noexcept { return mark_->load(std::memory_order_relaxed) == 0; }

 private:
  std::atomic<int>* mark_;
};

}  // namespace weft::hca
