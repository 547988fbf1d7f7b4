#include "adapter/adapter_engine.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <optional>
#include <utility>

#include "adapter/limits.h"
#include "adapter/queues/shared_receive_queue.h"
#include "base/check.h"
#include "base/endian.h"
#include "messages/cell.h"
#include "messages/opcode.h"

namespace weft::adapter {
namespace {

/// Each port has two management QPs in addition.
uint32_t qps_max(const AdapterLimits& limits) noexcept {
  return limits.queue_pairs + 2 * kPortsMax;
}

}  // namespace

Engine::Engine(const AdapterConfig& wanted, RandomSource& source)
    : config(wanted),
      random(source),
      memory(wanted.limits.keys, wanted.nics.empty() ? wanted.number : wanted.nics.front(), source,
             wanted.limits.protection_domains + 1, &computer),
      stash(wanted.limits.stash_cells, wanted.limits.stash_cells_per_qp),
      groups(wanted.limits.multicast_members),
      tx_chunks(wanted.limits.window_chunks, qps_max(wanted.limits)),
      rx_chunks(wanted.limits.window_chunks, qps_max(wanted.limits)),
      strict_acks(0, qps_max(wanted.limits)),
      timers(qps_max(wanted.limits)),
      qps(wanted.limits.queue_pairs),
      srqs(wanted.limits.shared_receive_queues) {
  computer.report_calls_to(agent);
  if (wanted.nics.size() > 1) add_nics();
}

void Engine::add_nics() {
  const std::span<const uint8_t> nics = config.nics;
  WEFT_CHECK(nics.size() <= kNicsMax, "a computer has at most 16 NICs");
  for (const uint8_t nic : nics.subspan(1)) {
    WEFT_CHECK(nic < kNicsMax && std::count(nics.begin(), nics.end(), nic) == 1, "numbers of NICs");
    more_memory.push_back(std::make_unique<MemoryTable>(config.limits.keys, nic, random,
                                                        config.limits.protection_domains + 1, &computer));
  }
}

void Engine::use_port(QueuePair& qp, uint8_t port) noexcept {
  qp.port = port;
  if (more_memory.empty() || port > ports.size()) return;
  MemoryTable* list = &computer.of_nic(ports[port - 1U]->nic());
  if (std::exchange(qp.memory, list) != list) computer.end_grants();
}

bool Engine::pd_unused(PdId pd) const noexcept {
  return memory.pd_unused(pd) && std::all_of(more_memory.begin(), more_memory.end(),
                                             [&](const auto& table) { return table->pd_unused(pd); });
}

void Engine::enlist(QueuePair& qp) {
  if (qp.config.ack_mode == AckMode::kStrict) strict_acks.keep(++strict_qps);
  timers.enter(qp);
  qps.enter(qp);
}

void Engine::delist(QueuePair& qp) noexcept {
  if (qp.config.ack_mode == AckMode::kStrict) strict_acks.keep(--strict_qps);
  events.drop(qp.events);
  timers.leave(qp);
  Schedule::leave(qp);
  qps.leave(qp);
}

void Engine::change_path(QueuePair& qp) noexcept {
  const uint32_t before = qp.path.segment_bytes;
  set_path(qp);
  qp.other_cells |= before != 0 && before != qp.path.segment_bytes && qp.tx.first != qp.tx.end;
}

void Engine::set_path(QueuePair& qp) noexcept {
  const AdapterPort& port = port_of(qp);
  if (port.known()) qp.path = make_path(port, qp.attr, qp.qpn, qp.config.packet_bytes);
}

void Engine::renew_path(QueuePair& qp) noexcept {
  qp.pkey = port_of(qp).pkeys()[qp.attr.pkey_index];
  qp.path.generation = 0;
}

void Engine::lose_completion(CompletionQueue& queue, Qpn qpn) noexcept {
  count(AdapterCounter::kCqOverruns);
  overrun_news = true;
  if (std::exchange(queue.fails_users, true)) return;
  if (!queue.tell_overrun(qpn)) return;
  raise(queue.events, AsyncEventKind::kCqOverrun);
  // Receives from an XRC domain's SRQ complete in its CQ for all targets. The SRQ's owner need not own a QP.
  for (const auto& srq : srqs.queues) {
    if (srq != nullptr && srq->config.cq == &queue) raise(srq->events, AsyncEventKind::kSrqError);
  }
}

void Engine::report(QueuePair& qp, Failure failure) noexcept {
  failure.qpn = qp.qpn.value();
  if (failure.peer_lid == 0 && qp.connected()) {
    failure.peer_lid = qp.peer_lid.value();
    failure.peer_qpn = qp.peer_qpn.value();
  }
  const bool goes_on = failure.reason == Reason::kPeerNeverReceives || failure.reason == Reason::kNoReceive ||
                       failure.reason == Reason::kMessageCrc;
  if (qp.acknowledged() && !goes_on) qp.failed_by = failure.reason;
  failures.add(failure);
}

void Engine::report_stray(Reason reason, const CellView& cell, uint64_t expected, uint64_t extent) noexcept {
  const bool request = (opcode_properties(static_cast<uint8_t>(cell.opcode)) & kOpRequest) != 0;
  if (!request || is_management(cell.dest_qpn))
    return;  // every endnode gets the questions for management QPs
  if (!failures.note({reason, cell.dest_qpn, cell.slid, cell.src_qpn}, now)) return;
  failures.add({.reason = reason,
                .work = work_of(cell.opcode),
                .by_peer = true,
                .peer_lid = cell.slid.value(),
                .qpn = cell.dest_qpn.value(),
                .peer_qpn = cell.src_qpn.value(),
                .expected = expected,
                .extent = extent});
}

void Engine::tell_srq_limit(SharedReceiveQueue& srq, RecvQueue& queue) noexcept {
  queue.set_low_mark(0);
  raise(srq.events, AsyncEventKind::kSrqLimit);
}

void Engine::raise(QueuePair& qp, AsyncEventKind kind, WcStatus status) noexcept {
  if (status != WcStatus::kSuccess) qp.events.status = status;
  raise(qp.events, kind);
}

void Engine::raise(const AdapterPort& port, AsyncEventKind kind) noexcept {
  raise(port_events[port.number() - 1U], kind);
}

bool Engine::next_event(AsyncEvent& out) noexcept {
  if (events.empty() && spaces == nullptr) [[likely]]
    return false;
  out = {};
  if (events.empty()) {  // page faults are kept in the address spaces
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
      out.completed = of.completed;
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
