// messages/window_hello.h -- the one packet with which two processes make a memory window: it comes over a
// Unix socket, with the sealed memfd of its sender. docs/window.md.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/endian.h"

namespace weft {

inline constexpr size_t kWindowHelloBytes = 64;

struct WindowHelloPacket {
  Be32 magic;
  Be16 version;
  Be16 reserved;
  Be64 window_bytes;   // of the sender's window memory
  Be64 probe_address;  // of a word in the sender's process, which holds:
  Be64 probe_value;
  Be64 answer_address;  // of a word in the sender's process, for the receiver to write
  std::array<Be64, 3> zero;
};
static_assert(sizeof(WindowHelloPacket) == kWindowHelloBytes && alignof(WindowHelloPacket) == 1);
static_assert(offsetof(WindowHelloPacket, version) == 4 && offsetof(WindowHelloPacket, reserved) == 6 &&
              offsetof(WindowHelloPacket, window_bytes) == 8 &&
              offsetof(WindowHelloPacket, probe_address) == 16 &&
              offsetof(WindowHelloPacket, probe_value) == 24 &&
              offsetof(WindowHelloPacket, answer_address) == 32 && offsetof(WindowHelloPacket, zero) == 40);

struct WindowHello {
  uint64_t window_bytes = 0;
  uint64_t probe_address = 0;
  uint64_t probe_value = 0;
  uint64_t answer_address = 0;
};
/// A receiver maps as much as a hello says, and pays for it: some twenty times what a program's windows have.
inline constexpr uint64_t kWindowBytesMax = uint64_t{16} << 20;

enum class WindowHelloFault : uint8_t { kNone, kLength, kMagic, kVersion, kReserved, kSize };
/// `out` is set on kNone only. Window memory is 64 bytes to kWindowBytesMax, a multiple of 64.
[[nodiscard]] WindowHelloFault decode_window_hello(std::span<const std::byte> in, WindowHello& out) noexcept;
[[nodiscard]] std::array<std::byte, kWindowHelloBytes> encode_window_hello(const WindowHello& hello) noexcept;

}  // namespace weft
