// adapter/schedule.h -- which QPs have something to do: lists of those that can send, of those that owe an
// acknowledgement at once or later, and of those that wait for credit of a lane. Nothing in a turn looks at
// all QPs.
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

/// QPs that found no credit on a lane, or their port down; they are not looked at until the lane has credit.
struct CreditWaits {
  std::array<SendList, kVlCount> sends;
  std::array<AckList, kVlCount> acks;
  uint32_t lanes = 0;  // lane_bit() of those where a QP waits
};

/// Owner: the adapter.
class Schedule {
 public:
  /// `ports` are the adapter's, and outlive it.
  explicit Schedule(const std::vector<std::unique_ptr<AdapterPort>>& ports) : ports_(ports) {}

  /// The adapter has one port more.
  void add_port() { waits_.resize(2 * ports_.size()); }
  /// QP has something to send: it gets a turn in this or the next poll().
  void want_send(QueuePair& qp) noexcept {
    if (qp.send_link.list == nullptr) sends.push_back(qp);
  }
  /// QP owes an acknowledgement, at once or after kAckDelay.
  void want_ack(QueuePair& qp, bool at_once, Instant now) noexcept;
  /// QP found no credit for its data, or for its acknowledgement.
  void wait_to_send(QueuePair& qp) noexcept;
  void wait_to_ack(QueuePair& qp) noexcept;
  /// Its path has changed: it waits no longer where it did.
  void wait_no_more(QueuePair& qp) noexcept;
  /// Lets QPs go on whose lanes have credit now, kWakesPerTurn of each lane.
  void wake_waiting() noexcept;
  /// A lane had credit and more QPs than could be woken.
  [[nodiscard]] bool more_to_wake() const noexcept { return more_to_wake_; }
  /// The QP ends.
  static void leave(QueuePair& qp) noexcept {
    SendList::unlink(qp);
    AckList::unlink(qp);
  }

  SendList sends;      // QPs that can send, as far as they know
  AckList acks_now;    // QPs that owe an acknowledgement at once
  AckList acks_later;  // and those that owe it later, in the order of AckDebt::by()

 private:
  /// Where the QP's next cell leaves, and the lane, on which the caller waits from now on.
  [[nodiscard]] CreditWaits& wait_for(QueuePair& qp, VirtualLane& vl) noexcept;

  const std::vector<std::unique_ptr<AdapterPort>>& ports_;
  std::deque<CreditWaits> waits_;  // of port n: its link at 2 (n - 1), its loopback behind it
  bool more_to_wake_ = false;
};

}  // namespace weft::adapter
