#include "adapter/engine.h"

#include <algorithm>
#include <bit>

namespace weft::adapter {

void QpList::remove(const QueuePair& qp) noexcept {
  const uint64_t count = size();
  for (uint64_t i = 0; i < count; ++i) {
    QueuePair* other = pop();
    if (other != &qp) push(*other);
  }
}

Engine::Engine(const AdapterConfig& wanted, RandomSource& source)
    : config(wanted),
      random(source),
      memory(wanted.limits.keys, wanted.number, source),
      stash(wanted.limits.stash_cells, wanted.limits.stash_cells_per_qp),
      loopback(kLoopbackCells),
      timers(std::bit_ceil(wanted.limits.queue_pairs + 2)),
      send_list(std::bit_ceil(wanted.limits.queue_pairs + 2)),
      ack_list(std::bit_ceil(wanted.limits.queue_pairs + 2)),
      table(std::bit_ceil(wanted.limits.queue_pairs + 2)),
      table_mask(static_cast<uint32_t>(table.size() - 1)),
      events(kAsyncEventsMax) {}

bool Engine::path_ready(QueuePair& qp) noexcept {
  EnginePort& port = port_of(qp);
  if (qp.path.generation != port.generation) set_path(qp);
  return port.up || (port.known && qp.path.carrier == &loopback);
}

void Engine::set_path(QueuePair& qp) noexcept {
  const EnginePort& port = port_of(qp);
  if (port.known) qp.path = make_path(port, loopback, qp.attr, qp.qpn, qp.config.packet_bytes);
}

void Engine::want_send(QueuePair& qp) noexcept {
  send_ready = true;
  if (qp.in_send_list) return;
  qp.in_send_list = true;
  send_list.push(qp);
}

void Engine::want_ack(QueuePair& qp, bool at_once) noexcept {
  ReceiveSide& rx = qp.rx;
  rx.ack_due = true;
  rx.ack_now |= at_once;
  if (rx.ack_at == kNever) rx.ack_at = now + kAckDelay;
  if (qp.in_ack_list) return;
  qp.in_ack_list = true;
  ack_list.push(qp);
}

void Engine::complete(CompletionQueue* queue, const WorkCompletion& entry) noexcept {
  if (queue->push(entry)) [[likely]]
    return;
  const bool first = counters.get(AdapterCounter::kCqOverruns) == 0 || !queue->overrun_reported;
  count(AdapterCounter::kCqOverruns);
  if (!first) return;
  queue->overrun_reported = true;
  raise({.kind = AsyncEventKind::kCqOverrun, .qpn = entry.qpn, .cq = queue});
  overrun_pending = true;
}

void Engine::raise(const AsyncEvent& event) noexcept {
  if (events_tail - events_head == events.size()) return count(AdapterCounter::kEventsLost);
  events[events_tail++ % events.size()] = event;
}

}  // namespace weft::adapter
