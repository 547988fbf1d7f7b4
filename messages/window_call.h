// messages/window_call.h -- the first packet over the Unix socket of two processes that make a memory window:
// who calls whom. The hello of the window (window_hello.h) follows. docs/window.md.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/endian.h"
#include "messages/ids.h"

namespace weft {

inline constexpr size_t kWindowCallBytes = 16;

struct WindowCallPacket {
  Be32 magic;
  Be16 version;
  Be16 subnet;
  Be16 from;  // LID of the sender
  Be16 to;    // LID that the sender wants to reach
  Be32 reserved;
};
static_assert(sizeof(WindowCallPacket) == kWindowCallBytes && alignof(WindowCallPacket) == 1);
static_assert(offsetof(WindowCallPacket, version) == 4 && offsetof(WindowCallPacket, subnet) == 6 &&
              offsetof(WindowCallPacket, from) == 8 && offsetof(WindowCallPacket, to) == 10 &&
              offsetof(WindowCallPacket, reserved) == 12);

struct WindowCall {
  SubnetId subnet{};
  Lid from{};
  Lid to{};
};

enum class WindowCallFault : uint8_t { kNone, kLength, kMagic, kVersion, kReserved, kLid };
/// `out` is set on kNone only. Both LIDs are unicast.
[[nodiscard]] WindowCallFault decode_window_call(std::span<const std::byte> in, WindowCall& out) noexcept;
[[nodiscard]] std::array<std::byte, kWindowCallBytes> encode_window_call(const WindowCall& call) noexcept;

}  // namespace weft
