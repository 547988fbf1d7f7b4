#include "adapter/queues/completion_queues.h"

#include <algorithm>
#include <utility>

namespace weft::adapter {

CompletionQueue* CompletionQueues::add(std::unique_ptr<CompletionQueue>& made) noexcept {
  auto place = std::find(queues_.begin(), queues_.end(), nullptr);
  if (place == queues_.end()) {
    if (queues_.size() == most_) return nullptr;
    place = queues_.emplace(place);  // within the reserved memory
  }
  *place = std::move(made);
  (*place)->join(static_cast<uint32_t>(place - queues_.begin()), notified_);
  return place->get();
}

std::unique_ptr<CompletionQueue> CompletionQueues::remove(CompletionQueue& cq) noexcept {
  notified_.remove(&cq);
  return std::move(queues_[cq.index()]);
}

CompletionQueue* CompletionQueues::next_notified() noexcept {
  while (!notified_.empty()) {
    CompletionQueue* cq = notified_.front();
    notified_.pop();
    if (cq->leave_list()) return cq;
  }
  return nullptr;
}

void CompletionQueues::end_overrun() noexcept {
  for (const auto& cq : queues_) {
    if (cq != nullptr) cq->fails_users = false;
  }
}

}  // namespace weft::adapter
