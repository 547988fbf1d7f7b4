#include "adapter/schedule.h"

#include <algorithm>
#include <bit>

#include "adapter/limits.h"
#include "adapter/path.h"
#include "messages/cell.h"

namespace weft::adapter {

void Schedule::add_debt(QueuePair& qp, bool at_once, Instant now) noexcept {
  AckDebt& debt = qp.rx.debt;
  debt.want(at_once, now + kAckDelay);
  if (acks_later.holds(qp) && debt.due_now()) AckList::unlink(qp);
  if (qp.owes_ack()) return;
  const bool due = debt.due_now() || qp.config.ack_mode == AckMode::kStrict;
  (due ? acks_now : acks_later).push_back(qp);
}

CreditWaits& Schedule::wait_for(QueuePair& qp, VirtualLane& vl) noexcept {
  bool loops = qp.path.loops;
  vl = qp.path.vl;
  if (!qp.connected()) {  // the destination is that of the packet that waits
    const AdapterPort& port = *ports_[qp.port - 1U];
    const Destination& dest = qp.sq.at(qp.tx.at(qp.tx.first).wqe).dest;
    loops = port.has(dest.lid);
    vl = lane_of(port, qp.qpn, dest.sl);
  }
  CreditWaits& at = waits_[(qp.port - 1U) * 2 + (loops ? 1 : 0)];
  at.lanes |= lane_bit(vl);
  any_waits_ = true;
  return at;
}

void Schedule::wait_to_send(QueuePair& qp) noexcept {
  VirtualLane vl;
  CreditWaits& at = wait_for(qp, vl);
  SendList::unlink(qp);
  at.sends[vl.value()].push_back(qp);
}

void Schedule::wait_to_ack(QueuePair& qp) noexcept {
  VirtualLane vl;
  CreditWaits& at = wait_for(qp, vl);
  AckList::unlink(qp);
  at.acks[vl.value()].push_back(qp);
}

void Schedule::wait_no_more(QueuePair& qp) noexcept {
  if (qp.send_link.list != nullptr && !sends.holds(qp)) {
    SendList::unlink(qp);
    sends.push_back(qp);
  }
  if (qp.owes_ack() && !acks_now.holds(qp) && !acks_later.holds(qp)) {
    AckList::unlink(qp);
    acks_now.push_back(qp);
  }
}

void Schedule::wake_those_with_credit() noexcept {
  more_to_wake_ = false;
  for (size_t i = 0; i < waits_.size(); ++i) {
    CreditWaits& at = waits_[i];
    const AdapterPort& port = *ports_[i / 2];
    const bool link = i % 2 == 0;
    if (at.lanes == 0 || (link && !port.up())) continue;
    fabric::CellPort& to = link ? port.link() : port.loopback();
    for (uint32_t left = at.lanes; left != 0; left &= left - 1) {
      const auto lane = static_cast<uint8_t>(std::countr_zero(left));
      if (to.claim(VirtualLane(lane), cell_bytes_max(port.info().cell_payload_bytes)) == nullptr) continue;
      AckList& acks = at.acks[lane];
      SendList& waiting = at.sends[lane];
      for (uint32_t n = 0; n < kWakesPerTurn && !acks.empty(); ++n) acks_now.push_back(acks.pop_front());
      for (uint32_t n = 0; n < kWakesPerTurn && !waiting.empty(); ++n) sends.push_back(waiting.pop_front());
      if (acks.empty() && waiting.empty()) {
        at.lanes &= ~lane_bit(VirtualLane(lane));
      } else {
        more_to_wake_ = true;
      }
    }
  }
  any_waits_ = std::any_of(waits_.begin(), waits_.end(), [](const CreditWaits& at) { return at.lanes != 0; });
}

}  // namespace weft::adapter
