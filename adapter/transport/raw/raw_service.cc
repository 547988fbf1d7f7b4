#include "adapter/transport/raw/raw_service.h"

#include <array>

namespace weft::adapter {
namespace {

constexpr std::array kRawOperations = offer({{SendOpcode::kSend, Opcode::kRaw}, {SendOpcode::kDelay}});

}  // namespace

const ServiceRow kRawRow{.type = QpType::kRaw,
                         .states_like = QpType::kRaw,
                         .operations = kRawOperations,
                         .takes = kOpOnRaw,
                         .takes_raw_frames = true,
                         .is_paced = true,
                         .make = make_service<RawService>};

void RawService::take(QueuePair& qp, const CellView& cell) noexcept {
  responder_.take_datagram(qp, cell);
}

}  // namespace weft::adapter
