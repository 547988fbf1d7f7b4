#include "messages/window_call.h"

#include <bit>
#include <cstring>

namespace weft {
namespace {

constexpr uint32_t kCallMagic = 0x5743414C;  // "WCAL"
constexpr uint16_t kCallVersion = 1;

[[nodiscard]] bool is_unicast(uint16_t lid) noexcept {
  return lid != 0 && lid <= kLidMax;
}

}  // namespace

WindowCallFault decode_window_call(std::span<const std::byte> in, WindowCall& out) noexcept {
  if (in.size() != kWindowCallBytes) return WindowCallFault::kLength;
  WindowCallPacket packet;
  std::memcpy(&packet, in.data(), sizeof packet);
  if (packet.magic.get() != kCallMagic) return WindowCallFault::kMagic;
  if (packet.version.get() != kCallVersion) return WindowCallFault::kVersion;
  if (packet.reserved.get() != 0) return WindowCallFault::kReserved;
  if (!is_unicast(packet.from.get()) || !is_unicast(packet.to.get())) return WindowCallFault::kLid;
  out = {SubnetId(packet.subnet.get()), Lid(packet.from.get()), Lid(packet.to.get())};
  return WindowCallFault::kNone;
}

std::array<std::byte, kWindowCallBytes> encode_window_call(const WindowCall& call) noexcept {
  WindowCallPacket packet{};
  packet.magic.set(kCallMagic);
  packet.version.set(kCallVersion);
  packet.subnet.set(call.subnet.value());
  packet.from.set(call.from.value());
  packet.to.set(call.to.value());
  return std::bit_cast<std::array<std::byte, kWindowCallBytes>>(packet);
}

}  // namespace weft
