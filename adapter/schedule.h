// adapter/schedule.h -- the QPs that have work: lists of the QPs that can send, that owe an acknowledgement
// at once or later, and that wait for credit of a lane. No turn looks at all QPs.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "adapter/port.h"
#include "adapter/queues/qp_list.h"
#include "adapter/queues/queue_pair.h"

namespace weft::adapter {

/// QPs that found no credit on a lane, or found their port down. The adapter does not look at them before the
/// lane has credit.
struct CreditWaits {
  std::array<SendList, kVlCount> sends;
  std::array<AckList, kVlCount> acks;
  uint32_t lanes = 0;  // lane_bit() of each lane on which a QP waits
};

/// Owner: the adapter.
class Schedule {
 public:
  /// `ports` are the adapter's and must outlive the schedule.
  explicit Schedule(const std::vector<std::unique_ptr<AdapterPort>>& ports) : ports_(ports) {}

  /// Call after the adapter has got one more port.
  void add_port() { waits_.resize(2 * ports_.size()); }
  /// The QP has something to send and gets a turn in this or the next poll().
  void want_send(QueuePair& qp) noexcept {
    if (qp.send_link.list == nullptr) sends.push_back(qp);
  }
  /// The QP owes an acknowledgement, at once or after kAckDelay.
  [[gnu::always_inline]] void want_ack(QueuePair& qp, bool at_once, Instant now) noexcept {
    const AckDebt& debt = qp.rx.debt;
    const bool in_its_list = qp.owes_ack() && !(debt.due_now() && acks_later.holds(qp));
    if (in_its_list && debt.covers(at_once)) [[likely]]
      return;
    add_debt(qp, at_once, now);
  }
  /// The QP found no credit for its data, or for its acknowledgement.
  void wait_to_send(QueuePair& qp) noexcept;
  void wait_to_ack(QueuePair& qp) noexcept;
  /// The path of the QP has changed, so it no longer waits for credit of its old lane.
  void wait_no_more(QueuePair& qp) noexcept;
  /// Wakes QPs whose lanes have credit now: at most kWakesPerTurn of each list and lane.
  void wake_waiting() noexcept {
    if (any_waits_) [[unlikely]]
      wake_those_with_credit();
  }
  /// The last wake_waiting() left QPs waiting on a lane that has credit.
  [[nodiscard]] bool more_to_wake() const noexcept { return more_to_wake_; }
  /// The QP ends: takes it out of its lists.
  static void leave(QueuePair& qp) noexcept {
    SendList::unlink(qp);
    AckList::unlink(qp);
  }

  SendList sends;      // QPs that probably can send
  AckList acks_now;    // QPs that owe an acknowledgement at once
  AckList acks_later;  // QPs that owe one later, in the order of AckDebt::by()

 private:
  void add_debt(QueuePair& qp, bool at_once, Instant now) noexcept;
  /// Returns the waiting lists of the link or loopback by which the QP's next cell leaves, and sets `vl`.
  /// Marks the lane as waited on.
  [[nodiscard]] CreditWaits& wait_for(QueuePair& qp, VirtualLane& vl) noexcept;
  void wake_those_with_credit() noexcept;

  const std::vector<std::unique_ptr<AdapterPort>>& ports_;
  std::deque<CreditWaits> waits_;  // port n: its link at index 2 (n - 1), its loopback at the next
  bool any_waits_ = false;         // a lane of `waits_` may have a QP
  bool more_to_wake_ = false;
};

}  // namespace weft::adapter
