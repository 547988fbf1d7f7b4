// hca/channel.h -- completion queues, and the channel that reports which armed queues have got an entry.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "adapter/adapter.h"
#include "adapter/queues/completion_queue.h"
#include "base/clock.h"
#include "hca/deferred_work.h"
#include "hca/object.h"

namespace weft::hca {

class Cq;

/// Any thread. The descriptor is readable while notifications wait, one unit per notification.
class CompletionChannel final : public Object {
 public:
  CompletionChannel(ContextBase& context, std::shared_ptr<EventFd> descriptor);

  [[nodiscard]] int fd() const noexcept { return source_.descriptor->fd(); }
  [[nodiscard]] int poll_fd() const noexcept { return source_.descriptor->poll_fd(); }
  /// Waits for the next notification unless fd() is O_NONBLOCK. `out` is set only on kOk; the event must then
  /// be acknowledged before the CQ can be destroyed. Other answers: kAgain, kInterrupted, kForked.
  [[nodiscard]] Answer get_event(Cq*& out);
  /// CQs that will notify at their next entry, or whose notification waits.
  [[nodiscard]] uint32_t armed() const noexcept;

  // ---- hca/ alone, under the device's lock --------------------
  void notify(Cq& cq) noexcept;
  /// A CQ was armed (+1), or has notified or ended (-1).
  void count_armed(int32_t change) noexcept { armed_ += static_cast<uint32_t>(change); }
  /// Drops the notifications of a CQ that is being destroyed.
  void forget(Cq& cq) noexcept;

 private:
  [[nodiscard]] Answer release() noexcept override;
  [[nodiscard]] Cq* take_first() noexcept;

  EventSource source_;
  Cq* first_ = nullptr;  // notified CQs, oldest first
  Cq* last_ = nullptr;
  uint32_t armed_ = 0;
};

/// Any thread.
class Cq final : public NotifiedObject {
 public:
  Cq(ContextBase& context, void* user, adapter::CompletionQueue& queue, CompletionChannel* channel) noexcept
      : NotifiedObject(context, user, queue), channel_(channel) {}

  /// Takes up to out.size() completions, oldest first; if there are none, drives the adapter and looks again.
  /// @return the number taken; 0 in a signal handler that has interrupted another call on the device; -1 in a
  /// child after fork()
  [[nodiscard]] int poll(std::span<adapter::WorkCompletion> out) noexcept {
    Instant at = kNever;
    return poll(out, at);
  }
  /// The same. `at` is set to the time of the call unless it returns -1; if it is kNever, the call may leave
  /// it so when it needs no time.
  [[nodiscard]] int poll(std::span<adapter::WorkCompletion> out, Instant& at) noexcept;
  /// Takes the next entry of a batch that poll() has begun; 0 when the batch ends. If a completion event of
  /// this CQ waits at the channel, the batch ends once at the entry that caused it: otherwise a program that
  /// armed the queue before the batch would later get an event without an entry.
  [[nodiscard]] int poll_next(adapter::WorkCompletion& out) noexcept;
  /// Asks for one notification, at the next entry or at the next solicited or failed one. An entry that waits
  /// and of which no notification has told counts as the next.
  Answer arm(bool solicited_only) noexcept;
  /// Acknowledges events that get_event() returned.
  void ack_events(uint32_t count) noexcept;
  [[nodiscard]] adapter::CqInfo query() const noexcept;
  /// Fills `out` with the QPs that complete here, or the first of them; `count` is their number. False in a
  /// child after fork(), and in a signal handler that has interrupted another call on the device.
  [[nodiscard]] bool loads(std::span<adapter::QpLoad> out, uint32_t& count) const noexcept;
  /// Changes the number of entries. kBadSize when the number is out of range or less than the entries in the
  /// queue.
  [[nodiscard]] Answer resize(uint32_t cqes) noexcept;
  [[nodiscard]] CompletionChannel* channel() const noexcept { return channel_; }

  // ---- hca/ alone, under the device's lock --------------------
  void enter(adapter::CompletionQueue* queue) noexcept;
  void notify() noexcept override;
  struct Waiting {
    Cq* next = nullptr;
    uint32_t notifications = 0;  // not taken yet; the CQ is in its channel's list while there are any
  };
  Waiting waiting;

 private:
  [[nodiscard]] Answer release() noexcept override;
  [[nodiscard]] uint32_t take(std::span<adapter::WorkCompletion> out) noexcept;
  [[nodiscard]] int poll_beside_windows(std::span<adapter::WorkCompletion> out, Instant& at) noexcept;

  CompletionChannel* channel_;
  std::unique_ptr<adapter::CompletionQueue> memory_;  // the adapter's queue after release()
  uint32_t taken_since_turn_ = 0;
  bool armed_ = false;
};

}  // namespace weft::hca
