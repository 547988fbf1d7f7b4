// How it works: under the lock, notify() appends a notification to the channel's list and notes that the
// descriptor is owed one unit. The unit is written after the lock is released. A reader takes a unit and then
// the event, so it finds an event unless the event's CQ has been destroyed in between (no_event_for_unit()).
#include "hca/channel.h"

#include <new>
#include <utility>

#include "hca/device_core.h"

namespace weft::hca {
namespace {

/// A poll that keeps finding entries runs a turn each time this many were taken. The link is thus still
/// served, and draining a queue costs little more than the copies.
constexpr uint32_t kEntriesPerTurn = 32;

}  // namespace

// ---- channel --------------------

CompletionChannel::CompletionChannel(ContextBase& context, std::shared_ptr<EventFd> descriptor)
    : Object(context, nullptr), source_{std::move(descriptor)} {}

Answer CompletionChannel::get_event(Cq*& out) {
  for (;;) {
    if (!core().prepare_to_wait()) return Answer::kForked;
    const Answer unit = source_.descriptor->take();
    if (unit != Answer::kOk) return unit;
    const Hold hold(core());
    out = take_first();
    if (out == nullptr) {
      source_.descriptor->no_event_for_unit();
      continue;
    }
    ++out->refs.unacknowledged;
    return Answer::kOk;
  }
}

uint32_t CompletionChannel::armed() const noexcept {
  if (core().forked()) return 0;
  const Hold hold(core());
  return armed_ + (first_ != nullptr ? 1 : 0);
}

void CompletionChannel::notify(Cq& cq) noexcept {
  core().deferred.owe(source_);
  if (cq.waiting.notifications++ != 0) return;
  cq.waiting.next = nullptr;
  (first_ == nullptr ? first_ : last_->waiting.next) = &cq;
  last_ = &cq;
}

Cq* CompletionChannel::take_first() noexcept {
  Cq* cq = first_;
  if (cq == nullptr) return nullptr;
  first_ = cq->waiting.next;
  // A CQ with further notifications goes to the end of the list, so that CQs take turns.
  const uint32_t left = --cq->waiting.notifications;
  if (left == 0) return cq;
  cq->waiting.next = nullptr;
  (first_ == nullptr ? first_ : last_->waiting.next) = cq;
  last_ = cq;
  return cq;
}

void CompletionChannel::forget(Cq& cq) noexcept {
  if (cq.waiting.notifications == 0) return;
  Cq* before = nullptr;
  for (Cq* at = first_; at != &cq; at = at->waiting.next) before = at;
  (before == nullptr ? first_ : before->waiting.next) = cq.waiting.next;
  if (last_ == &cq) last_ = before;
  core().deferred.take_back(source_, cq.waiting.notifications);
}

Answer CompletionChannel::release() noexcept {
  core().deferred.forget(source_);
  return Answer::kOk;
}

// ---- CQ --------------------

void Cq::enter(adapter::CompletionQueue* queue) noexcept {
  queue->events.user = as_user();
  if (channel_ != nullptr) ++channel_->refs.users;
}

int Cq::poll(std::span<adapter::WorkCompletion> out, Instant& at) noexcept {
  DeviceCore& device = core();
  if (const Answer why = device.refusal(); why != Answer::kOk) return why == Answer::kForked ? -1 : 0;
  if (device.serves_windows()) return poll_beside_windows(out, at);
  Hold hold(device);
  at = hold.now();
  uint32_t taken = device.adapter.cqs().poll(queue(), out);
  taken_since_turn_ += taken;
  if (taken == 0 || taken_since_turn_ >= kEntriesPerTurn) {
    taken_since_turn_ = 0;
    device.caller_polls(hold.now());
    if (taken == 0) taken = device.adapter.cqs().poll(queue(), out);
  }
  return static_cast<int>(taken);
}

uint32_t Cq::take(std::span<adapter::WorkCompletion> out) noexcept {
  return queue().fill() == 0 ? 0 : core().adapter.cqs().poll(queue(), out);
}

/// Most polls find nothing, or an entry that was there before: they read no clock.
int Cq::poll_beside_windows(std::span<adapter::WorkCompletion> out, Instant& at) noexcept {
  DeviceCore& device = core();
  HoldUntimed hold(device);
  if (at != kNever) (void)hold.now();
  uint32_t taken = take(out);
  taken_since_turn_ += taken;
  const EmptyPoll then = taken == 0                             ? device.empty_poll()
                         : taken_since_turn_ >= kEntriesPerTurn ? EmptyPoll::kTurns
                                                                : EmptyPoll::kEnds;
  if (then != EmptyPoll::kEnds && taken == 0 && device.caller_looks(hold.now())) taken = take(out);
  if (then == EmptyPoll::kTurns) {
    taken_since_turn_ = 0;
    device.caller_polls(hold.now());
    if (taken == 0) taken = take(out);
  } else if (then == EmptyPoll::kLooks && taken == 0) {
    device.caller_polls_empty(hold.now());
  }
  at = hold.time();
  return static_cast<int>(taken);
}

int Cq::poll_next(adapter::WorkCompletion& out) noexcept {
  DeviceCore& device = core();
  if (const Answer why = device.refusal(); why != Answer::kOk) return why == Answer::kForked ? -1 : 0;
  Hold hold(device);
  if (queue().fill() == 0 && device.serves_windows()) (void)device.caller_looks(hold.now());
  if (queue().fill() == 0 || ++taken_since_turn_ >= kEntriesPerTurn) {
    taken_since_turn_ = 0;
    device.caller_turn(hold.now());
  }
  if (waiting.notifications != 0 && queue().pass_notified()) return 0;
  return static_cast<int>(device.adapter.cqs().poll(queue(), std::span(&out, 1)));
}

Answer Cq::arm(bool solicited_only) noexcept {
  DeviceCore& device = core();
  if (const Answer why = device.refusal(); why != Answer::kOk) return why;
  Hold hold(device);
  if (refs.ended) return Answer::kNoSuchObject;
  device.adapter.cqs().arm(queue(),
                           solicited_only ? adapter::CqNotify::kSolicited : adapter::CqNotify::kNext);
  if (!std::exchange(armed_, true) && channel_ != nullptr) channel_->count_armed(1);
  device.caller_turn(hold.now());  // after the request: what it brings is news
  device.caller_waits(hold.now());
  return Answer::kOk;
}

void Cq::ack_events(uint32_t count) noexcept {
  if (core().forked()) return;
  const Hold hold(core());
  core().events.acknowledge(*this, count);
}

adapter::CqInfo Cq::query() const noexcept {
  if (core().forked()) return {};
  const Hold hold(core());
  return core().adapter.cqs().query(queue());
}

bool Cq::loads(std::span<adapter::QpLoad> out, uint32_t& count) const noexcept {
  if (core().refusal() != Answer::kOk) return false;
  const Hold hold(core());
  count = core().adapter.cqs().loads(queue(), out);
  return true;
}

void Cq::notify() noexcept {
  if (channel_ == nullptr) return;
  if (std::exchange(armed_, false)) channel_->count_armed(-1);
  channel_->notify(*this);
}

Answer Cq::resize(uint32_t cqes) noexcept {
  if (core().forked()) return Answer::kForked;
  try {
    auto room = core().adapter.cqs().room_for(cqes);  // allocated, and the old ring freed, outside the lock
    if (!room) return reason_of(room);
    const Hold hold(core());
    return reason_of(core().adapter.cqs().resize(queue(), *room));
  } catch (const std::bad_alloc&) {
    return Answer::kNoMemory;
  }
}

Answer Cq::release() noexcept {
  DeviceCore& device = core();
  if (const auto ended = device.adapter.cqs().destroy(&queue(), &memory_); !ended) return reason_of(ended);
  if (channel_ == nullptr) return Answer::kOk;
  // A CQ that has ended counts as armed: arm() then leaves the channel alone, which may end before the CQ.
  if (std::exchange(armed_, true)) channel_->count_armed(-1);
  channel_->forget(*this);
  --channel_->refs.users;
  return Answer::kOk;
}

}  // namespace weft::hca
