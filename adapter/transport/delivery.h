// adapter/transport/delivery.h -- the completion of a received message, common to all services.
#pragma once

#include <cstdint>

#include "adapter/adapter_engine.h"

namespace weft::adapter {

struct Delivery {
  bool is_send = true;
  bool has_imm = false;
  bool invalidated = false;
  bool solicited = false;
  uint32_t imm = 0;
  uint64_t bytes = 0;
  uint64_t va = 0;
  bool grh = false;
  ServiceLevel sl{};
  uint16_t pkey_index = 0;
  Lid src_lid{};
  Qpn src_qpn{};
};
/// Makes the completion of a message. `with_wqe`: ends the oldest receive WQE that a message has taken.
void deliver(Engine& engine, QueuePair& qp, const Delivery& message, bool with_wqe) noexcept;

}  // namespace weft::adapter
