// messages/mad/mad.h -- the management datagram (MAD) of InfiniBand's volume 1 chapter 13: 256 bytes, one UD
// Send from QP0 to QP0 (subnet management), or from QP1 to QP1 with kQkeyGsi (all other classes). All classes
// share this header. The layout behind it depends on the class and has its own file beside this one.
//
//   0 base version 8 (1)   1 class 8   2 class version 8   3 method 8   4 status 16   6 of the class 16
//   8 transaction 64      16 attribute 16   18 zero 16   20 modifier 32   24 of the class, 232 bytes
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace weft {

inline constexpr size_t kMadBytes = 256;
inline constexpr size_t kMadHeaderBytes = 24;
inline constexpr uint8_t kMadBaseVersion = 1;
using MadBytes = std::array<std::byte, kMadBytes>;

/// Q_Keys of QP0 and QP1.
inline constexpr uint32_t kQkeySmi = 0;
inline constexpr uint32_t kQkeyGsi = 0x8001'0000;

/// InfiniBand's numbers. A class with a codec names its header here. The others are listed so that an agent
/// can tell them apart and answer that it does not support them.
enum class MadClass : uint8_t {
  kSubnetLid = 0x01,  // QP0, routed by LID
  kSubnetAdministration = 0x03,
  kPerformance = 0x04,
  kConnection = 0x07,      // messages/mad/cm.h
  kEndnode = 0x0B,         // messages/mad/endnode.h: one of the classes for vendors
  kSubnetDirected = 0x81,  // QP0, routed by a list of ports
};

enum class MadMethod : uint8_t {
  kGet = 0x01,
  kSet = 0x02,
  kSend = 0x03,
  kTrap = 0x05,
  kGetResponse = 0x81,
};
/// Bit of a method that is an answer.
inline constexpr uint8_t kMadResponseBit = 0x80;
/// Status of an answer: no agent supports this class, version, method or attribute.
inline constexpr uint16_t kMadStatusUnsupported = 0x000C;

struct MadHeader {
  MadClass mad_class{};
  uint8_t class_version = 0;
  MadMethod method{};
  uint16_t status = 0;
  uint16_t of_class = 0;  // hop pointer and hop count of a directed route; else zero
  uint64_t transaction = 0;
  uint16_t attribute = 0;
  uint32_t modifier = 0;
  friend bool operator==(const MadHeader&, const MadHeader&) = default;
};

enum class MadError : uint8_t { kNone, kLength, kHeader, kKind, kReserved, kValue, kCount };
[[nodiscard]] std::string_view to_string(MadError error) noexcept;

/// Writes the header and leaves the rest of `out` unchanged.
void encode_mad_header(const MadHeader& header, MadBytes& out) noexcept;
/// Reads the header of any class and checks length and base version; `out` is set only on kNone.
[[nodiscard]] MadError decode_mad_header(std::span<const std::byte> in, MadHeader& out) noexcept;

}  // namespace weft
