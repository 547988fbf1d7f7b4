// How it works: an RD QP makes one packet at a time and acquires the context of its destination. The packet
// gets the context's next PSN, which no other message of the context has had. The QP runs the timer, the
// retries and the RNR pauses as RC does. A context has a single message in flight, and an abandoned message
// comes again only as a late copy. The receiver therefore executes every PSN at or after the expected one,
// repeats its answer to the last executed PSN, and refuses older ones with a NAK that names the expected PSN.
// From this NAK a restarted sender learns where to go on. Contexts so need no handshake and survive a restart
// of either side.
#include "adapter/transport/rd/rd_service.h"

#include <array>
#include <bit>
#include <utility>

#include "adapter/queues/qp_lifecycle.h"
#include "adapter/several_nics.h"
#include "adapter/transport/delivery.h"
#include "adapter/transport/rnr_timer.h"

namespace weft::adapter {

namespace {

using S = SendOpcode;

constexpr std::array kRdOperations = offer({{S::kRdmaWrite, Opcode::kRdWrite},
                                            {S::kSend, Opcode::kRdSend},
                                            {S::kRdmaWriteWithImm, Opcode::kRdWrite},
                                            {S::kSendWithImm, Opcode::kRdSend},
                                            {S::kSendWithInvalidate, Opcode::kRdSend},
                                            {S::kLocalInvalidate},
                                            {S::kBindWindow},
                                            {S::kUnbindWindow},
                                            {S::kDelay}});

RdLine& line_of(QueuePair& qp) noexcept {
  return static_cast<RdLine&>(*qp.kept);
}

}  // namespace

const ServiceRow kRdRow{.type = QpType::kRd,
                        .states_like = QpType::kRd,
                        .operations = kRdOperations,
                        .takes = kOpOnRd,
                        .acknowledged = true,
                        .waits_for_keys = true,
                        .keep = make_kept<RdLine>,
                        .make = make_service<RdService>};

RdService::RdService(Engine& engine, CellWriter& writer)
    : PacketService(engine, writer),
      engine_(engine),
      writer_(writer),
      placement_(engine, writer),
      contexts_(engine.config.limits.rd_contexts + 1),
      buckets_(std::bit_ceil(contexts_.size())) {
  acks_due_.reset(contexts_.size());
  for (uint32_t i = 0; i < contexts_.size(); ++i) {
    contexts_[i].older = i != 0 ? i - 1 : static_cast<uint32_t>(contexts_.size() - 1);
    contexts_[i].newer = i + 1 < contexts_.size() ? i + 1 : 0;
  }
}

/// True for a free context, and after kRdContextRest without use: no message with its PSNs is in flight then.
bool RdService::may_reuse(const RdContext& context) const noexcept {
  if (context.port == 0) return true;
  if (context.holder != nullptr || context.waiting_first != nullptr || context.ack_due) return false;
  return engine_.now - context.used_at >= kRdContextRest;
}

/// The least recently used context that may be given to another remote; null when there is none. The walk
/// ends at the first context used within kRdContextRest, because all newer ones are too.
RdContext* RdService::reusable() noexcept {
  for (uint32_t i = contexts_[0].newer; i != 0; i = contexts_[i].newer) {
    RdContext& context = contexts_[i];
    if (may_reuse(context)) return &context;
    if (context.port != 0 && engine_.now - context.used_at < kRdContextRest) break;
  }
  return nullptr;
}

void RdService::move_bucket(RdContext& context, Lid remote, uint8_t port) noexcept {
  const uint32_t number = number_of(context);
  if (context.port != 0) {
    uint32_t* link = &bucket_of(context.remote, context.port);
    while (*link != number) link = &contexts_[*link].next_in_bucket;
    *link = context.next_in_bucket;
  }
  context.remote = remote;
  context.port = port;
  uint32_t& first = bucket_of(remote, port);
  context.next_in_bucket = std::exchange(first, number);
}

/// Makes the context the most recently used.
void RdService::use(RdContext& context) noexcept {
  const uint32_t number = number_of(context);
  context.used_at = engine_.now;
  contexts_[context.older].newer = context.newer;
  contexts_[context.newer].older = context.older;
  context.older = std::exchange(contexts_[0].older, number);
  context.newer = 0;
  contexts_[context.older].newer = number;
}

RdContext* RdService::find(Lid remote, uint8_t port) noexcept {
  for (uint32_t i = bucket_of(remote, port); i != 0; i = contexts_[i].next_in_bucket) {
    RdContext& context = contexts_[i];
    if (context.port != port || context.remote != remote) continue;
    use(context);
    return &context;
  }
  RdContext* unused = reusable();
  if (unused == nullptr) {
    engine_.count(AdapterCounter::kDropRdContext);
    return nullptr;
  }
  move_bucket(*unused, remote, port);
  use(*unused);
  unused->expects = false;
  unused->last_code = AckCode::kAck;
  unused->messages_completed = 0;
  unused->next = Psn(static_cast<uint32_t>(engine_.random.next()));
  return unused;
}

bool RdService::acquire(RdContext& context, QueuePair& qp) noexcept {
  if (context.holder == &qp) return true;
  if (context.holder != nullptr) {
    if (line_of(qp).waits()) return false;
    line_of(qp).awaited = &context;
    line_of(qp).next = nullptr;
    (context.waiting_last != nullptr ? line_of(*context.waiting_last).next : context.waiting_first) = &qp;
    context.waiting_last = &qp;
    return false;
  }
  lend(context, qp);
  return true;
}

void RdService::lend(RdContext& context, QueuePair& qp) noexcept {
  context.holder = &qp;
  line_of(qp).held = &context;
  number_packet(context, qp);
}

/// Gives the packet in flight the context's PSN.
void RdService::number_packet(const RdContext& context, QueuePair& qp) noexcept {
  qp.tx.first_psn = Psn(context.next.value() - static_cast<uint32_t>(qp.tx.first & Psn::kMask));
}

/// The PSN of an answered or abandoned message is not used again, so that a late copy never passes for
/// another message.
void RdService::release(RdContext& context) noexcept {
  line_of(*std::exchange(context.holder, nullptr)).held = nullptr;
  context.next = context.next.plus(1);
  QueuePair* next = context.waiting_first;
  if (next == nullptr) return;
  context.waiting_first = line_of(*next).next;
  if (context.waiting_first == nullptr) context.waiting_last = nullptr;
  line_of(*next).awaited = nullptr;
  lend(context, *next);
  engine_.schedule.want_send(*next);
}

void RdService::release_if_idle(QueuePair& qp) noexcept {
  if (qp.tx.first != qp.tx.end) return;
  if (line_of(qp).held != nullptr) release(*line_of(qp).held);
  if (qp.sq.started < qp.sq.rung) engine_.schedule.want_send(qp);
}

void RdService::forget(QueuePair& qp) noexcept {
  if (RdContext* context = std::exchange(line_of(qp).awaited, nullptr); context != nullptr) {
    QueuePair* before = nullptr;
    QueuePair* at = context->waiting_first;
    for (; at != &qp; at = line_of(*at).next) before = at;
    (before != nullptr ? line_of(*before).next : context->waiting_first) = line_of(qp).next;
    if (context->waiting_last == &qp) context->waiting_last = before;
  }
  if (line_of(qp).held != nullptr) release(*line_of(qp).held);
}

uint32_t RdService::run(QueuePair& qp, uint32_t /*budget*/, bool& blocked) noexcept {
  if (line_of(qp).waits() || !engine_.path_ready(qp)) return 0;
  if (qp.tx.first == qp.tx.end) requester_.prepare_packet(qp);
  if (qp.tx.first == qp.tx.end) return 0;
  const SendWqe& wqe = qp.sq.at(qp.tx.at(qp.tx.first).wqe);
  RdContext* context = find(wqe.dest.lid, qp.port);
  if (context == nullptr) {
    completer_.fail_packet(qp, qp.tx.first, {Reason::kNoDatagramContext});
    return 0;
  }
  if (!acquire(*context, qp)) return 0;
  const Lid own = engine_.port_of(qp).lid();
  uint32_t sent = 0;
  if (qp.tx.at(qp.tx.first).sent && context->sent_as != own) {
    // The receiver identifies contexts by LID: with another LID it would execute the message a second time.
    completer_.fail_packet(qp, qp.tx.first, {Reason::kLidChanged});
  } else {
    context->sent_as = own;
    sent = requester_.run(qp, 1, blocked);
  }
  release_if_idle(qp);
  return sent;
}

void RdService::on_timer(QueuePair& qp) noexcept {
  completer_.on_timer(qp);
  release_if_idle(qp);
}

void RdService::fail_oldest(QueuePair& qp, const SendFault& fault) noexcept {
  if (qp.tx.first != qp.tx.end) completer_.fail_packet(qp, qp.tx.first, fault);
}

void RdService::take(QueuePair& qp, const CellView& cell) noexcept {
  const bool acknowledges = (opcode_properties(static_cast<uint8_t>(cell.opcode)) & kOpAcknowledge) != 0;
  return acknowledges ? take_ack(qp, cell) : take_request(qp, cell);
}

void RdService::take_ack(QueuePair& qp, const CellView& cell) noexcept {
  RdContext* context = line_of(qp).held;
  const bool forged = context == nullptr || context->remote != cell.slid ||
                      qp.sq.at(qp.tx.at(qp.tx.first).wqe).dest.qpn != cell.src_qpn;
  if (forged) return engine_.count(AdapterCounter::kDropSource);
  if (cell.ack.code != AckCode::kSequenceError) {
    completer_.take_ack(qp, cell);
    return release_if_idle(qp);
  }
  qp.counters.add(QpCounter::kNaksReceived);
  // A refusal of an older PSN tells nothing of the message in flight, which may have been executed since.
  if (cell.ack.cell_number != static_cast<uint16_t>(context->next.value())) return;
  if (cell.ack.psn == context->next) return;  // refused and expected: no correct peer sends this
  // Late copies of messages from before this end's restart may still arrive with the expected PSN, so skip
  // some.
  context->next = cell.ack.psn.plus(kRdNumbersSkipped);
  number_packet(*context, qp);
  qp.tx.at(qp.tx.first).pending = 1;
  qp.tx.cursor = qp.tx.first;
  engine_.schedule.want_send(qp);
}

void RdService::take_request(QueuePair& qp, const CellView& cell) noexcept {
  RdContext* context = find(cell.slid, qp.port);
  if (context == nullptr) return;
  if (!context->expects) {
    context->expects = true;
    context->expected = cell.psn;
  }
  AckBody body{.psn = cell.psn, .messages_completed = context->messages_completed};
  const int32_t distance = cell.psn.distance_from(context->expected);
  if (distance == -1) {
    qp.counters.add(QpCounter::kDuplicateCells);
    body.code = context->last_code;
  } else if (distance < 0) {
    body.psn = context->expected;
    body.cell_number = static_cast<uint16_t>(cell.psn.value());
    body.code = AckCode::kSequenceError;
  } else {
    const ResponderFault fault = take_message(qp, cell);
    if (fault == ResponderFault::kAwaitsKey) return;  // the message comes again when the key is known
    body.code = answer_of(qp, cell, fault);
    if (body.code == AckCode::kReceiverNotReady) {
      body.cell_number = rnr_code(qp.attr.min_rnr_timer);
    } else {
      context->expected = cell.psn.plus(1);
      context->last_code = body.code;
      if (body.code == AckCode::kAck) ++context->messages_completed;
    }
    body.messages_completed = context->messages_completed;
  }
  answer(*context, qp, cell, body);
}

AckCode RdService::answer_of(QueuePair& qp, const CellView& cell, ResponderFault fault) noexcept {
  if (fault == ResponderFault::kNoRecvWqe) {
    qp.counters.add(QpCounter::kRnrNaksSent);  // the peer repeats the message
  } else if (fault != ResponderFault::kNone) {
    placement_.refuse(qp, cell, fault);
  }
  return fault_rule(fault).nak;
}

/// A message is one cell: it is placed and executed at once, or nothing happens. One exception: data refused
/// for the key that it invalidates has been placed in a receive WQE, which stays for the next message.
ResponderFault RdService::take_message(QueuePair& qp, const CellView& cell) noexcept {
  ResponderFault fault = placement_.check_operation(qp, cell);
  if (fault != ResponderFault::kNone) return fault;
  RxPacket packet;
  begin_packet(packet, cell);
  describe_packet(packet, cell);
  const bool wants_wqe = packet.fills_wqe || (packet.has_imm && qp.config.idata_takes_recv_wqe);
  if (wants_wqe && qp.rq->empty()) return ResponderFault::kNoRecvWqe;
  if (wants_wqe) packet.wqe = qp.rq->next();
  fault = placement_.place(qp, packet, 0, cell.payload);
  if (fault == ResponderFault::kAwaitsKey)
    (void)engine_.several_nics->questions.wait(qp, cell, packet.rkey.value());
  if (fault == ResponderFault::kNone) fault = placement_.finish(qp, packet);
  if (fault != ResponderFault::kNone) return fault;
  if (!packet.fills_wqe && !packet.has_imm) return ResponderFault::kNone;
  if (wants_wqe) (void)engine_.take_recv(qp);
  const bool invalidates = packet.invalidates && packet.has_imm && packet.fills_wqe;
  deliver(engine_, qp,
          {.is_send = packet.fills_wqe,
           .has_imm = packet.has_imm && !invalidates,
           .invalidated = invalidates,
           .solicited = (cell.flags2 & kCell2Solicited) != 0,
           .imm = packet.imm,
           .bytes = cell.payload.size(),
           .va = cell.va,
           .sl = cell.sl,
           .pkey_index = qp.attr.pkey_index,
           .src_lid = cell.slid,
           .src_qpn = cell.src_qpn},
          wants_wqe);
  return ResponderFault::kNone;
}

void RdService::answer(RdContext& context, const QueuePair& qp, const CellView& cell,
                       const AckBody& body) noexcept {
  if (!context.ack_due) acks_due_.push(number_of(context));
  context.ack_due = acks_ready_ = true;
  context.ack = body;
  context.ack_from = qp.qpn;
  context.ack_to = cell.src_qpn;
  context.ack_sl = cell.sl;
  context.ack_pkey = qp.pkey;
}

uint32_t RdService::run_turn() noexcept {
  uint32_t sent = 0;
  acks_ready_ = false;
  for (size_t left = acks_due_.size(); left > 0; --left) {
    const uint32_t number = acks_due_.front();
    RdContext& context = contexts_[number];
    acks_due_.pop();
    acks_due_.push(number);  // behind the others until its answer has left
    AdapterPort& port = *engine_.ports[context.port - 1U];
    if (!port.up() && !port.has(context.remote)) continue;
    const VirtualLane vl = port.lane_of(context.ack_sl);
    const Outlet outlet{&port.way_to(context.remote),
                        make_template(port, {context.remote, context.ack_to, context.ack_from, context.ack_sl,
                                             context.ack_pkey}),
                        vl};
    if (writer_.send_ack(outlet, context.ack, {}) != CellSent::kYes) continue;
    context.ack_due = false;
    acks_due_.pop_back();
    engine_.count_sent(port, 1);
    ++sent;
  }
  return sent;
}

}  // namespace weft::adapter
