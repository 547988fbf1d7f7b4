#include "messages/link_hello.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "messages/cell.h"
#include "messages/flit.h"

namespace weft {
namespace {

constexpr std::array<std::string_view, static_cast<size_t>(LinkRefusal::kCount)> kNames{
    "none",
    "no common version",
    "flit payload differs",
    "cell payload differs",
    "too few credits",
    "lid taken",
    "lid invalid",
    "no free port",
    "node not allowed to join",
    "too many attempts",
    "identity belongs to another",
    "no free lid"};
constexpr std::array<std::string_view, static_cast<size_t>(LinkHelloError::kCount)> kErrorNames{
    "none", "length", "magic", "kind", "reserved", "version", "range"};

constexpr uint16_t kFlagsKnown = kLinkCutThrough | kLinkSwitch | kLinkAnyPort;
constexpr uint16_t kDataLanes = 15;
constexpr uint16_t kCreditsMax = 32767;

/// Checks that fields of version 2 are set only in that version, and only in messages that use them.
bool reserved_is_zero(const LinkHello& hello, uint16_t zero) noexcept {
  const bool any_port = (hello.flags & kLinkAnyPort) != 0;
  if (zero != 0 || (hello.flags & ~kFlagsKnown) != 0) return false;
  if (any_port && hello.kind != LinkMessageKind::kHello) return false;
  const bool welcome = hello.kind == LinkMessageKind::kWelcome && hello.version_max >= kLinkVersionAnyPort;
  if (hello.identity != 0 && !any_port && !welcome) return false;
  return welcome ||
         std::all_of(hello.pkeys.begin(), hello.pkeys.end(), [](uint16_t key) { return key == 0; });
}

LinkHelloError check_ranges(const LinkHello& hello) noexcept {
  if (hello.version_min > hello.version_max || hello.version_min == 0) return LinkHelloError::kVersion;
  if (hello.refusal >= LinkRefusal::kCount) return LinkHelloError::kRange;
  if ((hello.kind == LinkMessageKind::kRefuse) != (hello.refusal != LinkRefusal::kNone))
    return LinkHelloError::kRange;
  if (hello.kind == LinkMessageKind::kRefuse) return LinkHelloError::kNone;
  if (hello.kind == LinkMessageKind::kWelcome && hello.version_min != hello.version_max) {
    return LinkHelloError::kVersion;
  }
  if ((hello.flags & kLinkAnyPort) != 0 && hello.version_min < kLinkVersionAnyPort)
    return LinkHelloError::kVersion;
  const bool fits =
      hello.lanes >= 1 && hello.lanes <= kDataLanes && hello.credits_per_lane >= 1 &&
      hello.credits_per_lane <= kCreditsMax && hello.cell_payload_bytes >= kCellPayloadBytesMin &&
      hello.cell_payload_bytes <= kCellPayloadBytesMax && hello.flit_payload_bytes >= kFlitPayloadBytesMin &&
      hello.flit_payload_bytes <= cell_bytes_max(kCellPayloadBytesMax) && hello.lid.value() <= kLidMax;
  return fits ? LinkHelloError::kNone : LinkHelloError::kRange;
}

}  // namespace

std::string_view to_string(LinkRefusal refusal) noexcept {
  return kNames[static_cast<size_t>(refusal)];
}
std::string_view to_string(LinkHelloError error) noexcept {
  return kErrorNames[static_cast<size_t>(error)];
}

LinkHelloError decode_link_hello(std::span<const std::byte> in, LinkHello& out) noexcept {
  LinkHelloWire wire;
  if (in.size() != sizeof wire) return LinkHelloError::kLength;
  std::memcpy(&wire, in.data(), sizeof wire);
  if (wire.magic.get() != kLinkMagic) return LinkHelloError::kMagic;
  if (wire.kind < static_cast<uint8_t>(LinkMessageKind::kHello) ||
      wire.kind > static_cast<uint8_t>(LinkMessageKind::kRefuse)) {
    return LinkHelloError::kKind;
  }
  LinkHello hello;
  hello.kind = static_cast<LinkMessageKind>(wire.kind);
  hello.refusal = static_cast<LinkRefusal>(wire.refusal);
  hello.version_min = wire.version_min.get();
  hello.version_max = wire.version_max.get();
  hello.lid = Lid(wire.lid.get());
  hello.port = wire.port.get();
  hello.flags = wire.flags.get();
  hello.guid = Guid(wire.guid.get());
  hello.boot_nonce = wire.boot_nonce.get();
  hello.flit_payload_bytes = wire.flit_payload_bytes.get();
  hello.cell_payload_bytes = wire.cell_payload_bytes.get();
  hello.lanes = wire.lanes.get();
  hello.credits_per_lane = wire.credits_per_lane.get();
  hello.subnet = SubnetId(wire.subnet.get());
  hello.identity = wire.identity.get();
  for (size_t i = 0; i < kLinkPkeysMax; ++i) hello.pkeys[i] = wire.pkeys[i].get();
  if (!reserved_is_zero(hello, wire.zero.get())) return LinkHelloError::kReserved;
  const LinkHelloError error = check_ranges(hello);
  if (error == LinkHelloError::kNone) out = hello;
  return error;
}

LinkHelloWire encode_link_hello(const LinkHello& hello) noexcept {
  LinkHelloWire wire{};
  wire.magic.set(kLinkMagic);
  wire.kind = static_cast<uint8_t>(hello.kind);
  wire.refusal = static_cast<uint8_t>(hello.refusal);
  wire.version_min.set(hello.version_min);
  wire.version_max.set(hello.version_max);
  wire.lid.set(hello.lid.value());
  wire.port.set(hello.port);
  wire.flags.set(hello.flags);
  wire.guid.set(hello.guid.value());
  wire.boot_nonce.set(hello.boot_nonce);
  wire.flit_payload_bytes.set(hello.flit_payload_bytes);
  wire.cell_payload_bytes.set(hello.cell_payload_bytes);
  wire.lanes.set(hello.lanes);
  wire.credits_per_lane.set(hello.credits_per_lane);
  wire.subnet.set(hello.subnet.value());
  wire.identity.set(hello.identity);
  for (size_t i = 0; i < kLinkPkeysMax; ++i) wire.pkeys[i].set(hello.pkeys[i]);
  return wire;
}

}  // namespace weft
