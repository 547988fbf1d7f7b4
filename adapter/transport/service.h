// adapter/transport/service.h -- what a transport service is: a row of constants, and one object of each
// adapter that runs its QPs. A QP points to both (QueuePair::row, QueuePair::service), so that nothing else
// asks for types. A service stands in a folder of its own and in the table of adapter/transport/services.cc,
// and in no other place. The row of an RC QP may change while it is made: one service may serve peers on the
// same machine, another those beyond a link.
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

/// What a service keeps of each QP beside what all have. Its memory comes and goes with the QP's.
struct ServiceState {
  ServiceState() = default;
  virtual ~ServiceState() = default;
  ServiceState(const ServiceState&) = delete;
  ServiceState& operator=(const ServiceState&) = delete;
};

/// What never changes of a service. False and empty: it has none of it.
struct ServiceRow {
  QpType type;
  QpType states_like;  // whose moves between states and whose attributes it has (adapter/queues/qp_rules.h)
  std::span<const SendOpcodeRule> operations{};  // that its send queues take
  uint32_t takes = 0;           // kOpOn... of the requests that its responders execute (messages/opcode.h)
  uint32_t send_window = 1;     // packets in flight
  uint32_t receive_window = 0;  // packets of which some cells may have come. More than one: acknowledged each
  bool acknowledged = false;    // a request ends with its answer, else when it has left
  bool connected = false;       // a QP has one peer, else each request says where it goes
  bool has_send_queue = true;
  bool has_recv_queue = true;
  bool names_srq = false;         // each request names a shared receive queue of its peer
  bool serves_domain = false;     // it belongs to an XRC domain; what comes names the queue and so the PD
  bool has_packet_crc = false;    // PUSH-CELL-08
  bool has_grh_space = false;     // QpConfig::grh_space; and its requests may carry a global header
  bool joins_groups = false;      // multicast
  bool takes_raw_frames = false;  // they know no partition, and come by protocol (SAN-XPORT-16), as IPv6
  bool is_paced = false;          // QpAttr::rate_limit_kbps
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

  /// A cell for a QP that may receive, from where it may come and of its partition.
  virtual void take(QueuePair& qp, const CellView& cell) noexcept = 0;
  /// Sends up to `budget` cells; returns how many. `blocked` is set when credit or slots ran out.
  virtual uint32_t run(QueuePair& qp, uint32_t budget, bool& blocked) noexcept = 0;
  /// run() could do more without an acknowledgement or a timer in between.
  [[nodiscard]] virtual bool has_work(const QueuePair& qp) const noexcept = 0;
  /// The QP's timer has come up.
  virtual void on_timer(QueuePair& qp) noexcept = 0;
  /// The send queue begins to drain: what is done completes, and the end is told.
  virtual void drain(QueuePair& qp) noexcept = 0;
  /// The QP stops, or ends: it gives back what the service keeps for it.
  virtual void forget(QueuePair& /*qp*/) noexcept {}

  /// Sends what the QP owes if it is due; returns cells. `done` is false while something is still owed.
  virtual uint32_t acknowledge(QueuePair& /*qp*/, bool& done) noexcept {
    done = true;
    return 0;
  }
  /// Something is owed now.
  [[nodiscard]] virtual bool owes_now(const QueuePair& /*qp*/) const noexcept { return false; }
  /// The QP ends: what it has received and not acknowledged is acknowledged as well as can be.
  virtual void say_last_words(QueuePair& /*qp*/) noexcept {}
  /// The doorbell rang while a message waited for a receive WQE.
  virtual void receive_posted(QueuePair& /*qp*/) noexcept {}

  /// The path is another one: what is in flight and missing is sent again, and waited for anew.
  virtual void repeat_all(QueuePair& /*qp*/) noexcept {}
  /// The link was lost and is back: the same, and what was waited before that is not forgotten.
  virtual void repeat_by_new_link(QueuePair& /*qp*/) noexcept {}
  /// The oldest request in flight fails, if there is one.
  virtual void fail_oldest(QueuePair& /*qp*/, const SendFault& /*fault*/) noexcept {}

  /// It sends for no QP, too: run_turn() has its turn once in each of the adapter's, and returns cells.
  [[nodiscard]] virtual bool has_turns() const noexcept { return false; }
  virtual uint32_t run_turn() noexcept { return 0; }
  /// run_turn() would do something now.
  [[nodiscard]] virtual bool wants_turn() const noexcept { return false; }
};

}  // namespace weft::adapter
