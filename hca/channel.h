// hca/channel.h -- completion queues, and the channel that tells which of them have got what they were
// armed for.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "adapter/adapter.h"
#include "adapter/queues/completion_queue.h"
#include "base/clock.h"
#include "hca/event_fd.h"
#include "hca/object.h"

namespace weft::hca {

class Cq;

/// Any thread. The descriptor is readable once for each notification that waits.
class CompletionChannel final : public Object {
 public:
  CompletionChannel(ContextBase& context, std::shared_ptr<EventFd> descriptor);

  [[nodiscard]] int fd() const noexcept { return source_.descriptor->fd(); }
  [[nodiscard]] int poll_fd() const noexcept { return source_.descriptor->poll_fd(); }
  /// Waits for the next notification unless fd() is O_NONBLOCK. `out` is set on kOk; the event must be
  /// acknowledged before the CQ can be destroyed. kAgain, kInterrupted, kForked.
  [[nodiscard]] Answer get_event(Cq*& out);

  // ---- hca/ alone, under the device's lock --------------------
  void notify(Cq& cq) noexcept;
  /// Drops the notifications of a CQ that ends.
  void forget(Cq& cq) noexcept;
  [[nodiscard]] Answer release() noexcept override;

 private:
  [[nodiscard]] Cq* take_first() noexcept;

  EventSource source_;
  Cq* first_ = nullptr;  // notified CQs, oldest first
  Cq* last_ = nullptr;
};

/// Any thread.
class Cq final : public NotifiedObject {
 public:
  Cq(ContextBase& context, void* user, adapter::CompletionQueue& queue, CompletionChannel* channel) noexcept
      : NotifiedObject(context, user, queue), channel_(channel) {}

  /// Takes up to out.size() completions, oldest first; drives the adapter when there are none. @return how
  /// many; -1 in a child after fork().
  [[nodiscard]] int poll(std::span<adapter::WorkCompletion> out) noexcept {
    Instant at;
    return poll(out, at);
  }
  /// The same; unless it answers -1, `at` is when it looked.
  [[nodiscard]] int poll(std::span<adapter::WorkCompletion> out, Instant& at) noexcept;
  /// The next entry of a batch that poll() has begun. One whose event was not taken yet ends the batch,
  /// once: a program that armed the queue before it began would take an event without an entry later.
  [[nodiscard]] int poll_next(adapter::WorkCompletion& out) noexcept;
  /// Asks for one notification with the next entry, or the next solicited or failed one. Entries that wait
  /// already make none: poll again afterwards.
  Answer arm(bool solicited_only) noexcept;
  /// Acknowledges events that get_event() gave.
  void ack_events(uint32_t count) noexcept;
  [[nodiscard]] adapter::CqInfo query() const noexcept;
  /// Another number of entries; kInvalid when it cannot be, or more wait.
  [[nodiscard]] Answer resize(uint32_t cqes) noexcept;
  [[nodiscard]] CompletionChannel* channel() const noexcept { return channel_; }

  // ---- hca/ alone, under the device's lock --------------------
  [[nodiscard]] Answer release() noexcept override;
  void notify() noexcept override;
  struct Waiting {
    Cq* next = nullptr;
    uint32_t notifications = 0;  // not taken yet; the CQ is in its channel's list while there are any
  };
  Waiting waiting;

 private:
  CompletionChannel* channel_;
  std::unique_ptr<adapter::CompletionQueue> memory_;  // of the adapter's queue once it has ended
  uint32_t taken_since_turn_ = 0;
};

}  // namespace weft::hca
