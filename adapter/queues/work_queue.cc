#include "adapter/queues/work_queue.h"

#include <array>
#include <bit>

#include "adapter/queues/qp_rules.h"

namespace weft::adapter {
namespace {

constexpr uint16_t kRc = service_bit(QpType::kRc);
constexpr uint16_t kXrc = service_bit(QpType::kXrcSend);  // a target sends nothing
constexpr uint16_t kConnected = kRc | service_bit(QpType::kUc) | kXrc;
constexpr uint16_t kReliable = kRc | service_bit(QpType::kRd) | kXrc;
constexpr uint16_t kOneSided = kRc | kXrc;
constexpr uint16_t kMemory = kConnected | service_bit(QpType::kRd);
constexpr uint16_t kDatagram = service_bit(QpType::kUd) | service_bit(QpType::kRaw);
constexpr uint16_t kAll = kMemory | kDatagram;

using S = SendOpcode;
using W = SendWork;

constexpr std::array kSendOpcodes{
    // operation, services, work, remote key, remote address, 4 bytes beside, a key, on the wire, completion
    SendOpcodeRule{S::kRdmaWrite, kMemory, W::kMessage, true, true, false, false, Opcode::kRdmaWrite,
                   WcOpcode::kRdmaWrite},
    SendOpcodeRule{S::kRdmaWriteWithImm, kMemory, W::kMessage, true, true, true, false, Opcode::kRdmaWrite,
                   WcOpcode::kRdmaWrite},
    SendOpcodeRule{S::kSend, kAll, W::kMessage, false, false, false, false, Opcode::kSend, WcOpcode::kSend},
    SendOpcodeRule{S::kSendWithImm, kMemory | service_bit(QpType::kUd), W::kMessage, false, false, true,
                   false, Opcode::kSend, WcOpcode::kSend},
    SendOpcodeRule{S::kSendWithInvalidate, kReliable, W::kMessage, true, false, true, true, Opcode::kSend,
                   WcOpcode::kSend},
    SendOpcodeRule{S::kRdmaRead, kOneSided, W::kRead, true, true, false, false, Opcode::kRdmaReadRequest,
                   WcOpcode::kRdmaRead},
    SendOpcodeRule{S::kLocalInvalidate, kMemory, W::kInvalidate, false, false, false, false, Opcode::kSend,
                   WcOpcode::kLocalInvalidate},
    SendOpcodeRule{S::kBindWindow, kMemory, W::kBind, false, false, false, false, Opcode::kSend,
                   WcOpcode::kBindWindow},
    SendOpcodeRule{S::kUnbindWindow, kMemory, W::kUnbind, false, false, false, false, Opcode::kSend,
                   WcOpcode::kBindWindow},
    SendOpcodeRule{S::kRegister, kConnected, W::kRegister, false, false, false, false, Opcode::kSend,
                   WcOpcode::kRegister},
    SendOpcodeRule{S::kDelay, kAll, W::kDelay, false, false, false, false, Opcode::kSend, WcOpcode::kDelay},
    SendOpcodeRule{S::kCompareSwap, kOneSided, W::kRead, true, true, false, false, Opcode::kFetchOpRequest,
                   WcOpcode::kCompareSwap},
    SendOpcodeRule{S::kFetchAdd, kOneSided, W::kRead, true, true, false, false, Opcode::kFetchOpRequest,
                   WcOpcode::kFetchAdd},
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

}  // namespace weft::adapter
