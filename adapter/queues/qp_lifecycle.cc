#include "adapter/queues/qp_lifecycle.h"

#include "adapter/several_nics.h"

namespace weft::adapter {
namespace {

/// Stops timers and drops all packets in flight.
void stop_sending(Engine& engine, QueuePair& qp) noexcept {
  engine.timers.rest(qp);
  SendSide& tx = qp.tx;
  tx.first = tx.cursor = tx.cumulative = tx.end;
  tx.packets.clear(engine.tx_chunks);
  qp.other_cells = false;
  tx.retransmit_at = kNever;
  tx.rnr_until = tx.delay_until = Instant::min();
}

void stop_receiving(Engine& engine, QueuePair& qp) noexcept {
  if ((qp.watch & kWatchKey) != 0) engine.several_nics->questions.forget(qp);
  engine.stash.drop_all(qp.rx);
  qp.rx.packets.clear(engine.rx_chunks);
  if (qp.rx.order != nullptr) qp.rx.order->untold.clear_all();
  qp.rx.debt.drop();
  AckList::unlink(qp);  // a QP without a debt has no time in acks_later and would hold up those behind it
  qp.rx.reads.clear();
  qp.answers = false;
  qp.rx.executed_reads.clear();
  qp.rx.strict_acks.clear();
}

void flush_recv_wqe(Engine& engine, const QueuePair& qp, uint64_t wr_id) noexcept {
  engine.complete(qp.config.recv_cq, {.wr_id = wr_id,
                                      .status = WcStatus::kFlushed,
                                      .opcode = WcOpcode::kRecv,
                                      .qpn = qp.qpn,
                                      .imm = code_of(qp.failed_by),
                                      .place = place_of_receive(qp)});
}

}  // namespace

void watch_port(Engine& engine, QueuePair& qp) noexcept {
  AdapterPort& port = engine.port_of(qp);
  // The port has expired for the QPs of before. It waits for its link once more, from the next turn on.
  if (port.expired() && qp.acknowledged() && !qp.path.loops) port.wait_again();
  qp.port_seen = port.change();
}

void start_receiving(Engine& engine, QueuePair& qp) noexcept {
  stop_receiving(engine, qp);
  const Psn begin = qp.attr.rq_psn;
  qp.rx.start({.expected = begin, .base_psn = begin, .next_psn = begin});
  qp.peer_lid = qp.attr.dlid;
  qp.peer_qpn = qp.attr.dest_qpn;
  engine.set_path(qp);
  watch_port(engine, qp);
  if (qp.connected()) qp.watch |= kWatchFirstCell;
}

void start_sending(Engine& engine, QueuePair& qp) noexcept {
  stop_sending(engine, qp);
  qp.other_psn = false;
  qp.watch &= static_cast<uint8_t>(~kWatchFirstCell);
  qp.tx.start({.first_psn = qp.attr.sq_psn, .progress_at = engine.now, .timeout = qp.attr.ack_timeout});
}

void flush_send_before(Engine& engine, QueuePair& qp, uint64_t position) noexcept {
  SendQueue& sq = qp.sq;
  while (sq.done < position) {
    const SendWqe& wqe = sq.at(sq.done++);
    engine.complete(qp.config.send_cq, {.wr_id = wqe.wr_id,
                                        .status = WcStatus::kFlushed,
                                        .opcode = wqe.rule->completion,
                                        .qpn = qp.qpn,
                                        .imm = code_of(qp.failed_by),
                                        .place = static_cast<uint32_t>(sq.done)});
  }
}

void flush_send(Engine& engine, QueuePair& qp) noexcept {
  stop_sending(engine, qp);
  qp.service->stop_moving(qp);
  SendQueue& sq = qp.sq;
  flush_send_before(engine, qp, sq.posted);
  sq.started = sq.rung = sq.posted;
}

void flush_recv(Engine& engine, QueuePair& qp) noexcept {
  while (!qp.taken.empty()) flush_recv_wqe(engine, qp, qp.rq->finish(qp.taken));
  uint64_t wr_id = 0;
  while (qp.own_rq.flush_one(wr_id)) flush_recv_wqe(engine, qp, wr_id);
}

void flush_all(Engine& engine, QueuePair& qp) noexcept {
  flush_send(engine, qp);
  stop_receiving(engine, qp);  // not with each later receive: the NAK that follows may wait for credit
  flush_recv(engine, qp);
  if (qp.config.srq != nullptr) engine.raise(qp, AsyncEventKind::kLastWqeReached);
}

void enter_error(Engine& engine, QueuePair& qp, AsyncEventKind kind, WcStatus status,
                 bool completed) noexcept {
  if (qp.state == QpState::kErr) return;
  qp.state = QpState::kErr;
  qp.events.completed = completed;
  engine.count(AdapterCounter::kQpErrors);
  engine.raise(qp, kind, status);
  flush_all(engine, qp);
  qp.service->entered_error(qp);
}

void enter_send_error(Engine& engine, QueuePair& qp) noexcept {
  qp.state = QpState::kSqe;
  flush_send(engine, qp);
}

void select_srq(QueuePair& qp, SharedReceiveQueue* srq) noexcept {
  qp.srq = srq;
  qp.rq = srq == nullptr ? &qp.own_rq : &srq->queue;
  qp.config.recv_cq = srq == nullptr ? qp.config.send_cq : srq->config.cq;
}

void forget_everything(Engine& engine, QueuePair& qp) noexcept {
  SendList::unlink(qp);  // its next life may use another port or lane, whose credit it must not miss
  stop_sending(engine, qp);
  stop_receiving(engine, qp);
  qp.sq.clear();
  qp.rq->give_back(qp.taken);
  qp.own_rq.clear();
  uint32_t receives = qp.config.send_cq->purge(qp.qpn);
  const bool foreign = qp.row->serves_domain;  // its receives complete for the owner of the SRQ
  if (qp.config.recv_cq != qp.config.send_cq && !foreign) receives += qp.config.recv_cq->purge(qp.qpn);
  if (qp.config.srq != nullptr) qp.config.srq->queue.free_places(receives);
  qp.path = {};
  qp.attr = {};
  qp.failed_by = Reason::kNone;
  qp.watch = 0;
}

}  // namespace weft::adapter
