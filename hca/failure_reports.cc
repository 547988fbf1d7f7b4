#include "hca/failure_reports.h"

#include <mutex>

namespace weft::hca {

void FailureReports::tell() noexcept {
  Failure failure;
  for (bool mine = false;; mine = true) {
    {
      const std::lock_guard guard(lock_);
      if (telling_ && !mine) return;
      telling_ = adapter_.next_failure(failure);
      if (!telling_) return;
      shown_.show(failure);
    }
    if (sink_ != nullptr) sink_->failed(failure);
  }
}

bool FailureReports::told() noexcept {
  const std::lock_guard guard(lock_);
  return !telling_;
}

}  // namespace weft::hca
