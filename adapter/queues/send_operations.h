// adapter/queues/send_operations.h -- what a work request may ask for and needs, as a table: the only list of
// operations. A service chooses from it what its send queues take, and says what that is on the wire
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
  kRead,     // data comes
  kAtomic,   // a word of the peer's is changed, and what it was comes back as the data of a read does
  kMessage,  // data leaves
  kBind,     // the others move no data and are done by the adapter itself
  kUnbind,
  kInvalidate,
  kRegister,
  kDelay,
};

struct SendOpcodeRule {
  SendOpcode opcode;
  SendWork work;
  bool needs_remote_key;   // PUSH-RDMAW-01
  bool needs_remote_addr;  // likewise
  bool has_imm;            // four bytes beside the data: immediate data or the key to invalidate
  bool invalidates;        // those bytes are a key
  WcOpcode completion;
  Opcode wire{};  // of the service; not used where no data moves

  /// Needs data segments (C-34).
  [[nodiscard]] constexpr bool moves_data() const noexcept { return work <= SendWork::kMessage; }
  /// Data comes back.
  [[nodiscard]] constexpr bool is_read() const noexcept { return work <= SendWork::kAtomic; }
  [[nodiscard]] constexpr bool is_atomic() const noexcept { return work == SendWork::kAtomic; }
};

inline constexpr std::array kSendOpcodes = [] {
  using S = SendOpcode;
  using W = SendWork;
  using C = WcOpcode;
  return std::array{
      // operation, work, remote key, remote address, 4 bytes beside, a key, completion
      SendOpcodeRule{S::kRdmaWrite, W::kMessage, true, true, false, false, C::kRdmaWrite},
      SendOpcodeRule{S::kRdmaWriteWithImm, W::kMessage, true, true, true, false, C::kRdmaWrite},
      SendOpcodeRule{S::kSend, W::kMessage, false, false, false, false, C::kSend},
      SendOpcodeRule{S::kSendWithImm, W::kMessage, false, false, true, false, C::kSend},
      SendOpcodeRule{S::kSendWithInvalidate, W::kMessage, true, false, true, true, C::kSend},
      SendOpcodeRule{S::kRdmaRead, W::kRead, true, true, false, false, C::kRdmaRead},
      SendOpcodeRule{S::kCompareSwap, W::kAtomic, true, true, false, false, C::kCompareSwap},
      SendOpcodeRule{S::kFetchAdd, W::kAtomic, true, true, false, false, C::kFetchAdd},
      SendOpcodeRule{S::kLocalInvalidate, W::kInvalidate, false, false, false, false, C::kLocalInvalidate},
      SendOpcodeRule{S::kBindWindow, W::kBind, false, false, false, false, C::kBindWindow},
      SendOpcodeRule{S::kUnbindWindow, W::kUnbind, false, false, false, false, C::kBindWindow},
      SendOpcodeRule{S::kRegister, W::kRegister, false, false, false, false, C::kRegister},
      SendOpcodeRule{S::kDelay, W::kDelay, false, false, false, false, C::kDelay},
  };
}();

/// An operation that a service has, and what it is on the wire.
struct OfferedOperation {
  SendOpcode opcode;
  Opcode wire = Opcode{};
};

/// The rules of a service's operations. A post looks for its own from the front: what is asked for most
/// stands first.
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
