// messages/cfg_data.h -- the data of CfgUtil requests and replies (decisions 2.20). All integers are
// big-endian. Each decode_* checks length and values and sets `out` only on success.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/net/frame_port.h"

namespace weft {

inline constexpr uint32_t kMulticastFiltersMax = 64;

/// Reply to "read statistics": what the NIC moved for one session. "In" is from the LAN to the host.
struct NicStatistics {
  uint64_t frames_in = 0;
  uint64_t bytes_in = 0;
  uint64_t frames_out = 0;
  uint64_t bytes_out = 0;
  uint64_t drops = 0;
  uint64_t errors = 0;
  friend bool operator==(const NicStatistics&, const NicStatistics&) = default;
};
inline constexpr uint32_t kNicStatisticsBytes = 48;

/// Data of "set filters".
struct NicFilters {
  bool promiscuous = false;
  bool all_multicast = true;
  uint32_t multicast_count = 0;
  std::array<MacAddress, kMulticastFiltersMax> multicast{};
  [[nodiscard]] bool wants_group(const MacAddress& group) const noexcept;
  friend bool operator==(const NicFilters&, const NicFilters&) = default;
};
inline constexpr uint32_t kNicFiltersBytesMax = 8 + 6 * kMulticastFiltersMax;

/// Reply to "capabilities".
struct NicCapabilities {
  Offload offloads = Offload::kNone;
  uint32_t mtu_bytes = 0;
  uint32_t frame_bytes_max = 0;
};
inline constexpr uint32_t kNicCapabilitiesBytes = 12;

/// Each function writes to `out`, which must be large enough, and returns the bytes written.
uint32_t encode_statistics(const NicStatistics& in, std::span<std::byte> out) noexcept;
uint32_t encode_filters(const NicFilters& in, std::span<std::byte> out) noexcept;
uint32_t encode_capabilities(const NicCapabilities& in, std::span<std::byte> out) noexcept;
uint32_t encode_u32(uint32_t value, std::span<std::byte> out) noexcept;
uint32_t encode_mac(const MacAddress& mac, std::span<std::byte> out) noexcept;

[[nodiscard]] bool decode_statistics(std::span<const std::byte> in, NicStatistics& out) noexcept;
[[nodiscard]] bool decode_filters(std::span<const std::byte> in, NicFilters& out) noexcept;
[[nodiscard]] bool decode_capabilities(std::span<const std::byte> in, NicCapabilities& out) noexcept;
[[nodiscard]] bool decode_u32(std::span<const std::byte> in, uint32_t& out) noexcept;
/// Refuses group addresses and zero.
[[nodiscard]] bool decode_mac(std::span<const std::byte> in, MacAddress& out) noexcept;

}  // namespace weft
