// adapter/queues/qp_lifecycle.h -- the effects of entering a QP state: both sides' counters start, queues are
// flushed in order, or all state is dropped (house style 25, 29).
#pragma once

#include "adapter/adapter_engine.h"
#include "adapter/queues/queue_pair.h"

namespace weft::adapter {

/// WorkCompletion::place for a message that `qp` receives now.
[[nodiscard]] inline uint32_t place_of_receive(const QueuePair& qp) noexcept {
  return qp.srq != nullptr ? qp.srq->number : 0;
}

/// Entry to RTR and to RTS: each side starts at the PSN of the attributes.
void start_receiving(Engine& engine, QueuePair& qp) noexcept;
void start_sending(Engine& engine, QueuePair& qp) noexcept;
/// The QP begins to use its port: it is told of later changes, and fails within kPortDownLimit if the port
/// stays down.
void watch_port(Engine& engine, QueuePair& qp) noexcept;

/// The adapter ends a QP: all remaining WQEs complete as flushed, in order. `kind` is the reason.
/// `completed`: a completion has already reported it.
void enter_error(Engine& engine, QueuePair& qp, AsyncEventKind kind, WcStatus status,
                 bool completed = false) noexcept;
/// A send failed on a service without acknowledgement: its send queue is flushed; the receive queue
/// continues.
void enter_send_error(Engine& engine, QueuePair& qp) noexcept;
/// modify_qp() to ERR. WQEs that wait in a shared receive queue stay there for other QPs.
void flush_all(Engine& engine, QueuePair& qp) noexcept;
void flush_send(Engine& engine, QueuePair& qp) noexcept;
/// Completes as flushed every send WQE before `position` that has not completed yet.
void flush_send_before(Engine& engine, QueuePair& qp, uint64_t position) noexcept;
void flush_recv(Engine& engine, QueuePair& qp) noexcept;

/// From now on messages of an XRC target go to `srq`, or to no queue if it is null. The target must not hold
/// a receive WQE for an incomplete message.
void select_srq(QueuePair& qp, SharedReceiveQueue* srq) noexcept;

/// RESET and destruction: makes no completion. Queued WQEs and unpolled completions are dropped, because a
/// later user of the number or of the wr_ids could mistake them for its own.
void forget_everything(Engine& engine, QueuePair& qp) noexcept;

}  // namespace weft::adapter
