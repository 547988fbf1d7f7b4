// adapter/queues/qp_lifecycle.h -- what entering a QP state does: counters of both sides start, queues are
// flushed in order, everything is forgotten (house style 25, 29).
#pragma once

#include "adapter/adapter_engine.h"
#include "adapter/queues/queue_pair.h"

namespace weft::adapter {

/// WorkCompletion::place of what `qp` receives now.
[[nodiscard]] inline uint32_t place_of_receive(const QueuePair& qp) noexcept {
  return qp.srq != nullptr ? qp.srq->number : 0;
}

/// Entry to RTR and to RTS: both sides start at the attributes' PSNs.
void start_receiving(Engine& engine, QueuePair& qp) noexcept;
void start_sending(Engine& engine, QueuePair& qp) noexcept;

/// The adapter gives up on a QP: everything left completes as flushed, in order. `kind` says why;
/// `completed`: so does a completion that was made.
void enter_error(Engine& engine, QueuePair& qp, AsyncEventKind kind, WcStatus status,
                 bool completed = false) noexcept;
/// A send failed on a service without acknowledgement: its send queue is flushed, the receive queue works on.
void enter_send_error(Engine& engine, QueuePair& qp) noexcept;
/// modify_qp() to ERR. What waits in a shared receive queue stays there for the others.
void flush_all(Engine& engine, QueuePair& qp) noexcept;
void flush_send(Engine& engine, QueuePair& qp) noexcept;
/// Completes as flushed every send WQE before `position` that is not completed yet.
void flush_send_before(Engine& engine, QueuePair& qp, uint64_t position) noexcept;
void flush_recv(Engine& engine, QueuePair& qp) noexcept;

/// From now on the messages of an XRC target go to `srq`, and nowhere when it is null. It has taken no WQE
/// that a message still fills.
void select_srq(QueuePair& qp, SharedReceiveQueue* srq) noexcept;

/// RESET and destruction: no completion is made; what was queued is forgotten, and so are unpolled
/// completions, which a later use of the number or of its wr_ids would be confused with.
void forget_everything(Engine& engine, QueuePair& qp) noexcept;

}  // namespace weft::adapter
