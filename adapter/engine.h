// adapter/engine.h -- what requester, responder and completer of one adapter share: table of QPs, memory
// table, ports, lists of QPs with work, timers, events, counters. Internal to adapter/.
#pragma once

#include <algorithm>
#include <array>
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
#include "adapter/limits.h"
#include "adapter/memory/address_space.h"
#include "adapter/memory/memory_table.h"
#include "adapter/path.h"
#include "adapter/queues/completion_queue.h"
#include "adapter/queues/multicast_groups.h"
#include "adapter/queues/qp_list.h"
#include "adapter/queues/queue_pair.h"
#include "adapter/queues/shared_receive_queue.h"
#include "adapter/timer_heap.h"
#include "adapter/transport/stash.h"
#include "base/clock.h"
#include "base/fixed_ring.h"
#include "base/pending_list.h"
#include "base/rng.h"

namespace weft::adapter {

/// QPs that found no credit on a lane, or their port down; nobody looks at them until the lane has credit.
struct CreditWaits {
  std::array<SendList, kVlCount> sends;
  std::array<AckList, kVlCount> acks;
  uint32_t lanes = 0;  // lane_bit() of those where somebody waits
};

struct Engine {
  Engine(const AdapterConfig& wanted, RandomSource& source);

  /// The QP of a number; null when there is none. One load and one compare.
  [[nodiscard]] QueuePair* find_qp(Qpn qpn) const noexcept {
    QueuePair* qp = table[qpn.value() & table_mask].get();
    return qp != nullptr && qp->qpn == qpn ? qp : nullptr;
  }
  /// A cell will be taken soon: what its QP needs for it is asked for. Looks at nothing that may be wrong.
  void expect(std::span<const std::byte> cell) const noexcept;
  /// The management QP of a port; null when there is none.
  [[nodiscard]] QueuePair* find_gsi(const EnginePort& port) const noexcept {
    return gsi[port.number - 1U].get();
  }
  /// The shared receive queue that a request to an XRC target names; null unless it is of the target's
  /// domain.
  [[nodiscard]] SharedReceiveQueue* find_srq(const QueuePair& target, uint32_t number) const noexcept {
    const uint32_t place = number & srq_mask;
    SharedReceiveQueue* srq = place < srqs.size() ? srqs[place].get() : nullptr;
    const bool found = srq != nullptr && srq->number == number && srq->config.xrcd == target.config.xrcd;
    return found ? srq : nullptr;
  }
  /// More QPs than the first levels of a cache hold: what the next one needs is asked for early.
  [[nodiscard]] bool many_qps() const noexcept { return live.size() > kQpsInCache; }
  /// False while memory is on its way that the next cells of a port may need; they wait in the port.
  [[nodiscard]] bool ready_to_receive() noexcept {
    return rx_chunks.serves(kCellsPerReceive) && strict_acks.serves(std::min(kCellsPerReceive, strict_qps));
  }
  /// A QP was made, or ends.
  void enlist(QueuePair& qp);
  void delist(QueuePair& qp) noexcept;
  [[nodiscard]] EnginePort& port_of(const QueuePair& qp) noexcept { return ports[qp.port - 1U]; }
  /// True when cells of this QP may leave now: its path is made, its port is up, and its packets in flight
  /// fit.
  [[nodiscard]] bool path_ready(QueuePair& qp) noexcept;

  /// Makes the QP's path from its attributes and what its port is now.
  void set_path(QueuePair& qp) noexcept;
  /// The QP's port, partition or address is another: its path is made anew with the next cell.
  void renew_path(QueuePair& qp) noexcept;

  /// QP has something to send: it gets a turn in this or the next poll().
  void want_send(QueuePair& qp) noexcept;
  /// QP owes an acknowledgement, at once or after kAckDelay.
  void want_ack(QueuePair& qp, bool at_once) noexcept;
  /// QP found no credit for its data, or for its acknowledgement.
  void wait_to_send(QueuePair& qp) noexcept;
  void wait_to_ack(QueuePair& qp) noexcept;
  /// Its path has changed: it waits no longer where it did.
  void wait_no_more(QueuePair& qp) noexcept;
  /// Lets QPs go on whose lanes have credit now, kWakesPerTurn of each lane.
  void wake_waiting() noexcept;

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
  /// An event for whoever owns the adapter. One that waits already becomes the newest of its object.
  void raise(QueuePair& qp, AsyncEventKind kind, WcStatus status = WcStatus::kSuccess) noexcept;
  void raise(const EnginePort& port, AsyncEventKind kind) noexcept;
  void raise(EventBox& of, AsyncEventKind kind) noexcept { events.add(of, static_cast<uint8_t>(kind)); }
  /// Takes the oldest event; false when there is none.
  [[nodiscard]] bool next_event(AsyncEvent& out) noexcept;
  void count(AdapterCounter counter) noexcept { counters.add(counter); }

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
  SendList send_list;             // QPs that can send, as far as they know
  AckList acks_now;               // QPs that owe an acknowledgement at once
  AckList acks_later;             // and those that owe it later, in the order of ReceiveSide::ack_at
  std::deque<CreditWaits> waits;  // of port n: its link at 2 (n - 1), its loopback behind it
  bool more_to_wake = false;      // a lane had credit and more QPs than could be woken
  std::vector<QueuePair*> live;   // every QP
  std::vector<EnginePort> ports;
  std::vector<std::unique_ptr<QueuePair>> gsi;  // QP 1 of each port, as `ports`
  std::vector<std::unique_ptr<QueuePair>> table;
  uint32_t table_mask;
  std::vector<std::unique_ptr<SharedReceiveQueue>> srqs;
  uint32_t srq_mask;  // the low bits of an SRQ's number: its place
  Instant now{};
  CounterSet<AdapterCounter> counters;
  CounterSet<CellError> bad_cells;
  CounterSet<AccessFault> faults;

  PendingList events;
  std::deque<EventBox> port_events;      // as `ports`
  FixedRing<CompletionQueue*> notified;  // CQs whose notification came; each once
  bool overrun_news = false;             // a CQ has lost an entry, and no sweep has begun since

 private:
  /// A completion of `qpn` found its queue full.
  [[gnu::cold]] void lose_completion(CompletionQueue& queue, Qpn qpn) noexcept;
  /// Where the QP's next cell leaves, and the lane, on which somebody waits from now on.
  [[nodiscard]] CreditWaits& wait_for(QueuePair& qp, VirtualLane& vl) noexcept;
};

}  // namespace weft::adapter
