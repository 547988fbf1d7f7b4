#include "adapter/queues/completion_queue.h"

#include <algorithm>
#include <bit>

namespace weft::adapter {

FixedRing<WorkCompletion> CompletionQueue::room_for(uint32_t cqes) {
  FixedRing<WorkCompletion> room;
  room.reset(std::bit_ceil(cqes));
  return room;
}

void CompletionQueue::notify(WorkCompletion& entry) noexcept {
  const bool solicited = (entry.flags & kWcSolicited) != 0 || entry.status != WcStatus::kSuccess;
  if (notify_ != CqNotify::kNext && !solicited) return;
  notify_ = CqNotify::kOff;
  entry.flags |= kWcTold | kWcEndsBatch;
  notified_ = true;
  if (!listed_) listed_ = list_->push(this);
}

void CompletionQueue::arm(CqNotify when) noexcept {
  notify_ = when == CqNotify::kOff ? when : std::max(notify_, when);
  for (size_t i = entries_.size(); i-- > 0 && notify_ != CqNotify::kOff;) {
    WorkCompletion& entry = entries_.at(i);
    if ((entry.flags & kWcTold) != 0) return;  // it told of those before it, too
    notify(entry);
  }
}

bool CompletionQueue::resize(FixedRing<WorkCompletion>& room) noexcept {
  if (room.capacity() < entries_.size()) return false;
  for (; !entries_.empty(); entries_.pop()) room.push(entries_.front());
  std::swap(entries_, room);
  return true;
}

uint32_t CompletionQueue::purge(Qpn qpn) noexcept {
  uint32_t receives = 0;
  for (size_t left = entries_.size(); left > 0; --left) {
    const WorkCompletion entry = entries_.front();
    entries_.pop();
    if (entry.qpn != qpn) entries_.push(entry);
    receives += entry.qpn == qpn && ends_receive(entry.opcode) ? 1U : 0U;
  }
  return receives;
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
