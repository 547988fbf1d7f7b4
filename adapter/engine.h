// adapter/engine.h -- what requester, responder and completer of one adapter share: table of QPs, memory
// table, ports, lists of QPs with work, timers, events, counters. Internal to adapter/.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "adapter/config.h"
#include "adapter/counters.h"
#include "adapter/events.h"
#include "adapter/memory/memory_table.h"
#include "adapter/path.h"
#include "adapter/queues/completion_queue.h"
#include "adapter/queues/queue_pair.h"
#include "adapter/timer_heap.h"
#include "adapter/transport/stash.h"
#include "base/clock.h"
#include "base/fixed_ring.h"
#include "base/rng.h"

namespace weft::adapter {

struct Engine {
  Engine(const AdapterConfig& wanted, RandomSource& source);

  /// The QP of a number; null when there is none. One load and one compare.
  [[nodiscard]] QueuePair* find_qp(Qpn qpn) const noexcept {
    QueuePair* qp = table[qpn.value() & table_mask].get();
    return qp != nullptr && qp->qpn == qpn ? qp : nullptr;
  }
  /// The management QP of a port; null when there is none.
  [[nodiscard]] QueuePair* find_gsi(const EnginePort& port) const noexcept {
    return gsi[port.number - 1U].get();
  }
  /// Calls `action` with every QP.
  template <class Action>
  void for_each_qp(Action action) {
    for (const auto& qp : table) {
      if (qp != nullptr) action(*qp);
    }
    for (const auto& qp : gsi) {
      if (qp != nullptr) action(*qp);
    }
  }
  [[nodiscard]] EnginePort& port_of(const QueuePair& qp) noexcept { return ports[qp.port - 1U]; }
  /// True when cells of this QP may leave now: its path is made and its port is up.
  [[nodiscard]] bool path_ready(QueuePair& qp) noexcept;

  /// Makes the QP's path from its attributes and what its port is now.
  void set_path(QueuePair& qp) noexcept;

  /// QP has something to send: it gets a turn in this or the next poll().
  void want_send(QueuePair& qp) noexcept;
  /// QP owes an acknowledgement, at once or after kAckDelay.
  void want_ack(QueuePair& qp, bool at_once) noexcept;

  /// The next message of `qp` takes its receive WQE; the queue is not empty.
  RecvSlot take_recv(QueuePair& qp) noexcept {
    const RecvSlot slot = qp.rq->take(qp.taken);
    if (qp.rq->low()) [[unlikely]]
      tell_srq_limit(*qp.config.srq, *qp.rq);
    return slot;
  }
  /// The queue has run low: said once, until a limit is set again.
  [[gnu::cold]] void tell_srq_limit(SharedReceiveQueue& srq, RecvQueue& queue) noexcept;

  void complete(CompletionQueue* queue, const WorkCompletion& entry) noexcept;
  void raise(const AsyncEvent& event) noexcept;
  void count(AdapterCounter counter) noexcept { counters.add(counter); }

  AdapterConfig config;
  RandomSource& random;
  MemoryTable memory;
  Stash stash;
  ChunkPool<TxPacket> tx_chunks;
  ChunkPool<RxPacket> rx_chunks;
  TimerHeap timers;
  FixedRing<QueuePair*> send_list;  // QPs that can send, or could with credit; each once
  FixedRing<QueuePair*> ack_list;   // QPs that owe an acknowledgement; each once
  bool send_ready = false;          // somebody on send_list may be waiting for no credit
  Instant acks_at = kNever;         // when the next acknowledgement can go that does not wait for credit
  std::vector<EnginePort> ports;
  std::vector<std::unique_ptr<QueuePair>> gsi;  // QP 1 of each port, as `ports`
  std::vector<std::unique_ptr<QueuePair>> table;
  uint32_t table_mask;
  Instant now{};
  CounterSet<AdapterCounter> counters;
  CounterSet<CellError> bad_cells;
  CounterSet<AccessFault> faults;

  FixedRing<AsyncEvent> events;
  bool overrun_pending = false;  // some CQ has overrun and its QPs have not been failed yet
};

}  // namespace weft::adapter
