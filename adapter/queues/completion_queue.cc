#include "adapter/queues/completion_queue.h"

#include <bit>

namespace weft::adapter {

CompletionQueue::CompletionQueue(uint32_t index, uint32_t cqes, FixedRing<CompletionQueue*>& notified)
    : list_(notified), index_(index) {
  entries_.reset(std::bit_ceil(cqes));
}

void CompletionQueue::notify(const WorkCompletion& entry) noexcept {
  const bool solicited = (entry.flags & kWcSolicited) != 0 || entry.status != WcStatus::kSuccess;
  if (notify_ != CqNotify::kNext && !solicited) return;
  notify_ = CqNotify::kOff;
  notified_ = true;
  if (!listed_) listed_ = list_.push(this);
}

bool CompletionQueue::resize(uint32_t cqes) {
  if (cqes < entries_.size()) return false;
  FixedRing<WorkCompletion> wanted;
  wanted.reset(std::bit_ceil(cqes));
  for (; !entries_.empty(); entries_.pop()) wanted.push(entries_.front());
  entries_ = std::move(wanted);
  return true;
}

void CompletionQueue::purge(Qpn qpn) noexcept {
  for (size_t left = entries_.size(); left > 0; --left) {
    const WorkCompletion entry = entries_.front();
    entries_.pop();
    if (entry.qpn != qpn) entries_.push(entry);
  }
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
