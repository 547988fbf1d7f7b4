// adapter/queues/completion_queues.h -- the completion queues of an adapter, and the list of those with a
// notification. Internal to adapter/.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "adapter/queues/completion_queue.h"
#include "base/fixed_ring.h"

namespace weft::adapter {

/// Owner: the adapter's thread.
class CompletionQueues {
 public:
  explicit CompletionQueues(uint32_t most) : most_(most) {
    queues_.reserve(most);
    notified_.reset(most);
  }
  CompletionQueues(const CompletionQueues&) = delete;
  CompletionQueues& operator=(const CompletionQueues&) = delete;

  /// Null, and `made` keeps the queue, when all places are in use.
  [[nodiscard]] CompletionQueue* add(std::unique_ptr<CompletionQueue>& made) noexcept;
  /// Takes out a queue that add() has returned.
  [[nodiscard]] std::unique_ptr<CompletionQueue> remove(CompletionQueue& cq) noexcept;
  [[nodiscard]] bool owns(const CompletionQueue& cq) const noexcept {
    return cq.index() < queues_.size() && queues_[cq.index()].get() == &cq;
  }
  /// Takes the oldest notification and returns its queue; null when there is none.
  [[nodiscard]] CompletionQueue* next_notified() noexcept;
  /// The QPs of all queues that have lost an entry have been failed.
  void end_overrun() noexcept;

 private:
  uint32_t most_;
  std::vector<std::unique_ptr<CompletionQueue>> queues_;  // by index; null: the place is free
  FixedRing<CompletionQueue*> notified_;  // queues with a notification that is not taken; each once
};

}  // namespace weft::adapter
