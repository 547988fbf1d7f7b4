// messages/link_hello.h -- the handshake of two link partners (decisions 2.8): the joining side sends HELLO,
// the other side answers WELCOME or REFUSE. The same 64 bytes on every carrier. Payload sizes must be equal.
// Lanes and credits become the smaller of both, the version the highest common one.
//
// Version 2 adds endnodes that name no port. Their HELLO says which incarnation they were before, if any, and
// the WELCOME tells them their GUID and LID. In version 1 the bytes for this are zero.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

#include "base/endian.h"
#include "messages/ids.h"

namespace weft {

inline constexpr uint32_t kLinkMagic = 0x57454654;  // "WEFT"
inline constexpr uint16_t kLinkVersionMin = 1;
inline constexpr uint16_t kLinkVersionMax = 2;
/// The first version with HELLOs that name no port, endnode GUIDs and P_Keys.
inline constexpr uint16_t kLinkVersionAnyPort = 2;
/// Number of P_Keys in a WELCOME.
inline constexpr size_t kLinkPkeysMax = 4;

enum class LinkMessageKind : uint8_t { kHello = 1, kWelcome = 2, kRefuse = 3 };
enum class LinkRefusal : uint8_t {
  kNone,
  kVersion,
  kFlitPayload,
  kCellPayload,
  kCredits,  // too few for one cell without cut-through (decisions 2.6)
  kLidTaken,
  kLidInvalid,
  kNoPort,      // all ports are in use
  kNotAllowed,  // key, user id or node name does not match
  kRate,        // too many HELLOs
  kNotOwner,    // any port: the HELLO names an identity and cannot prove it
  kNoLid,       // any port: a port is free, but every free LID rests
  kCount,
};
[[nodiscard]] std::string_view to_string(LinkRefusal refusal) noexcept;

enum LinkFlag : uint16_t {
  kLinkCutThrough = 1 << 0,
  kLinkSwitch = 1 << 1,
  kLinkAnyPort = 1 << 2,  // HELLO of an endnode that the topology does not list; from version 2 on
};

struct LinkHelloWire {
  Be32 magic;
  uint8_t kind;
  uint8_t refusal;  // REFUSE only
  Be16 version_min;
  Be16 version_max;  // WELCOME: the chosen version in both fields
  Be16 lid;          // HELLO: wanted, 0 = any; WELCOME: assigned
  Be16 port;         // WELCOME: port number at the switch
  Be16 flags;
  Be64 guid;        // of the sender; 0: an endnode without a GUID
  Be64 boot_nonce;  // HELLO: new for each incarnation of the link (decisions 2.11); answers echo it
  Be32 flit_payload_bytes;
  Be32 cell_payload_bytes;
  Be16 lanes;             // data lanes, 1..15
  Be16 credits_per_lane;  // flit buffers the sender has for each data lane
  Be16 subnet;            // WELCOME: subnet of the port
  Be16 zero;
  // The following fields are zero in version 1.
  Be64 identity;              // HELLO: nonce of the previous incarnation; WELCOME: GUID of the endnode
  Be16 pkeys[kLinkPkeysMax];  // WELCOME: P_Keys of the port; 0 behind the last one
};
static_assert(sizeof(LinkHelloWire) == 64 && alignof(LinkHelloWire) == 1);
static_assert(std::is_trivially_copyable_v<LinkHelloWire>);
static_assert(offsetof(LinkHelloWire, version_min) == 6 && offsetof(LinkHelloWire, lid) == 10 &&
              offsetof(LinkHelloWire, guid) == 16 && offsetof(LinkHelloWire, boot_nonce) == 24 &&
              offsetof(LinkHelloWire, flit_payload_bytes) == 32 && offsetof(LinkHelloWire, lanes) == 40 &&
              offsetof(LinkHelloWire, subnet) == 44 && offsetof(LinkHelloWire, zero) == 46 &&
              offsetof(LinkHelloWire, identity) == 48 && offsetof(LinkHelloWire, pkeys) == 56);

/// One handshake message in host order.
struct LinkHello {
  LinkMessageKind kind = LinkMessageKind::kHello;
  LinkRefusal refusal = LinkRefusal::kNone;
  uint16_t version_min = kLinkVersionMin;
  uint16_t version_max = kLinkVersionMax;
  Lid lid;
  uint16_t port = 0;
  uint16_t flags = 0;  // LinkFlag
  Guid guid;
  uint64_t boot_nonce = 0;
  uint32_t flit_payload_bytes = 0;
  uint32_t cell_payload_bytes = 0;
  uint16_t lanes = 0;
  uint16_t credits_per_lane = 0;
  SubnetId subnet;
  uint64_t identity = 0;
  std::array<uint16_t, kLinkPkeysMax> pkeys{};
};

/// Why a handshake message was refused before any negotiation.
enum class LinkHelloError : uint8_t {
  kNone,
  kLength,  // not 64 bytes
  kMagic,
  kKind,
  kReserved,  // a reserved byte or bit is not zero
  kVersion,   // minimum above maximum, a WELCOME that names no single version, or any port before version 2
  kRange,     // a size, lane or credit count, LID or refusal code outside its range
  kCount,
};
[[nodiscard]] std::string_view to_string(LinkHelloError error) noexcept;

/// `out` is set only on kNone. A version range without a version in common with ours is not an error here.
[[nodiscard]] LinkHelloError decode_link_hello(std::span<const std::byte> in, LinkHello& out) noexcept;
[[nodiscard]] LinkHelloWire encode_link_hello(const LinkHello& hello) noexcept;
[[nodiscard]] inline std::span<const std::byte> bytes_of(const LinkHelloWire& wire) noexcept {
  return std::as_bytes(std::span(&wire, 1));
}

}  // namespace weft
