#include "adapter/engine.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <optional>
#include <utility>

#include "adapter/limits.h"
#include "adapter/queues/shared_receive_queue.h"
#include "base/endian.h"
#include "messages/cell.h"
#include "messages/opcode.h"

namespace weft::adapter {
namespace {

/// Each port has one of its own beside the others.
uint32_t qps_max(const AdapterLimits& limits) noexcept {
  return limits.queue_pairs + kPortsMax;
}

}  // namespace

Engine::Engine(const AdapterConfig& wanted, RandomSource& source)
    : config(wanted),
      random(source),
      memory(wanted.limits.keys, wanted.number, source, wanted.limits.protection_domains + 1),
      stash(wanted.limits.stash_cells, wanted.limits.stash_cells_per_qp),
      groups(wanted.limits.multicast_members),
      tx_chunks(wanted.limits.window_chunks, qps_max(wanted.limits)),
      rx_chunks(wanted.limits.window_chunks, qps_max(wanted.limits)),
      strict_acks(0, qps_max(wanted.limits)),
      timers(qps_max(wanted.limits)),
      table(std::bit_ceil(wanted.limits.queue_pairs + 2)),
      table_mask(static_cast<uint32_t>(table.size() - 1)),
      srq_mask(std::bit_ceil(wanted.limits.shared_receive_queues + 1) - 1) {
  notified.reset(wanted.limits.completion_queues);
  live.reserve(qps_max(wanted.limits));
  srqs.reserve(wanted.limits.shared_receive_queues);
}

void Engine::enlist(QueuePair& qp) {
  if (qp.config.ack_mode == AckMode::kStrict) strict_acks.keep(++strict_qps);
  timers.enter(qp);
  qp.live_index = static_cast<uint32_t>(live.size());
  live.push_back(&qp);
}

/// The last of all QPs takes its place. A sweep goes from the last to the first, so that it misses nobody.
void Engine::delist(QueuePair& qp) noexcept {
  if (qp.config.ack_mode == AckMode::kStrict) strict_acks.keep(--strict_qps);
  events.drop(qp.events);
  timers.leave(qp);
  SendList::unlink(qp);
  AckList::unlink(qp);
  QueuePair* last = live.back();
  live[qp.live_index] = last;
  last->live_index = qp.live_index;
  live.pop_back();
}

/// A hint: nothing hangs on what stands in the cell, which nobody has checked yet.
void Engine::expect(std::span<const std::byte> cell) const noexcept {
  if (cell.size() < kCellHeaderBytes) return;
  const auto qpn = load_be_once<uint32_t>(&cell[offsetof(CellHeader, dest_qpn)]);
  const QueuePair* qp = table[qpn & table_mask].get();
  if (qp == nullptr) return;
  const auto opcode = load_once<uint8_t>(&cell[offsetof(CellHeader, opcode)]);
  if ((opcode_properties(opcode) & (kOpAcknowledge | kOpResponse)) != 0) {
    qp->prefetch_to_send();
  } else {
    qp->prefetch_to_receive(load_be_once<uint32_t>(&cell[offsetof(CellHeader, flags2_psn)]));
  }
}

bool Engine::path_ready(QueuePair& qp) noexcept {
  const EnginePort& port = port_of(qp);
  if (qp.path.generation != port.generation) [[unlikely]] {
    const uint32_t before = qp.path.segment_bytes;
    set_path(qp);
    qp.other_cells |= before != 0 && before != qp.path.segment_bytes && qp.tx.first != qp.tx.end;
  }
  return (port.up || (port.known && qp.path.loops)) && !qp.other_cells;
}

void Engine::set_path(QueuePair& qp) noexcept {
  const EnginePort& port = port_of(qp);
  if (port.known) qp.path = make_path(port, qp.attr, qp.qpn, qp.config.packet_bytes);
}

void Engine::renew_path(QueuePair& qp) noexcept {
  qp.pkey = port_of(qp).pkeys[qp.attr.pkey_index];
  qp.path.generation = 0;
}

void Engine::want_send(QueuePair& qp) noexcept {
  if (qp.send_link.list == nullptr) send_list.push_back(qp);
}

void Engine::want_ack(QueuePair& qp, bool at_once) noexcept {
  ReceiveSide& rx = qp.rx;
  rx.ack_due = true;
  rx.ack_now |= at_once;
  if (rx.ack_at == kNever) rx.ack_at = now + kAckDelay;
  if (acks_later.holds(qp) && rx.ack_now) AckList::unlink(qp);
  if (qp.owes_ack()) return;
  const bool due = rx.ack_now || qp.config.ack_mode == AckMode::kStrict;
  (due ? acks_now : acks_later).push_back(qp);
}

CreditWaits& Engine::wait_for(QueuePair& qp, VirtualLane& vl) noexcept {
  bool loops = qp.path.loops;
  vl = qp.path.vl;
  if (!is_connected(qp.config.type)) {  // the packet that waits says it
    const EnginePort& port = port_of(qp);
    const Destination& dest = qp.sq.at(qp.tx.at(qp.tx.first).wqe).dest;
    loops = dest.lid == port.info.lid;
    vl = lane_of(port.info, dest.sl);
  }
  CreditWaits& at = waits[(qp.port - 1U) * 2 + (loops ? 1 : 0)];
  at.lanes |= lane_bit(vl);
  return at;
}

void Engine::wait_to_send(QueuePair& qp) noexcept {
  VirtualLane vl;
  CreditWaits& at = wait_for(qp, vl);
  SendList::unlink(qp);
  at.sends[vl.value()].push_back(qp);
}

void Engine::wait_to_ack(QueuePair& qp) noexcept {
  VirtualLane vl;
  CreditWaits& at = wait_for(qp, vl);
  AckList::unlink(qp);
  at.acks[vl.value()].push_back(qp);
}

void Engine::wait_no_more(QueuePair& qp) noexcept {
  if (qp.send_link.list != nullptr && !send_list.holds(qp)) {
    SendList::unlink(qp);
    send_list.push_back(qp);
  }
  if (qp.owes_ack() && !acks_now.holds(qp) && !acks_later.holds(qp)) {
    AckList::unlink(qp);
    acks_now.push_back(qp);
  }
}

void Engine::wake_waiting() noexcept {
  more_to_wake = false;
  for (size_t i = 0; i < waits.size(); ++i) {
    CreditWaits& at = waits[i];
    const EnginePort& port = ports[i / 2];
    const bool link = i % 2 == 0;
    if (at.lanes == 0 || (link && !port.up)) continue;
    fabric::CellPort& carrier = link ? *port.carrier : *port.loopback;
    for (uint32_t left = at.lanes; left != 0; left &= left - 1) {
      const auto lane = static_cast<uint8_t>(std::countr_zero(left));
      if (carrier.claim(VirtualLane(lane), cell_bytes_max(port.info.cell_payload_bytes)) == nullptr) continue;
      AckList& acks = at.acks[lane];
      SendList& sends = at.sends[lane];
      for (uint32_t n = 0; n < kWakesPerTurn && !acks.empty(); ++n) acks_now.push_back(acks.pop_front());
      for (uint32_t n = 0; n < kWakesPerTurn && !sends.empty(); ++n) send_list.push_back(sends.pop_front());
      if (acks.empty() && sends.empty()) {
        at.lanes &= ~lane_bit(VirtualLane(lane));
      } else {
        more_to_wake = true;
      }
    }
  }
}

void Engine::lose_completion(CompletionQueue& queue, Qpn qpn) noexcept {
  count(AdapterCounter::kCqOverruns);
  overrun_news = true;
  if (std::exchange(queue.fails_users, true)) return;
  if (!queue.tell_overrun(qpn)) return;
  raise(queue.events, AsyncEventKind::kCqOverrun);
  // Queues of an XRC domain complete there, whoever takes from them: their owner need not own a QP.
  for (const auto& srq : srqs) {
    if (srq != nullptr && srq->config.cq == &queue) raise(srq->events, AsyncEventKind::kSrqError);
  }
}

void Engine::tell_srq_limit(SharedReceiveQueue& srq, RecvQueue& queue) noexcept {
  queue.set_low_mark(0);
  raise(srq.events, AsyncEventKind::kSrqLimit);
}

void Engine::raise(QueuePair& qp, AsyncEventKind kind, WcStatus status) noexcept {
  if (status != WcStatus::kSuccess) qp.events.status = status;
  raise(qp.events, kind);
}

void Engine::raise(const EnginePort& port, AsyncEventKind kind) noexcept {
  raise(port_events[port.number - 1U], kind);
}

bool Engine::next_event(AsyncEvent& out) noexcept {
  out = {};
  if (events.empty()) {  // page faults wait where they were found
    const std::optional<PageFault> fault = spaces != nullptr ? spaces->take_page_fault() : std::nullopt;
    if (fault) out = {.kind = AsyncEventKind::kPageFault, .address = fault->address};
    return fault.has_value();
  }
  const EventBox& of = static_cast<const EventBox&>(events.front());
  out.kind = static_cast<AsyncEventKind>(events.take_first());
  out.user = of.user;
  switch (of.of) {
    case EventBox::Of::kQp:
      out.qpn = of.qp->qpn;
      out.port = of.qp->port;
      out.status = of.status;
      break;
    case EventBox::Of::kCq:
      out.qpn = of.cq->overran_by();
      out.cq = of.cq;
      break;
    case EventBox::Of::kSrq:
      out.srq = of.srq;
      break;
    case EventBox::Of::kPort:
      out.port = of.port;
      break;
  }
  return true;
}

}  // namespace weft::adapter
