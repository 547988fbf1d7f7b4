// adapter/adapter_engine.h -- the state that requester, responder and completer of one adapter share: table
// of QPs, schedule, ports, memory table, timers, events, counters. Internal to adapter/.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
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

class DatagramTaker;
class DatagramWays;
struct SeveralNics;

struct Engine {
  Engine(const AdapterConfig& wanted, RandomSource& source);

  /// False while memory that the next cells of a port may need is being supplied. The cells wait in the port.
  [[nodiscard]] bool ready_to_receive() noexcept {
    return rx_chunks.serves(kCellsPerReceive) && strict_acks.serves(std::min(kCellsPerReceive, strict_qps));
  }
  /// A QP was created, or ends.
  void enlist(QueuePair& qp);
  void delist(QueuePair& qp) noexcept;
  [[nodiscard]] AdapterPort& port_of(const QueuePair& qp) noexcept { return *ports[qp.port - 1U]; }
  /// True when cells of this QP may leave now: its path is made, its port is up, and its packets in flight
  /// have the port's cell size.
  [[nodiscard]] bool path_ready(QueuePair& qp) noexcept {
    keep_path(qp);
    const AdapterPort& port = port_of(qp);
    return (port.up() || (port.known() && qp.path.loops)) && !qp.other_cells;
  }
  /// Makes the path of a QP anew if its port has changed.
  void keep_path(QueuePair& qp) noexcept {
    if (qp.path.generation != port_of(qp).generation()) [[unlikely]]
      change_path(qp);
  }

  /// Puts the QP on a port. Its requests are then checked by the list of the port's NIC; if that is another
  /// one, all grants are checked again.
  void use_port(QueuePair& qp, uint8_t port) noexcept;
  /// True while no region, window or key of any NIC uses the PD.
  [[nodiscard]] bool pd_unused(PdId pd) const noexcept;

  /// Makes the QP's path from its attributes and the present state of its port.
  void set_path(QueuePair& qp) noexcept;
  /// The QP's port, partition or address has changed: the next cell makes its path anew.
  void renew_path(QueuePair& qp) noexcept;

  /// Takes the receive WQE for the next message of `qp`. The queue must not be empty.
  RecvSlot take_recv(QueuePair& qp) noexcept {
    const RecvSlot slot = qp.rq->take(qp.taken);
    if (qp.rq->low()) [[unlikely]]
      tell_srq_limit(*qp.srq, *qp.rq);
    return slot;
  }
  /// The queue has run low: raises the event once, until a limit is set again.
  [[gnu::cold]] void tell_srq_limit(SharedReceiveQueue& srq, RecvQueue& queue) noexcept;

  void complete(CompletionQueue* queue, const WorkCompletion& entry) noexcept {
    complete(queue, entry.qpn, [&entry](WorkCompletion& place) { place = entry; });
  }
  /// Adds an entry for `qpn`. `fill(place)` must write every field (CompletionQueue::push_filled()).
  template <class Fill>
  [[gnu::always_inline]] void complete(CompletionQueue* queue, Qpn qpn, Fill&& fill) noexcept {
    if (!queue->push_filled(fill)) [[unlikely]]
      lose_completion(*queue, qpn);
  }
  /// Raises an event for the owner of the adapter. A pending event of the same kind becomes the newest of its
  /// object.
  void raise(QueuePair& qp, AsyncEventKind kind, WcStatus status = WcStatus::kSuccess) noexcept;
  void raise(const AdapterPort& port, AsyncEventKind kind) noexcept;
  void raise(EventBox& of, AsyncEventKind kind) noexcept { events.add(of, static_cast<uint8_t>(kind)); }
  /// Takes the oldest event; false when there is none.
  [[nodiscard]] bool next_event(AsyncEvent& out) noexcept;
  void count(AdapterCounter counter) noexcept { counters.add(counter); }
  /// `cells` cells have left by `port`, by its link or loopback, or one by a memory window, which does not
  /// count.
  void count_sent(AdapterPort& port, uint32_t cells) noexcept {
    if (bytes_sent == 0) return;
    port.counters.add(AdapterPortCounter::kCellsSent, cells);
    port.counters.add(AdapterPortCounter::kBytesSent, std::exchange(bytes_sent, 0));
  }
  /// Reports a failure of this QP to people. Fills in the peer unless it is named. If the failure ends the
  /// QP, its flushed completions get the same code.
  [[gnu::cold]] void report(QueuePair& qp, Failure failure) noexcept;
  /// A cell matches no QP or connection here. It is reported only if its sender repeats it (FailureLog).
  [[gnu::cold]] void report_stray(Reason reason, const CellView& cell, uint64_t expected = 0,
                                  uint64_t extent = 0) noexcept;

  /// Counts the calls of the memory tables that an agent makes.
  struct MemoryAgent final : AgentLog {
    explicit MemoryAgent(Engine& counted) : engine(counted) {}
    void called() noexcept override { engine.count(AdapterCounter::kAgentCalls); }
    Engine& engine;
  };

  AdapterConfig config;
  RandomSource& random;
  MemoryAgent agent{*this};
  ComputerMemory computer;                                // what the lists of keys of all NICs share
  MemoryTable memory;                                     // of the first NIC, which most computers have alone
  std::vector<std::unique_ptr<MemoryTable>> more_memory;  // of the other NICs
  SeveralNics* several_nics = nullptr;                    // null with one NIC; owner: AdapterParts
  DatagramWays* datagram_ways = nullptr;                  // beside the ports; null without memory windows
  DatagramTaker* datagram_taker = nullptr;                // owner: AdapterParts
  bool resumed = false;  // the cell being taken has waited for a key, and its place in the order is taken
  std::unique_ptr<AddressSpaces> spaces;  // null without a memory manager
  Stash stash;
  MulticastGroups groups;
  ChunkPool<TxPacket> tx_chunks;
  ChunkPool<RxPacket> rx_chunks;
  StrictAckPool strict_acks;
  uint32_t strict_qps = 0;  // QPs in strict mode; each has at most one chunk
  TimerHeap timers;
  std::vector<std::unique_ptr<AdapterPort>> ports;
  QpTable qps;
  SrqTable srqs;
  Schedule schedule{ports};
  Instant now{};
  uint64_t bytes_sent = 0;  // of cells that count_sent() has not counted yet
  CounterSet<AdapterCounter> counters;
  CounterSet<CellError> bad_cells;
  CounterSet<AccessFault> faults;

  PendingList events;
  std::deque<EventBox> port_events;  // same order as `ports`
  bool overrun_news = false;         // a CQ has lost an entry since the last sweep began
  FailureLog failures;

 private:
  void add_nics();
  [[gnu::cold]] void change_path(QueuePair& qp) noexcept;
  /// Handles a completion of `qpn` that found its queue full.
  [[gnu::cold]] void lose_completion(CompletionQueue& queue, Qpn qpn) noexcept;
};

}  // namespace weft::adapter
