#include "adapter/transport/reliable/reliable_service.h"

#include <array>

namespace weft::adapter {
namespace {

using S = SendOpcode;

/// The operations of an XRC initiator: those of RC, with the number of a shared receive queue.
constexpr std::array kXrcOperations = offer({{S::kRdmaWrite, Opcode::kXrcWrite},
                                             {S::kSend, Opcode::kXrcSend},
                                             {S::kRdmaRead, Opcode::kXrcReadRequest},
                                             {S::kRdmaWriteWithImm, Opcode::kXrcWrite},
                                             {S::kSendWithImm, Opcode::kXrcSend},
                                             {S::kSendWithInvalidate, Opcode::kXrcSend},
                                             {S::kCompareSwap, Opcode::kXrcFetchOpRequest},
                                             {S::kFetchAdd, Opcode::kXrcFetchOpRequest},
                                             {S::kLocalInvalidate},
                                             {S::kBindWindow},
                                             {S::kUnbindWindow},
                                             {S::kRegister},
                                             {S::kDelay}});

}  // namespace

const ServiceRow kRcRow{.type = QpType::kRc,
                        .states_like = QpType::kRc,
                        .operations = kRcOperations,
                        .takes = kOpOnRc,
                        .send_window = kPacketWindow,
                        .receive_window = kPacketWindow,
                        .acknowledged = true,
                        .connected = true,
                        .has_packet_crc = true,
                        .finds_ways = true,
                        .waits_for_keys = true,
                        .make = make_service<ReliableService>};
const ServiceRow kXrcSendRow{.type = QpType::kXrcSend,
                             .states_like = QpType::kXrcSend,
                             .operations = kXrcOperations,
                             .send_window = kPacketWindow,
                             .acknowledged = true,
                             .connected = true,
                             .has_recv_queue = false,
                             .names_srq = true,
                             .waits_for_keys = true,
                             .make = make_service<ReliableService>};
const ServiceRow kXrcRecvRow{.type = QpType::kXrcRecv,
                             .states_like = QpType::kXrcRecv,
                             .takes = kOpOnXrc,
                             .receive_window = kPacketWindow,
                             .acknowledged = true,
                             .connected = true,
                             .has_send_queue = false,
                             .has_recv_queue = false,
                             .serves_domain = true,
                             .waits_for_keys = true,
                             .make = make_service<ReliableService>};

void ReliableService::take(QueuePair& qp, const CellView& cell) noexcept {
  engine_.keep_path(qp);  // placing data needs the segment size
  if (qp.other_cells) [[unlikely]]
    return engine_.count(AdapterCounter::kDropQpState);
  const uint32_t properties = opcode_properties(static_cast<uint8_t>(cell.opcode));
  const bool answers = (properties & (kOpAcknowledge | kOpResponse)) != 0;
  if (qp.row != &kRcRow && answers != (qp.row == &kXrcSendRow)) [[unlikely]]
    return engine_.count(AdapterCounter::kDropService);
  if ((properties & kOpAcknowledge) != 0) return completer_.take_ack(qp, cell);
  if ((properties & kOpResponse) != 0) return completer_.take_read_response(qp, cell);
  return responder_.take_request(qp, cell);
}

uint32_t ReliableService::run(QueuePair& qp, uint32_t budget, bool& blocked) noexcept {
  uint32_t sent = 0;
  if (qp.answers) sent = responder_.send_reads(qp, budget, blocked);
  if (!blocked && sent < budget) sent += requester_.run(qp, budget - sent, blocked);
  return sent;
}

namespace {

/// The last ACK of a QP cannot be repeated later. If one cell in a hundred is lost, all four copies are lost
/// once in 10^8.
constexpr int kLastWordsRepeated = 4;

/// Cells between this QP and its peer have been lost.
bool has_lost_cells(const QueuePair& qp) noexcept {
  const auto seen = [&](QpCounter counter) { return qp.counters.get(counter) != 0; };
  return seen(QpCounter::kGapsSeen) || seen(QpCounter::kDuplicateCells) || seen(QpCounter::kCellsRepeated);
}

}  // namespace

/// Sends the ACK that a QP still owes when it ends. Without it the peer would repeat in vain and its user
/// would get an error, because programs end a QP as soon as they have the last message. If cells get lost on
/// the way, the ACK goes several times, and so does one that was sent before: no QP will be left to repeat
/// it.
void ReliableService::say_last_words(QueuePair& qp) noexcept {
  if (!qp.serves_window() || !qp.abilities().receive) return;
  const bool executed = qp.rx.expected != qp.attr.rq_psn;  // in this life; the counters are of all lives
  const bool insists = executed && qp.counters.get(QpCounter::kAcksSent) != 0 && has_lost_cells(qp);
  if (!qp.rx.debt.due() && !insists) return;
  bool done = false;
  for (int time = 0; time < (insists ? kLastWordsRepeated : 1); ++time) {
    qp.rx.debt.want(true, engine_.now);
    acknowledger_.run(qp, done);
  }
  if (done) AckList::unlink(qp);
}

void ReliableService::fail_oldest(QueuePair& qp, const SendFault& fault) noexcept {
  if (qp.tx.first != qp.tx.end) completer_.fail_packet(qp, qp.tx.first, fault);
}

}  // namespace weft::adapter
