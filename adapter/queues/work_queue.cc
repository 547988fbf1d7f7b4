#include "adapter/queues/work_queue.h"

#include <array>
#include <bit>

#include "adapter/queues/qp_rules.h"

namespace weft::adapter {
namespace {

constexpr uint16_t kRc = service_bit(QpType::kRc);
constexpr uint16_t kConnected = kRc | service_bit(QpType::kUc);
constexpr uint16_t kReliable = kRc | service_bit(QpType::kRd);
constexpr uint16_t kMemory = kConnected | service_bit(QpType::kRd);
constexpr uint16_t kDatagram = service_bit(QpType::kUd) | service_bit(QpType::kRaw);
constexpr uint16_t kAll = kMemory | kDatagram;

constexpr std::array kSendOpcodes{
    //                opcode                          services    data   key    imm    completion
    SendOpcodeRule{SendOpcode::kRdmaWrite, kMemory, true, true, false, Opcode::kRdmaWrite,
                   WcOpcode::kRdmaWrite},
    SendOpcodeRule{SendOpcode::kRdmaWriteWithImm, kMemory, true, true, true, Opcode::kRdmaWrite,
                   WcOpcode::kRdmaWrite},
    SendOpcodeRule{SendOpcode::kSend, kAll, true, false, false, Opcode::kSend, WcOpcode::kSend},
    SendOpcodeRule{SendOpcode::kSendWithImm, kMemory | service_bit(QpType::kUd), true, false, true,
                   Opcode::kSend, WcOpcode::kSend},
    SendOpcodeRule{SendOpcode::kRdmaRead, kRc, true, true, false, Opcode::kRdmaReadRequest,
                   WcOpcode::kRdmaRead},
    SendOpcodeRule{SendOpcode::kLocalInvalidate, kMemory, false, false, false, Opcode::kSend,
                   WcOpcode::kLocalInvalidate},
    SendOpcodeRule{SendOpcode::kBindWindow, kMemory, false, false, false, Opcode::kSend,
                   WcOpcode::kBindWindow},
    SendOpcodeRule{SendOpcode::kUnbindWindow, kMemory, false, false, false, Opcode::kSend,
                   WcOpcode::kBindWindow},
    SendOpcodeRule{SendOpcode::kSendWithInvalidate, kReliable, true, true, true, Opcode::kSend,
                   WcOpcode::kSend},
    SendOpcodeRule{SendOpcode::kDelay, kAll, false, false, false, Opcode::kSend, WcOpcode::kDelay},
    // No service offers these yet: posting them is refused as kBadOpcode.
    SendOpcodeRule{SendOpcode::kCompareSwap, 0, true, true, false, Opcode::kFetchOpRequest,
                   WcOpcode::kCompareSwap},
    SendOpcodeRule{SendOpcode::kFetchAdd, 0, true, true, false, Opcode::kFetchOpRequest, WcOpcode::kFetchAdd},
};

}  // namespace

const SendOpcodeRule* find_send_opcode(SendOpcode opcode) noexcept {
  for (const SendOpcodeRule& rule : kSendOpcodes) {
    if (rule.opcode == opcode) return &rule;
  }
  return nullptr;
}

SendQueue::SendQueue(uint32_t wqes, uint32_t sges, uint32_t inline_bytes)
    : wqes_(wqes),
      mask_(std::bit_ceil(wqes) - 1),
      sges_per_wqe_(sges),
      inline_bytes_(inline_bytes),
      slots_(std::make_unique<SendWqe[]>(mask_ + 1)),
      sges_(std::make_unique<Sge[]>(size_t{mask_ + 1} * sges)),
      inline_(std::make_unique_for_overwrite<std::byte[]>(size_t{mask_ + 1} * inline_bytes)) {}

RecvQueue::RecvQueue(uint32_t wqes, uint32_t sges)
    : wqes_(wqes),
      mask_(std::bit_ceil(wqes) - 1),
      sges_per_wqe_(sges),
      slots_(std::make_unique<RecvWqe[]>(mask_ + 1)),
      sges_(std::make_unique<Sge[]>(size_t{mask_ + 1} * sges)) {}

}  // namespace weft::adapter
