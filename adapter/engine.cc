#include "adapter/engine.h"

#include <algorithm>
#include <bit>

namespace weft::adapter {

Engine::Engine(const AdapterConfig& wanted, RandomSource& source)
    : config(wanted),
      random(source),
      memory(wanted.limits.keys, wanted.number, source),
      stash(wanted.limits.stash_cells, wanted.limits.stash_cells_per_qp),
      tx_chunks(wanted.limits.window_chunks),
      rx_chunks(wanted.limits.window_chunks),
      timers(std::bit_ceil(wanted.limits.queue_pairs + 2)),
      table(std::bit_ceil(wanted.limits.queue_pairs + 2)),
      table_mask(static_cast<uint32_t>(table.size() - 1)) {
  send_list.reset(wanted.limits.queue_pairs + kPortsMax);
  ack_list.reset(wanted.limits.queue_pairs + kPortsMax);
  events.reset(kAsyncEventsMax);
}

bool Engine::path_ready(QueuePair& qp) noexcept {
  EnginePort& port = port_of(qp);
  if (qp.path.generation != port.generation) set_path(qp);
  return port.up || (port.known && qp.path.loops);
}

void Engine::set_path(QueuePair& qp) noexcept {
  const EnginePort& port = port_of(qp);
  if (port.known) qp.path = make_path(port, qp.attr, qp.qpn, qp.config.packet_bytes);
}

void Engine::want_send(QueuePair& qp) noexcept {
  send_ready = true;
  if (qp.in_send_list) return;
  qp.in_send_list = true;
  send_list.push(&qp);
}

void Engine::want_ack(QueuePair& qp, bool at_once) noexcept {
  ReceiveSide& rx = qp.rx;
  rx.ack_due = true;
  if (rx.ack_at == kNever) rx.ack_at = now + kAckDelay;
  if (at_once && !rx.ack_now) {
    rx.ack_now = true;
    acks_at = Instant::min();
  }
  if (qp.in_ack_list) return;
  qp.in_ack_list = true;
  acks_at = std::min(acks_at, rx.ack_at);
  ack_list.push(&qp);
}

void Engine::complete(CompletionQueue* queue, const WorkCompletion& entry) noexcept {
  if (queue->push(entry)) [[likely]]
    return;
  count(AdapterCounter::kCqOverruns);
  if (queue->fails_users) return;
  queue->fails_users = overrun_pending = true;
  if (queue->tell_overrun()) raise({.kind = AsyncEventKind::kCqOverrun, .qpn = entry.qpn, .cq = queue});
}

void Engine::tell_srq_limit(SharedReceiveQueue& srq, RecvQueue& queue) noexcept {
  queue.set_low_mark(0);
  raise({.kind = AsyncEventKind::kSrqLimit, .srq = &srq});
}

void Engine::raise(const AsyncEvent& event) noexcept {
  if (!events.push(event)) count(AdapterCounter::kEventsLost);
}

}  // namespace weft::adapter
