#include "messages/window_hello.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace weft {
namespace {

constexpr uint32_t kMagic = 0x574E5442;  // "WNTB"
constexpr uint16_t kVersion = 1;

}  // namespace

WindowHelloFault decode_window_hello(std::span<const std::byte> in, WindowHello& out) noexcept {
  if (in.size() != kWindowHelloBytes) return WindowHelloFault::kLength;
  WindowHelloPacket packet;
  std::memcpy(&packet, in.data(), sizeof packet);
  if (packet.magic.get() != kMagic) return WindowHelloFault::kMagic;
  if (packet.version.get() != kVersion) return WindowHelloFault::kVersion;
  const bool zero = std::all_of(packet.zero.begin(), packet.zero.end(), [](Be64 w) { return w.get() == 0; });
  if (packet.reserved.get() != 0 || !zero) return WindowHelloFault::kReserved;
  const uint64_t bytes = packet.window_bytes.get();
  if (bytes == 0 || bytes > kWindowBytesMax || bytes % 64 != 0) return WindowHelloFault::kSize;
  out = {bytes, packet.probe_address.get(), packet.probe_value.get(), packet.answer_address.get()};
  return WindowHelloFault::kNone;
}

std::array<std::byte, kWindowHelloBytes> encode_window_hello(const WindowHello& hello) noexcept {
  WindowHelloPacket packet{};
  packet.magic.set(kMagic);
  packet.version.set(kVersion);
  packet.window_bytes.set(hello.window_bytes);
  packet.probe_address.set(hello.probe_address);
  packet.probe_value.set(hello.probe_value);
  packet.answer_address.set(hello.answer_address);
  return std::bit_cast<std::array<std::byte, kWindowHelloBytes>>(packet);
}

}  // namespace weft
