// messages/window_order.h -- faults on demand for the memory windows of a program: what `weft fault` sends to
// the socket at which the program meets its peers (messages/window_call.h), and the answer. docs/faults.md,
// "Memory windows".
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/endian.h"
#include "messages/fault_rule.h"

namespace weft {

inline constexpr size_t kWindowOrderBytes = 88;
/// Of a reply: rules, and bytes of the text that refuses an order.
inline constexpr size_t kWindowOrderRulesMax = 16;
inline constexpr size_t kWindowOrderTextMax = 256;

enum class WindowOrderAction : uint8_t { kAdd = 1, kClear = 2, kList = 3 };

/// An order, and a rule of a reply. Times in nanoseconds.
struct WindowOrderPacket {
  Be32 magic;
  Be16 version;
  uint8_t action;
  uint8_t kind;  // FaultKind
  Be32 id;       // of the rule: kClear, where 0 means all; in a reply
  uint8_t direction;
  uint8_t opcode;
  Be16 reserved;
  Be32 chance_ppm;
  Be32 every;
  Be64 limit;
  Be64 lasts;
  Be64 delay_min;
  Be64 delay_max;
  Be64 up;
  Be64 down;
  Be64 seed;
  Be32 lanes;
  Be32 reserved_too;
};
static_assert(sizeof(WindowOrderPacket) == kWindowOrderBytes && alignof(WindowOrderPacket) == 1);
static_assert(offsetof(WindowOrderPacket, action) == 6 && offsetof(WindowOrderPacket, kind) == 7 &&
              offsetof(WindowOrderPacket, id) == 8 && offsetof(WindowOrderPacket, direction) == 12 &&
              offsetof(WindowOrderPacket, opcode) == 13 && offsetof(WindowOrderPacket, chance_ppm) == 16 &&
              offsetof(WindowOrderPacket, every) == 20 && offsetof(WindowOrderPacket, limit) == 24 &&
              offsetof(WindowOrderPacket, lasts) == 32 && offsetof(WindowOrderPacket, delay_min) == 40 &&
              offsetof(WindowOrderPacket, delay_max) == 48 && offsetof(WindowOrderPacket, up) == 56 &&
              offsetof(WindowOrderPacket, down) == 64 && offsetof(WindowOrderPacket, seed) == 72 &&
              offsetof(WindowOrderPacket, lanes) == 80);

struct WindowOrder {
  WindowOrderAction action = WindowOrderAction::kList;
  uint32_t id = 0;   // kClear: of the rule; 0: all
  FaultRule rule{};  // kAdd; `port` and `guid` do not travel
};

/// A rule in force.
struct WindowFaultState {
  uint32_t id = 0;
  FaultRule rule;
  uint64_t matched = 0;  // DMA requests
  uint64_t struck = 0;
  Duration left{};  // of a rule with a duration; 0: it is over, or lasts until it is cleared
};

struct WindowOrderReply {
  std::string error{};                    // why the order was refused; empty: it was not
  std::vector<WindowFaultState> rules{};  // in force afterwards, in the order in which they were set
};

[[nodiscard]] std::array<std::byte, kWindowOrderBytes> encode_window_order(const WindowOrder& order) noexcept;
/// Nothing for anything but an order: wrong length, magic, version, action, kind, direction, reserved field,
/// or a time above 2^62 ns.
[[nodiscard]] std::optional<WindowOrder> decode_window_order(std::span<const std::byte> in) noexcept;
/// Longer texts are cut; rules beyond kWindowOrderRulesMax are left out.
[[nodiscard]] std::vector<std::byte> encode_window_order_reply(const WindowOrderReply& reply);
[[nodiscard]] std::optional<WindowOrderReply> decode_window_order_reply(std::span<const std::byte> in);

}  // namespace weft
