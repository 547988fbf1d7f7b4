#include "adapter/transport/unreliable/unreliable_service.h"

#include <array>

#include "adapter/transport/datagram_ways.h"

namespace weft::adapter {
namespace {

using S = SendOpcode;

constexpr std::array kUcOperations = offer({{S::kRdmaWrite, Opcode::kRdmaWrite},
                                            {S::kSend, Opcode::kSend},
                                            {S::kRdmaWriteWithImm, Opcode::kRdmaWrite},
                                            {S::kSendWithImm, Opcode::kSend},
                                            {S::kLocalInvalidate},
                                            {S::kBindWindow},
                                            {S::kUnbindWindow},
                                            {S::kRegister},
                                            {S::kDelay}});
constexpr std::array kUdOperations =
    offer({{S::kSend, Opcode::kUdSend}, {S::kSendWithImm, Opcode::kUdSend}, {S::kDelay}});

}  // namespace

const ServiceRow kUcRow{.type = QpType::kUc,
                        .states_like = QpType::kUc,
                        .operations = kUcOperations,
                        .takes = kOpOnUc,
                        .receive_window = 1,
                        .connected = true,
                        .has_packet_crc = true,
                        .waits_for_keys = true,
                        .make = make_service<UnreliableService>};
const ServiceRow kUdRow{.type = QpType::kUd,
                        .states_like = QpType::kUd,
                        .operations = kUdOperations,
                        .takes = kOpOnUd,
                        .has_grh_space = true,
                        .joins_groups = true,
                        .make = make_service<UnreliableService>};

void UnreliableService::take(QueuePair& qp, const CellView& cell) noexcept {
  if (!qp.connected()) return responder_.take_datagram(qp, cell);
  (void)engine_.path_ready(qp);
  responder_.take_connected(qp, cell);
}

uint32_t UnreliableService::run(QueuePair& qp, uint32_t budget, bool& blocked) noexcept {
  const uint32_t sent = PacketService::run(qp, budget, blocked);
  if (engine_.datagram_ways != nullptr) [[unlikely]]
    engine_.datagram_ways->ran(qp, blocked);
  return sent;
}

bool UnreliableService::has_work(const QueuePair& qp) const noexcept {
  const bool waits = engine_.datagram_ways != nullptr && engine_.datagram_ways->waits(qp);
  return !waits && PacketService::has_work(qp);
}

void UnreliableService::forget(QueuePair& qp) noexcept {
  if (engine_.datagram_ways != nullptr && !qp.connected()) engine_.datagram_ways->forget(qp);
}

}  // namespace weft::adapter
