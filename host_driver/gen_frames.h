// host_driver/gen_frames.h -- the frames of the traffic station: builds requests, recognises their answers
// and checks every byte of them. No state.
//
// Behind the ICMP, ICMPv6 or UDP header stands the stamp (big-endian), then the pattern:
//   0 magic 16   2 run 16   4 sequence 64   12 CRC32C 32 over 0..11 and the pattern
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/net/ethernet.h"

namespace weft::host {

inline constexpr uint32_t kGenStampBytes = 16;
/// Smallest frame over IPv4, and over IPv6.
inline constexpr uint32_t kGenFrameBytesMin = 60;
inline constexpr uint32_t kGenFrameBytesMinIpv6 = 80;
/// Room that questions and answers of ARP and neighbour discovery need.
inline constexpr uint32_t kGenResolutionBytesMax = 96;
static_assert(kEthernetHeaderBytes + kIpv4HeaderBytesMin + kUdpHeaderBytes + kGenStampBytes <=
              kGenFrameBytesMin);
static_assert(kEthernetHeaderBytes + kIpv6HeaderBytes + kUdpHeaderBytes + kGenStampBytes <=
              kGenFrameBytesMinIpv6);

/// Addresses of one end of the exchange.
struct GenStation {
  MacAddress mac{};
  std::array<uint8_t, 4> ipv4{};
  std::array<uint8_t, 16> ipv6{};
};

enum class GenKind : uint8_t { kArp, kIcmp, kIcmpv6, kUdp, kNeighbour, kCount };

struct GenStamp {
  uint16_t run = 0;
  uint64_t sequence = 0;
};

/// Builds a request of `frame_bytes` (without FCS; ignored by kArp and kNeighbour, raised to the smallest of
/// the kind) into `out`, which holds at least that many bytes. Returns the length, 0 when it does not fit.
[[nodiscard]] uint32_t build_request(GenKind kind, const GenStation& from, const GenStation& to,
                                     uint32_t frame_bytes, const GenStamp& stamp,
                                     std::span<std::byte> out) noexcept;

enum class GenVerdict : uint8_t {
  kNotOurs,  // some other frame of the LAN
  kGood,
  kCorrupted,  // our frame, but a byte is wrong
};
struct GenAnswer {
  GenVerdict verdict = GenVerdict::kNotOurs;
  GenKind kind = GenKind::kCount;
  GenStamp stamp;            // kIcmp, kIcmpv6, kUdp
  MacAddress answered_by{};  // kArp, kNeighbour: the address asked for
};
/// Classifies a received frame. `self` is this station, `peer` the one it talks to.
[[nodiscard]] GenAnswer check_answer(std::span<const std::byte> frame, const GenStation& self,
                                     const GenStation& peer, uint16_t run) noexcept;

/// Answers an ARP request or neighbour solicitation for `self`; 0 when `frame` is neither.
[[nodiscard]] uint32_t build_resolution_answer(std::span<const std::byte> frame, const GenStation& self,
                                               std::span<std::byte> out) noexcept;

}  // namespace weft::host
