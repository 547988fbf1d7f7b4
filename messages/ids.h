// messages/ids.h -- the identifiers of the fabric. Each is a type of its own (house style 8).
#pragma once

#include <cstdint>

#include "base/strong_id.h"

namespace weft {

/// Local identifier of a port within its subnet, 1..0xFFFE; 0 and 0xFFFF are reserved (SAN-ADDR-02, O-12).
using Lid = StrongId<struct LidTag, uint16_t>;
/// Subnet number, upper half of a port address (C-12).
using SubnetId = StrongId<struct SubnetTag, uint16_t>;
/// 64-bit name of an adapter or switch, unique in the fabric (SAN-ADDR-01).
using Guid = StrongId<struct GuidTag, uint64_t>;
/// QP number, 24 bits. 0 and 1 are the management QPs of each port.
using Qpn = StrongId<struct QpnTag, uint32_t>;
/// Remote key, which a peer presents to access memory (RKey = MH = STag, LAY-STAG). 0 is never valid.
using Rkey = StrongId<struct RkeyTag, uint32_t>;
/// Local key, which a work request presents for local memory. Never equal to the region's RKey (decisions
/// 1.4).
using Lkey = StrongId<struct LkeyTag, uint32_t>;
/// Lane of a link, 0..15; 15 is management.
using VirtualLane = StrongId<struct VirtualLaneTag, uint8_t>;
/// Service level, 0..15; mapped to a lane at the source, never changed on the way (decisions 1.15).
using ServiceLevel = StrongId<struct ServiceLevelTag, uint8_t>;

inline constexpr Lid kLidNone{0};
inline constexpr uint16_t kLidMax = 0xFFFE;
inline constexpr uint32_t kQpnMask = 0x00FF'FFFF;
inline constexpr Qpn kQpnSmi{0};
inline constexpr Qpn kQpnGsi{1};
/// True for QP0 and QP1, which every port has for itself.
[[nodiscard]] constexpr bool is_management(Qpn qpn) noexcept {
  return qpn.value() <= kQpnGsi.value();
}
/// The partition of which every port is a full member. The top bit of a P_Key means full member. Two nodes
/// may communicate if the other bits are equal and not zero, and at least one node is a full member.
inline constexpr uint16_t kPkeyDefault = 0xFFFF;
inline constexpr uint16_t kPkeyFullMember = 0x8000;
[[nodiscard]] constexpr bool pkeys_match(uint16_t a, uint16_t b) noexcept {
  return ((a ^ b) & 0x7FFF) == 0 && ((a | b) & kPkeyFullMember) != 0 && (a & 0x7FFF) != 0;
}
inline constexpr uint8_t kVlCount = 16;
inline constexpr VirtualLane kVlManagement{15};
/// The lane's bit in a set of lanes.
[[nodiscard]] constexpr uint32_t lane_bit(VirtualLane vl) noexcept {
  return 1U << vl.value();
}

/// Packet sequence number of 24 bits, which wraps. The order of two numbers is defined within half the space.
class Psn {
 public:
  static constexpr uint32_t kMask = 0x00FF'FFFF;
  constexpr Psn() = default;
  constexpr explicit Psn(uint32_t value) noexcept : value_(value & kMask) {}
  [[nodiscard]] constexpr uint32_t value() const noexcept { return value_; }
  /// Signed distance from `from` to *this, -2^23 .. 2^23 - 1.
  [[nodiscard]] constexpr int32_t distance_from(Psn from) const noexcept {
    return static_cast<int32_t>((value_ - from.value_) << 8) >> 8;
  }
  [[nodiscard]] constexpr bool before(Psn other) const noexcept { return distance_from(other) < 0; }
  [[nodiscard]] constexpr Psn plus(uint32_t steps) const noexcept { return Psn(value_ + steps); }
  friend constexpr bool operator==(Psn, Psn) = default;

 private:
  uint32_t value_ = 0;
};

}  // namespace weft
