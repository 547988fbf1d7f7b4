// adapter/queues/send_operations.h -- the table of all send operations: what each needs and does. A service
// selects the operations that its send queues accept, and their opcodes on the wire
// (adapter/transport/service.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "adapter/verbs.h"
#include "messages/opcode.h"

namespace weft::adapter {

/// What a work request makes the adapter do.
enum class SendWork : uint8_t {
  kRead,     // data comes from the peer
  kAtomic,   // changes a word of the peer; the old value returns like the data of a read
  kMessage,  // data goes to the peer
  kBind,     // this and the following move no data; the adapter executes them itself
  kUnbind,
  kInvalidate,
  kRegister,
  kDelay,
};

struct SendOpcodeRule {
  SendOpcode opcode;
  SendWork work;
  bool needs_remote_key;   // PUSH-RDMAW-01
  bool needs_remote_addr;  // PUSH-RDMAW-01
  bool has_imm;            // four more bytes in the cell: immediate data or the key to invalidate
  bool invalidates;        // these four bytes are a key
  WcOpcode completion;
  Opcode wire{};  // set by the service; not used for an operation that moves no data

  /// Needs data segments (C-34).
  [[nodiscard]] constexpr bool moves_data() const noexcept { return work <= SendWork::kMessage; }
  /// The response carries data.
  [[nodiscard]] constexpr bool is_read() const noexcept { return work <= SendWork::kAtomic; }
  [[nodiscard]] constexpr bool is_atomic() const noexcept { return work == SendWork::kAtomic; }
};

inline constexpr std::array kSendOpcodes = [] {
  using Code = SendOpcode;
  using W = SendWork;
  using C = WcOpcode;
  return std::array{
      // operation, work, remote key, remote address, four bytes, a key, completion
      SendOpcodeRule{Code::kRdmaWrite, W::kMessage, true, true, false, false, C::kRdmaWrite},
      SendOpcodeRule{Code::kRdmaWriteWithImm, W::kMessage, true, true, true, false, C::kRdmaWrite},
      SendOpcodeRule{Code::kSend, W::kMessage, false, false, false, false, C::kSend},
      SendOpcodeRule{Code::kSendWithImm, W::kMessage, false, false, true, false, C::kSend},
      SendOpcodeRule{Code::kSendWithInvalidate, W::kMessage, true, false, true, true, C::kSend},
      SendOpcodeRule{Code::kRdmaRead, W::kRead, true, true, false, false, C::kRdmaRead},
      SendOpcodeRule{Code::kCompareSwap, W::kAtomic, true, true, false, false, C::kCompareSwap},
      SendOpcodeRule{Code::kFetchAdd, W::kAtomic, true, true, false, false, C::kFetchAdd},
      SendOpcodeRule{Code::kLocalInvalidate, W::kInvalidate, false, false, false, false, C::kLocalInvalidate},
      SendOpcodeRule{Code::kBindWindow, W::kBind, false, false, false, false, C::kBindWindow},
      SendOpcodeRule{Code::kUnbindWindow, W::kUnbind, false, false, false, false, C::kBindWindow},
      SendOpcodeRule{Code::kRegister, W::kRegister, false, false, false, false, C::kRegister},
      SendOpcodeRule{Code::kDelay, W::kDelay, false, false, false, false, C::kDelay},
  };
}();

/// An operation of a service with its opcode on the wire.
struct OfferedOperation {
  SendOpcode opcode;
  Opcode wire = Opcode{};
};

/// The rules of a service's operations. A post searches them from the front, so the most frequent operations
/// stand first.
template <size_t kCount>
[[nodiscard]] constexpr std::array<SendOpcodeRule, kCount> offer(const OfferedOperation (&offered)[kCount]) {
  std::array<SendOpcodeRule, kCount> rules{};
  for (size_t i = 0; i < kCount; ++i) {
    for (const SendOpcodeRule& rule : kSendOpcodes) {
      if (rule.opcode == offered[i].opcode) rules[i] = rule;
    }
    rules[i].wire = offered[i].wire;
  }
  return rules;
}

}  // namespace weft::adapter
