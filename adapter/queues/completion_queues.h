// adapter/queues/completion_queues.h -- the completion queues of an adapter, and the list of those with a
// notification.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "adapter/verbs.h"
#include "base/fixed_ring.h"
#include "base/result.h"

namespace weft::adapter {

class CompletionQueue;
struct Engine;

/// Owner: the adapter's thread. The only way to a queue for a consumer, who sees no more of it than its name
/// (SAN-QP-01).
class CompletionQueues {
 public:
  /// `engine` is the adapter's and must outlive this.
  explicit CompletionQueues(Engine& engine);
  ~CompletionQueues();
  CompletionQueues(const CompletionQueues&) = delete;
  CompletionQueues& operator=(const CompletionQueues&) = delete;

  // ---- kernel agent --------------------
  /// `vector` must be below AdapterLimits::completion_vectors. All queues of an adapter are served alike.
  Refusable<CompletionQueue*> create(uint32_t cqes, uint32_t vector = 0);
  /// The same in two steps: make() checks the size and allocates memory, on any thread; create() enters the
  /// queue into the adapter. If that is refused, the caller keeps the queue.
  Refusable<std::unique_ptr<CompletionQueue>> make(uint32_t cqes) const;
  Refusable<CompletionQueue*> create(std::unique_ptr<CompletionQueue>&& made, uint32_t vector = 0);
  /// Changes the number of entries. Refused, without any change, when more entries wait.
  Refusable<> resize(CompletionQueue& cq, uint32_t cqes);
  /// The same in two steps, of which the first may be called by any thread. On success `room` holds the old
  /// memory.
  Refusable<FixedRing<WorkCompletion>> room_for(uint32_t cqes) const;
  Refusable<> resize(CompletionQueue& cq, FixedRing<WorkCompletion>& room);
  /// Refused while a QP completes there. The queue's memory goes to `memory`, unless that is null.
  Refusable<> destroy(CompletionQueue* cq, std::unique_ptr<CompletionQueue>* memory = nullptr);
  [[nodiscard]] bool owns(const CompletionQueue& cq) const noexcept;
  [[nodiscard]] CqInfo query(const CompletionQueue& cq) const noexcept;
  /// Fills `out` with the QPs that complete into the CQ, or the first of them. @return their number. Looks at
  /// every QP.
  uint32_t loads(const CompletionQueue& cq, std::span<QpLoad> out) const noexcept;

  // ---- data path --------------------
  /// Takes up to `out.size()` completions, oldest first, and frees the places of their requests where QPs
  /// hold them (QpConfig::hold_places). Returns their number.
  [[nodiscard]] uint32_t poll(CompletionQueue& cq, std::span<WorkCompletion> out) noexcept;
  /// Asks for one notification with the next entry, or with the next solicited or failed entry.
  void arm(CompletionQueue& cq, CqNotify when) noexcept;
  /// True once after an armed queue has got such an entry.
  [[nodiscard]] bool take_notification(CompletionQueue& cq) noexcept;
  /// Takes the oldest notification and returns its queue, so that callers need not check all queues; null
  /// when there is none.
  [[nodiscard]] CompletionQueue* next_notified() noexcept;
  /// next_notified() may give one.
  [[nodiscard]] bool has_notified() const noexcept { return !notified_.empty(); }

  // ---- turn --------------------
  /// The QPs of all queues that have lost an entry have been failed.
  void end_overrun() noexcept;

 private:
  [[nodiscard]] Refusable<> check_size(const char* line, uint32_t cqes) const noexcept;

  Engine& engine_;
  std::vector<std::unique_ptr<CompletionQueue>> queues_;  // by index; null: the place is free
  FixedRing<CompletionQueue*> notified_;  // queues with a notification that is not taken; each once
};

}  // namespace weft::adapter
