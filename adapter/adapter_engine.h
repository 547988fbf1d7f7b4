// adapter/adapter_engine.h -- what requester, responder and completer of one adapter share: table of QPs,
// schedule, ports, memory table, timers, events, counters. Internal to adapter/.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "adapter/config.h"
#include "adapter/counters.h"
#include "adapter/event_box.h"
#include "adapter/events.h"
#include "adapter/failure_log.h"
#include "adapter/limits.h"
#include "adapter/memory/address_space.h"
#include "adapter/memory/memory_table.h"
#include "adapter/path.h"
#include "adapter/port.h"
#include "adapter/queues/completion_queue.h"
#include "adapter/queues/multicast_groups.h"
#include "adapter/queues/qp_table.h"
#include "adapter/queues/queue_pair.h"
#include "adapter/queues/shared_receive_queue.h"
#include "adapter/schedule.h"
#include "adapter/timer_heap.h"
#include "adapter/transport/stash.h"
#include "base/clock.h"
#include "base/fixed_ring.h"
#include "base/pending_list.h"
#include "base/rng.h"

namespace weft::adapter {

struct Engine {
  Engine(const AdapterConfig& wanted, RandomSource& source);

  /// False while memory is on its way that the next cells of a port may need; they wait in the port.
  [[nodiscard]] bool ready_to_receive() noexcept {
    return rx_chunks.serves(kCellsPerReceive) && strict_acks.serves(std::min(kCellsPerReceive, strict_qps));
  }
  /// A QP was made, or ends.
  void enlist(QueuePair& qp);
  void delist(QueuePair& qp) noexcept;
  [[nodiscard]] AdapterPort& port_of(const QueuePair& qp) noexcept { return *ports[qp.port - 1U]; }
  /// True when cells of this QP may leave now: its path is made, its port is up, and its packets in flight
  /// fit.
  [[nodiscard]] bool path_ready(QueuePair& qp) noexcept;

  /// Makes the QP's path from its attributes and what its port is now.
  void set_path(QueuePair& qp) noexcept;
  /// The QP's port, partition or address is another: its path is made anew with the next cell.
  void renew_path(QueuePair& qp) noexcept;

  /// The next message of `qp` takes its receive WQE; the queue is not empty.
  RecvSlot take_recv(QueuePair& qp) noexcept {
    const RecvSlot slot = qp.rq->take(qp.taken);
    if (qp.rq->low()) [[unlikely]]
      tell_srq_limit(*qp.srq, *qp.rq);
    return slot;
  }
  /// The queue has run low: said once, until a limit is set again.
  [[gnu::cold]] void tell_srq_limit(SharedReceiveQueue& srq, RecvQueue& queue) noexcept;

  void complete(CompletionQueue* queue, const WorkCompletion& entry) noexcept {
    complete(queue, entry.qpn, [&entry](WorkCompletion& place) { place = entry; });
  }
  /// An entry of `qpn` that `fill(place)` writes, every field of it (CompletionQueue::push_filled()).
  template <class Fill>
  [[gnu::always_inline]] void complete(CompletionQueue* queue, Qpn qpn, Fill&& fill) noexcept {
    if (!queue->push_filled(fill)) [[unlikely]]
      lose_completion(*queue, qpn);
  }
  /// An event for the owner of the adapter. One that waits already becomes the newest of its object.
  void raise(QueuePair& qp, AsyncEventKind kind, WcStatus status = WcStatus::kSuccess) noexcept;
  void raise(const AdapterPort& port, AsyncEventKind kind) noexcept;
  void raise(EventBox& of, AsyncEventKind kind) noexcept { events.add(of, static_cast<uint8_t>(kind)); }
  /// Takes the oldest event; false when there is none.
  [[nodiscard]] bool next_event(AsyncEvent& out) noexcept;
  void count(AdapterCounter counter) noexcept { counters.add(counter); }
  /// People are to hear of a failure of this QP; its peer is filled in unless it is named. Where the failure
  /// ends the QP, its flushed completions have the same code.
  [[gnu::cold]] void report(QueuePair& qp, Failure failure) noexcept;
  /// A cell fits nothing here. Nothing is said unless its sender repeats it (FailureLog).
  [[gnu::cold]] void report_stray(Reason reason, const CellView& cell, uint64_t expected = 0,
                                  uint64_t extent = 0) noexcept;

  AdapterConfig config;
  RandomSource& random;
  MemoryTable memory;
  std::unique_ptr<AddressSpaces> spaces;  // null without a memory manager
  Stash stash;
  MulticastGroups groups;
  ChunkPool<TxPacket> tx_chunks;
  ChunkPool<RxPacket> rx_chunks;
  StrictAckPool strict_acks;
  uint32_t strict_qps = 0;  // each has one chunk of them at most
  TimerHeap timers;
  std::vector<std::unique_ptr<AdapterPort>> ports;
  QpTable qps;
  SrqTable srqs;
  Schedule schedule{ports};
  Instant now{};
  CounterSet<AdapterCounter> counters;
  CounterSet<CellError> bad_cells;
  CounterSet<AccessFault> faults;

  PendingList events;
  std::deque<EventBox> port_events;      // as `ports`
  FixedRing<CompletionQueue*> notified;  // CQs whose notification came; each once
  bool overrun_news = false;             // a CQ has lost an entry, and no sweep has begun since
  FailureLog failures;

 private:
  /// A completion of `qpn` found its queue full.
  [[gnu::cold]] void lose_completion(CompletionQueue& queue, Qpn qpn) noexcept;
};

}  // namespace weft::adapter
