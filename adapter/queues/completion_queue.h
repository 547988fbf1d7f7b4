// adapter/queues/completion_queue.h -- a bounded ring of completions, shared by any number of QPs (SAN-CQ-01,
// TPT-CQ-01).
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>

#include "adapter/event_box.h"
#include "adapter/verbs.h"
#include "base/fixed_ring.h"

namespace weft::adapter {

/// Owner: the adapter's thread, once ChannelAdapter::create_cq() has it.
class CompletionQueue {
 public:
  /// @param cqes entries it must hold, 1..2^31; rounded up to a power of two
  explicit CompletionQueue(uint32_t cqes) { entries_ = room_for(cqes); }
  /// It is one of an adapter's from now on.
  /// @param notified where it enters itself when an armed queue gets its entry; has room for every queue
  void join(uint32_t index, FixedRing<CompletionQueue*>& notified) noexcept {
    index_ = index;
    list_ = &notified;
  }
  /// Memory for `cqes` entries, for resize().
  [[nodiscard]] static FixedRing<WorkCompletion> room_for(uint32_t cqes);

  /// Adds an entry. False when the queue is full: the entry is lost, the queue is overrun from then on.
  bool push(const WorkCompletion& entry) noexcept {
    return push_filled([&entry](WorkCompletion& place) { place = entry; });
  }
  /// The same for an entry that `fill(place)` writes where it stays, each field by itself. One that a
  /// compiler puts together on the stack first is copied in wider pieces, which wait for the stores of the
  /// narrow ones (base/registers.h).
  template <class Fill>
  [[gnu::always_inline]] bool push_filled(Fill&& fill) noexcept {
    WorkCompletion* place = entries_.extend();
    if (place == nullptr) [[unlikely]] {
      overrun_ = true;
      return false;
    }
    fill(*place);
    if (notify_ != CqNotify::kOff) notify(*place);
    return true;
  }
  /// Takes up to `out.size()` entries, oldest first.
  [[nodiscard]] uint32_t poll(std::span<WorkCompletion> out) noexcept;

  /// True once for a first entry that has made a notification: it is an entry like others from then on.
  [[nodiscard]] bool pass_notified() noexcept {
    if (entries_.empty() || (entries_.front().flags & kWcNotified) == 0) return false;
    entries_.front().flags &= static_cast<uint8_t>(~kWcNotified);
    return true;
  }

  /// Entries it can hold.
  [[nodiscard]] uint32_t depth() const noexcept { return static_cast<uint32_t>(entries_.capacity()); }
  /// Entries that wait to be polled.
  [[nodiscard]] uint32_t fill() const noexcept { return static_cast<uint32_t>(entries_.size()); }
  /// It has lost an entry at some time.
  [[nodiscard]] bool overrun() const noexcept { return overrun_; }
  /// True once after an overrun; again when entries were taken in between. `qpn`: whose entry was lost.
  [[nodiscard]] bool tell_overrun(Qpn qpn) noexcept {
    overran_by_ = qpn;
    return !std::exchange(overrun_told_, true);
  }
  [[nodiscard]] Qpn overran_by() const noexcept { return overran_by_; }

  /// Its entries stand in `room` from now on, and `room` has what they stood in; false when more wait than
  /// fit.
  [[nodiscard]] bool resize(FixedRing<WorkCompletion>& room) noexcept;
  /// Takes out the entries of a QP that is no more; the others keep their order. @return how many of them
  /// were of receive WQEs
  uint32_t purge(Qpn qpn) noexcept;

  /// Asks for one notification; take_notification() then answers true once. A request for any
  /// entry outlasts a later one for solicited entries; kOff takes the request back.
  void arm(CqNotify when) noexcept { notify_ = when == CqNotify::kOff ? when : std::max(notify_, when); }
  [[nodiscard]] bool take_notification() noexcept;
  /// It was taken off the list of notified queues; true when its notification had not been taken yet.
  [[nodiscard]] bool leave_list() noexcept {
    listed_ = false;
    return take_notification();
  }

  [[nodiscard]] uint32_t index() const noexcept { return index_; }
  /// QPs that complete into it; a queue in use is not destroyed.
  uint32_t users = 0;
  bool frees_places = false;  // some of them, or an SRQ that does, have queues that hold their places
  bool fails_users = false;   // an entry was lost and the QPs that complete here have not been failed yet
  EventBox events{*this};

 private:
  [[gnu::cold]] void notify(WorkCompletion& entry) noexcept;

  FixedRing<WorkCompletion> entries_;
  FixedRing<CompletionQueue*>* list_ = nullptr;
  uint32_t index_ = UINT32_MAX;  // of none
  CqNotify notify_ = CqNotify::kOff;
  bool notified_ = false;
  bool listed_ = false;  // stands in list_
  bool overrun_ = false;
  bool overrun_told_ = false;
  Qpn overran_by_{};
};

}  // namespace weft::adapter
