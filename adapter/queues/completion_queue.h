// adapter/queues/completion_queue.h -- a bounded ring of completions, shared by any number of QPs (SAN-CQ-01,
// TPT-CQ-01).
#pragma once

#include <cstdint>
#include <span>
#include <utility>

#include "adapter/event_box.h"
#include "adapter/verbs.h"
#include "base/fixed_ring.h"

namespace weft::adapter {

/// Owner: the adapter's thread, after CompletionQueues::create().
class CompletionQueue {
 public:
  /// @param cqes entries that it must hold, 1..2^31; rounded up to a power of two
  explicit CompletionQueue(uint32_t cqes) { entries_ = room_for(cqes); }
  /// Enters the queue into an adapter. @param notified list that the queue joins when it is armed and gets an
  /// entry; has room for every queue
  void join(uint32_t index, FixedRing<CompletionQueue*>& notified) noexcept {
    index_ = index;
    list_ = &notified;
  }
  /// Memory for `cqes` entries, for resize().
  [[nodiscard]] static FixedRing<WorkCompletion> room_for(uint32_t cqes);

  /// Adds an entry. False when the queue is full: the entry is lost, and the queue is overrun from then on.
  bool push(const WorkCompletion& entry) noexcept {
    return push_filled([&entry](WorkCompletion& place) { place = entry; });
  }
  /// The same for an entry that `fill(place)` writes in place, field by field. An entry that the compiler
  /// builds on the stack would be copied in wider pieces, which wait for the narrow stores
  /// (base/registers.h).
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

  /// True when the oldest entry has made a notification. The answer is true once for each entry.
  [[nodiscard]] bool pass_notified() noexcept {
    if (entries_.empty() || (entries_.front().flags & kWcEndsBatch) == 0) return false;
    entries_.front().flags &= static_cast<uint8_t>(~kWcEndsBatch);
    return true;
  }

  /// Number of entries that it can hold.
  [[nodiscard]] uint32_t depth() const noexcept { return static_cast<uint32_t>(entries_.capacity()); }
  /// Number of entries that wait to be polled.
  [[nodiscard]] uint32_t fill() const noexcept { return static_cast<uint32_t>(entries_.size()); }
  /// True once an entry was lost.
  [[nodiscard]] bool overrun() const noexcept { return overrun_; }
  /// True once after an overrun, and again after entries were polled in between. `qpn` is the QP whose entry
  /// was lost.
  [[nodiscard]] bool tell_overrun(Qpn qpn) noexcept {
    overran_by_ = qpn;
    return !std::exchange(overrun_told_, true);
  }
  [[nodiscard]] Qpn overran_by() const noexcept { return overran_by_; }

  /// Moves the entries to `room` and swaps the memory: `room` then holds the old memory. False when more
  /// entries wait than fit.
  [[nodiscard]] bool resize(FixedRing<WorkCompletion>& room) noexcept;
  /// Removes the entries of a QP that has ended; the others keep their order. @return number of removed
  /// entries of receive WQEs
  uint32_t purge(Qpn qpn) noexcept;

  /// Asks for one notification; take_notification() then returns true once. A request for any entry outlasts
  /// a later one for solicited entries. kOff cancels the request. As on adapters of InfiniBand, an entry that
  /// waits and of which no notification has told is told at once: it has come after the program's last poll,
  /// and programs that do not poll again after this call (UCX) would wait for it in vain. O(1) for kNext,
  /// O(entries that wait) for kSolicited.
  void arm(CqNotify when) noexcept;
  [[nodiscard]] bool take_notification() noexcept;
  /// The queue was taken off the list of notified queues. True when its notification had not been taken yet.
  [[nodiscard]] bool leave_list() noexcept {
    listed_ = false;
    return take_notification();
  }

  [[nodiscard]] uint32_t index() const noexcept { return index_; }
  /// Number of QPs that complete into it. A queue in use is not destroyed.
  uint32_t users = 0;
  bool frees_places = false;  // a QP or SRQ that uses it has queues that hold their places
  bool fails_users = false;   // an entry was lost, and the QPs that complete here have not been failed yet
  EventBox events{*this};

 private:
  [[gnu::cold]] void notify(WorkCompletion& entry) noexcept;

  FixedRing<WorkCompletion> entries_;
  FixedRing<CompletionQueue*>* list_ = nullptr;
  uint32_t index_ = UINT32_MAX;  // UINT32_MAX: in no adapter
  CqNotify notify_ = CqNotify::kOff;
  bool notified_ = false;
  bool listed_ = false;  // is in list_
  bool overrun_ = false;
  bool overrun_told_ = false;
  Qpn overran_by_{};
};

}  // namespace weft::adapter
