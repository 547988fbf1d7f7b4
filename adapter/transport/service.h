// adapter/transport/service.h -- the interface of a transport service: a row of constants, and one object per
// adapter that runs its QPs. A QP points to both (QueuePair::row, QueuePair::service), so no other code tests
// QP types. A service has its own folder and an entry in the table of adapter/transport/services.cc, and
// appears nowhere else. The row of an RC QP may change while the QP is made: one service may serve peers on
// the same machine, another the peers behind a link.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "adapter/queues/send_operations.h"
#include "adapter/verbs.h"

namespace weft {
struct CellView;
}  // namespace weft

namespace weft::adapter {

struct Engine;
struct SendFault;
class QueuePair;
class CellWriter;
class Service;

/// Additional state of a QP that its service keeps. It is allocated and freed with the QP.
struct ServiceState {
  ServiceState() = default;
  virtual ~ServiceState() = default;
  ServiceState(const ServiceState&) = delete;
  ServiceState& operator=(const ServiceState&) = delete;
};

/// The constants of a service. False or empty: the service does not have the feature.
struct ServiceRow {
  QpType type;
  QpType states_like;  // type whose state transitions and attributes apply (adapter/queues/qp_rules.h)
  std::span<const SendOpcodeRule> operations{};  // accepted by its send queues
  uint32_t takes = 0;        // kOpOn... of the requests that its responders execute (messages/opcode.h)
  uint32_t send_window = 1;  // packets in flight
  // Packets that may be partly received. With more than one, packets are acknowledged one by one.
  uint32_t receive_window = 0;
  bool acknowledged = false;  // a request ends with its answer; if false, when it has left
  bool connected = false;     // a QP has one peer; if false, each request names its destination
  bool by_window = false;     // its requests pass no port
  bool has_send_queue = true;
  bool has_recv_queue = true;
  bool names_srq = false;         // each request names a shared receive queue of its peer
  bool serves_domain = false;     // a QP belongs to an XRC domain; requests name queue and PD
  bool has_packet_crc = false;    // PUSH-CELL-08
  bool has_grh_space = false;     // QpConfig::grh_space; its requests may carry a global header
  bool joins_groups = false;      // multicast
  bool takes_raw_frames = false;  // IPv6 frames without P_Key, selected by protocol (SAN-XPORT-16)
  bool finds_ways = false;        // with several NICs: other ways to the peer (transport/ways.h)
  bool is_paced = false;          // QpAttr::rate_limit_kbps
  bool waits_for_keys = false;  // take() may get a cell again whose key was unknown (adapter/key_questions.h)
  std::unique_ptr<ServiceState> (*keep)() = nullptr;
  std::unique_ptr<Service> (*make)(Engine& engine, CellWriter& writer) = nullptr;
};

/// Runs the QPs of a service in one adapter. Owner: the adapter's thread.
class Service {
 public:
  Service() = default;
  virtual ~Service() = default;
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  /// Takes a cell for a QP that may receive. The caller has checked sender and partition.
  virtual void take(QueuePair& qp, const CellView& cell) noexcept = 0;
  /// Sends up to `budget` cells; returns how many. Sets `blocked` when credit or slots ran out.
  virtual uint32_t run(QueuePair& qp, uint32_t budget, bool& blocked) noexcept = 0;
  /// run() can do more without waiting for an acknowledgement or a timer.
  [[nodiscard]] virtual bool has_work(const QueuePair& qp) const noexcept = 0;
  /// The QP's timer has come up.
  virtual void on_timer(QueuePair& qp) noexcept = 0;
  /// The send queue begins to drain: completes the finished WQEs and reports the end.
  virtual void drain(QueuePair& qp) noexcept = 0;
  /// The requests of the send queue are flushed now: none of them moves data any more.
  virtual void stop_moving(QueuePair& /*qp*/) noexcept {}
  /// The adapter has ended the QP: it is in the error state, and its requests are flushed. May come inside
  /// any other call for this QP.
  virtual void entered_error(QueuePair& /*qp*/) noexcept {}
  /// The QP stops, or ends: it gives back the resources of the service.
  virtual void forget(QueuePair& /*qp*/) noexcept {}

  /// Sends the due acknowledgements of the QP; returns cells. `done` is false while some are left.
  virtual uint32_t acknowledge(QueuePair& /*qp*/, bool& done) noexcept {
    done = true;
    return 0;
  }
  /// An acknowledgement is due now.
  [[nodiscard]] virtual bool owes_now(const QueuePair& /*qp*/) const noexcept { return false; }
  /// The QP ends: acknowledges its received data once more, without a guarantee.
  virtual void say_last_words(QueuePair& /*qp*/) noexcept {}
  /// The program has changed attributes of a QP that receives.
  virtual void modified(QueuePair& /*qp*/) noexcept {}
  /// The doorbell rang while a message waited for a receive WQE.
  virtual void receive_posted(QueuePair& /*qp*/) noexcept {}

  /// The path has changed: repeats the missing cells in flight, and counts the retries from 0.
  virtual void repeat_all(QueuePair& /*qp*/) noexcept {}
  /// The link was lost and is back: repeats the missing cells, and keeps the count of retries.
  virtual void repeat_by_new_link(QueuePair& /*qp*/) noexcept {}
  /// Fails the oldest request in flight, if there is one.
  virtual void fail_oldest(QueuePair& /*qp*/, const SendFault& /*fault*/) noexcept {}

  /// The service also sends for no particular QP: each turn of the adapter calls run_turn(), which returns
  /// cells.
  [[nodiscard]] virtual bool has_turns() const noexcept { return false; }
  virtual uint32_t run_turn() noexcept { return 0; }
  /// When run_turn() has something to do; kNever: after the next event.
  [[nodiscard]] virtual Instant next_turn() const noexcept { return kNever; }
};

}  // namespace weft::adapter
