// messages/link_hello.h -- how two link partners agree (decisions 2.8): the joining side sends HELLO, the
// other side answers WELCOME or REFUSE. The same 64 bytes on every carrier. Payload sizes must be equal,
// lanes and credits become the smaller of both, the version the highest common one.
#pragma once

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
inline constexpr uint16_t kLinkVersionMax = 1;

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
  kNotAllowed,  // key, uid or node name does not fit
  kRate,        // too many HELLOs
  kCount,
};
[[nodiscard]] std::string_view to_string(LinkRefusal refusal) noexcept;

enum LinkFlag : uint16_t { kLinkCutThrough = 1 << 0, kLinkSwitch = 1 << 1 };

struct LinkHelloWire {
  Be32 magic;
  uint8_t kind;
  uint8_t refusal;  // REFUSE only
  Be16 version_min;
  Be16 version_max;  // WELCOME: the chosen version in both fields
  Be16 lid;          // HELLO: wanted, 0 = any; WELCOME: assigned
  Be16 port;         // WELCOME: port number at the switch
  Be16 flags;
  Be64 guid;        // of the sender
  Be64 boot_nonce;  // of the sender; a changed value means a new incarnation (decisions 2.11)
  Be32 flit_payload_bytes;
  Be32 cell_payload_bytes;
  Be16 lanes;             // data lanes, 1..15
  Be16 credits_per_lane;  // flit buffers the sender has for each data lane
  std::byte zero[20];
};
static_assert(sizeof(LinkHelloWire) == 64 && alignof(LinkHelloWire) == 1);
static_assert(std::is_trivially_copyable_v<LinkHelloWire>);
static_assert(offsetof(LinkHelloWire, version_min) == 6 && offsetof(LinkHelloWire, lid) == 10 &&
              offsetof(LinkHelloWire, guid) == 16 && offsetof(LinkHelloWire, boot_nonce) == 24 &&
              offsetof(LinkHelloWire, flit_payload_bytes) == 32 && offsetof(LinkHelloWire, lanes) == 40 &&
              offsetof(LinkHelloWire, zero) == 44);

}  // namespace weft
