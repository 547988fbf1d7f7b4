// Part of the direct requester: how long the peer may be silent. direct_requester.cc explains how it works.
#include <algorithm>

#include "adapter/transport/direct/direct_requester.h"

namespace weft::adapter {

/// How long a peer may be silent. One that is known to live may stand still in between, unless a fault cuts
/// it off.
Duration DirectRequester::patience(const QueuePair& qp) const noexcept {
  const DirectQp& direct = direct_of(qp);
  const Duration retries = qp.attr.ack_timeout * (qp.attr.retry_count + 1);
  return direct.ready && !direct.peer->cut ? retries + kStandstillMax : retries;
}

/// Starts to count the peer's silence, unless that has begun.
void DirectRequester::watch_silence(QueuePair& qp) noexcept {
  if (qp.tx.retransmit_at != kNever) return;
  if (direct_of(qp).unanswered == 0) qp.tx.progress_at = std::max(qp.tx.progress_at, engine_.now);
  arm_silence(qp);
}

void DirectRequester::arm_silence(QueuePair& qp) noexcept {
  const DirectQp& direct = direct_of(qp);
  const bool limited = qp.attr.ack_timeout != Duration::zero();
  if (limited) qp.tx.retransmit_at = qp.tx.progress_at + patience(qp);
  if (direct.asks()) qp.tx.retransmit_at = std::min(qp.tx.retransmit_at, engine_.now + kDirectAskEvery);
  if (limited || direct.asks()) engine_.timers.arm(qp, qp.tx.retransmit_at);
}

/// The peer's silence has lasted until tx.retransmit_at.
void DirectRequester::end_silence(QueuePair& qp) noexcept {
  SendSide& tx = qp.tx;
  DirectQp& direct = direct_of(qp);
  tx.retransmit_at = kNever;
  const bool waits = !direct.ready && may_start(qp) && qp.sq.at(qp.sq.started).rule->moves_data();
  const bool held = direct.peer->cut && direct.accesses != 0;
  if (direct.unanswered == 0 && !waits && !held) return;
  if (qp.attr.ack_timeout != Duration::zero() && engine_.now - tx.progress_at >= patience(qp)) {
    qp.counters.add(QpCounter::kTimeouts);
    return fail_waiting(qp, {direct.named ? Reason::kPeerWentSilent : Reason::kPeerNeverAnswered});
  }
  if (direct.asks()) {  // the peer's QP may have come up since
    direct.owes_ready = true;
    engine_.schedule.want_send(qp);
  }
  arm_silence(qp);
}

void DirectRequester::on_timer(QueuePair& qp) noexcept {
  SendSide& tx = qp.tx;
  if (tx.rnr_until != Instant::min() && engine_.now >= tx.rnr_until) {
    tx.rnr_until = Instant::min();
    engine_.schedule.want_send(qp);
  }
  if (engine_.now >= tx.retransmit_at) end_silence(qp);
  completer_.await_next(qp);
}

}  // namespace weft::adapter
