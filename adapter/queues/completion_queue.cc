#include "adapter/queues/completion_queue.h"

#include <bit>

namespace weft::adapter {

CompletionQueue::CompletionQueue(uint32_t index, uint32_t cqes) : index_(index) {
  entries_.reset(std::bit_ceil(cqes));
}

bool CompletionQueue::push(const WorkCompletion& entry) noexcept {
  if (!entries_.push(entry)) [[unlikely]] {
    overrun_ = true;
    return false;
  }
  if (notify_ != CqNotify::kOff) {
    const bool solicited = (entry.flags & kWcSolicited) != 0 || entry.status != WcStatus::kSuccess;
    if (notify_ == CqNotify::kNext || solicited) {
      notify_ = CqNotify::kOff;
      notified_ = true;
    }
  }
  return true;
}

uint32_t CompletionQueue::poll(std::span<WorkCompletion> out) noexcept {
  uint32_t taken = 0;
  for (; taken < out.size() && !entries_.empty(); entries_.pop()) out[taken++] = entries_.front();
  overrun_told_ = overrun_told_ && taken == 0;
  return taken;
}

bool CompletionQueue::take_notification() noexcept {
  const bool was = notified_;
  notified_ = false;
  return was;
}

}  // namespace weft::adapter
