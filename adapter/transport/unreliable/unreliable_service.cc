#include "adapter/transport/unreliable/unreliable_service.h"

#include <array>

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

}  // namespace weft::adapter
