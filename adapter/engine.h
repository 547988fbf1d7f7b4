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
#include "adapter/loopback_port.h"
#include "adapter/memory/memory_table.h"
#include "adapter/path.h"
#include "adapter/queues/completion_queue.h"
#include "adapter/queues/queue_pair.h"
#include "adapter/timer_heap.h"
#include "adapter/transport/stash.h"
#include "base/clock.h"
#include "base/rng.h"

namespace weft::adapter {

/// A ring of QPs, each in it at most once. Sized for all QPs at creation.
class QpList {
 public:
  explicit QpList(uint32_t capacity) : ring_(capacity) {}
  void push(QueuePair& qp) noexcept { ring_[tail_++ % ring_.size()] = &qp; }
  [[nodiscard]] QueuePair* pop() noexcept { return head_ == tail_ ? nullptr : ring_[head_++ % ring_.size()]; }
  /// The `index`-th oldest, below size().
  [[nodiscard]] const QueuePair& peek(uint64_t index) const noexcept {
    return *ring_[(head_ + index) % ring_.size()];
  }
  [[nodiscard]] uint64_t size() const noexcept { return tail_ - head_; }
  void remove(const QueuePair& qp) noexcept;

 private:
  std::vector<QueuePair*> ring_;
  uint64_t head_ = 0;
  uint64_t tail_ = 0;
};

struct Engine {
  Engine(const AdapterConfig& wanted, RandomSource& source);

  /// The QP of a number; null when there is none. One load and one compare.
  [[nodiscard]] QueuePair* find_qp(Qpn qpn) const noexcept {
    QueuePair* qp = table[qpn.value() & table_mask].get();
    return qp != nullptr && qp->qpn == qpn ? qp : nullptr;
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

  void complete(CompletionQueue* queue, const WorkCompletion& entry) noexcept;
  void raise(const AsyncEvent& event) noexcept;
  void count(AdapterCounter counter) noexcept { counters.add(counter); }

  AdapterConfig config;
  RandomSource& random;
  MemoryTable memory;
  Stash stash;
  LoopbackPort loopback;
  TimerHeap timers;
  QpList send_list;
  QpList ack_list;
  bool send_ready = false;    // somebody on send_list can do more than wait for credit or an acknowledgement
  bool acks_stalled = false;  // acknowledgements that were due have found no credit
  std::vector<EnginePort> ports;
  std::vector<std::unique_ptr<QueuePair>> table;
  uint32_t table_mask;
  Instant now{};
  CounterSet<AdapterCounter> counters;
  CounterSet<CellError> bad_cells;
  CounterSet<AccessFault> faults;

  std::vector<AsyncEvent> events;  // ring of kAsyncEventsMax
  uint64_t events_head = 0;
  uint64_t events_tail = 0;
  bool overrun_pending = false;  // some CQ has overrun and its QPs have not been failed yet
};

}  // namespace weft::adapter
