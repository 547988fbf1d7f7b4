// tools/capture/roce_frame.h -- RoCE v2 frames as bytes: Ethernet, IPv4 or IPv6, UDP 4791, InfiniBand's
// transport headers, payload, pad and invariant CRC (InfiniBand volume 1 chapter 9, annex A17).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "messages/global_header.h"

namespace weft::tools {

using FrameBytes = std::vector<std::byte>;
using MacBytes = std::array<std::byte, 6>;

inline constexpr uint16_t kRocePort = 4791;
inline constexpr uint32_t kRocePayloadBytesMax = 4096;  // largest path MTU of InfiniBand
inline constexpr uint32_t kEthernetHeaderBytes = 14;
inline constexpr uint32_t kBthBytes = 12;
inline constexpr uint32_t kIcrcBytes = 4;
/// RFC 5342 local experimental EtherType 1. A cell without a RoCE form follows it unchanged.
inline constexpr uint16_t kEtherTypeOther = 0x88B5;
inline constexpr uint16_t kEtherTypeIpv4 = 0x0800;
inline constexpr uint16_t kEtherTypeIpv6 = 0x86DD;

/// Addresses of a frame.
struct RoceRoute {
  MacBytes destination_mac{};
  MacBytes source_mac{};
  bool ipv6 = false;
  Gid source{};                 // an IPv4 address in the last four bytes
  Gid destination{};            // likewise
  uint32_t class_and_flow = 0;  // IPv6: the low 28 bits of its first word
  uint8_t hop_limit = kHopLimitDefault;
  uint16_t source_port = 0;
};

/// Base transport header.
struct RoceBase {
  uint8_t opcode = 0;
  bool solicited = false;
  bool migrated = false;
  bool ack_wanted = false;
  uint16_t pkey = 0;
  uint32_t dest_qpn = 0;  // 24 bits
  uint32_t psn = 0;       // 24 bits
};

/// The headers after the base transport header, in the order of the calls. At most kBytesMax bytes.
class RoceHeaders {
 public:
  static constexpr size_t kBytesMax = 64;

  void rdeth(uint32_t context) { word(context); }
  void deth(uint32_t qkey, uint32_t source_qpn) {
    word(qkey);
    word(source_qpn);
  }
  void xrceth(uint32_t srq) { word(srq); }
  void reth(uint64_t address, uint32_t key, uint32_t bytes) {
    wide(address);
    word(key);
    word(bytes);
  }
  void aeth(uint8_t syndrome, uint32_t msn) { word(uint32_t{syndrome} << 24 | (msn & 0xFFFFFF)); }
  void atomiceth(uint64_t address, uint32_t key, uint64_t swap_or_add, uint64_t compare) {
    wide(address);
    word(key);
    wide(swap_or_add);
    wide(compare);
  }
  void atomicacketh(uint64_t before) { wide(before); }
  void immdt(uint32_t data) { word(data); }
  void ieth(uint32_t key) { word(key); }

  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return std::span(bytes_).first(size_); }

 private:
  void word(uint32_t value);
  void wide(uint64_t value);
  std::array<std::byte, kBytesMax> bytes_{};
  size_t size_ = 0;
};

/// Offset in a frame of the headers after the base transport header.
[[nodiscard]] size_t roce_headers_at(bool ipv6) noexcept;

/// Makes a frame that lacks only the fields that seal_roce_frame() fills. Pads the payload to a multiple of
/// four bytes.
[[nodiscard]] FrameBytes make_roce_frame(const RoceRoute& route, const RoceBase& base,
                                         const RoceHeaders& headers, std::span<const std::byte> payload);
/// Computes the invariant CRC, and for IPv6 the UDP checksum; with IPv4 that stays zero, which means none.
/// The frame must come from make_roce_frame().
void seal_roce_frame(FrameBytes& frame);
/// The invariant CRC of a frame, for its last four bytes: Ethernet's CRC-32 over eight bytes of ones and
/// everything from the IP header on, with all fields that routers change taken as ones.
[[nodiscard]] std::array<std::byte, kIcrcBytes> roce_icrc(std::span<const std::byte> frame);

/// Makes an Ethernet frame of another type.
[[nodiscard]] FrameBytes make_ethernet_frame(const RoceRoute& route, uint16_t type,
                                             std::span<const std::byte> payload);

/// A UDP source port that is the same for all packets between two queue pairs, as Linux chooses it
/// (rdma_calc_flow_label(), rdma_flow_label_to_udp_sport()).
[[nodiscard]] uint16_t roce_source_port(uint32_t source_qpn, uint32_t dest_qpn) noexcept;

}  // namespace weft::tools
