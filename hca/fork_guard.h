// hca/fork_guard.h -- tells a process from its children after fork(), by one load: a page that the kernel
// hands to a child empty.
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

  /// True in a child of the process that made this.
  [[nodiscard]] bool forked() const noexcept { return mark_->load(std::memory_order_relaxed) == 0; }

 private:
  std::atomic<int>* mark_;
};

}  // namespace weft::hca
