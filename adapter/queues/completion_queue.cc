#include "adapter/queues/completion_queue.h"

#include <bit>

namespace weft::adapter {

CompletionQueue::CompletionQueue(uint32_t index, uint32_t cqes)
    : entries_(std::make_unique<WorkCompletion[]>(std::bit_ceil(cqes))),
      mask_(std::bit_ceil(cqes) - 1),
      index_(index) {}

bool CompletionQueue::push(const WorkCompletion& entry) noexcept {
  if (tail_ - head_ > mask_) [[unlikely]] {
    overrun_ = true;
    return false;
  }
  entries_[tail_++ & mask_] = entry;
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
  while (taken < out.size() && head_ != tail_) out[taken++] = entries_[head_++ & mask_];
  return taken;
}

bool CompletionQueue::take_notification() noexcept {
  const bool was = notified_;
  notified_ = false;
  return was;
}

}  // namespace weft::adapter
