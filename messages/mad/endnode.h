// messages/mad/endnode.h -- questions between endnodes for librdmacm (class 0x0B, one of the classes for
// vendors; version 1): which endnode has an IP address, and which process an endnode is. docs/rdma_cm.md.
#pragma once

#include <variant>

#include "messages/global_header.h"
#include "messages/mad/mad.h"

namespace weft {

inline constexpr uint8_t kEndnodeClassVersion = 1;

enum class EndnodeAttribute : uint16_t {
  kWhoHas = 0x0101,
  kHas = 0x0102,
  kWhoIsThere = 0x0103,
  kIsThere = 0x0104,
};
[[nodiscard]] std::string_view to_string(EndnodeAttribute attribute) noexcept;

/// An IP address and a port, as question or answer: the endnode that has the address and listens on the port.
struct MadAddress {
  uint64_t host = 0;   // a mark shared by the endnodes of one host (rdma_cm/address_resolver.h)
  Gid ip{};            // an IPv4 address is in the last four bytes; the others are zero
  uint8_t family = 0;  // 4 or 6
  uint8_t owns = 0;    // answer: 1 has the address, 2 bound to the port, 3 listens at the port
  uint16_t port_space = 0;
  uint16_t port = 0;
  uint64_t guid = 0;  // answer: GUID of its sender; question: the asker's nonce
  friend bool operator==(const MadAddress&, const MadAddress&) = default;
};

/// Identity of an endnode's process, by which others notice that it has ended or that another process has its
/// LID.
struct MadProcess {
  uint64_t incarnation = 0;  // random, different for each process
  uint64_t space = 0;    // of process numbers (PID namespace): equal where `pid` means the same; 0: unknown
  uint64_t started = 0;  // start time from the kernel, because the kernel may reuse a `pid`
  uint32_t pid = 0;
  friend bool operator==(const MadProcess&, const MadProcess&) = default;
};

struct WhoHas {
  static constexpr EndnodeAttribute kAttribute = EndnodeAttribute::kWhoHas;
  MadAddress address{};
  friend bool operator==(const WhoHas&, const WhoHas&) = default;
};
struct Has {
  static constexpr EndnodeAttribute kAttribute = EndnodeAttribute::kHas;
  MadAddress address{};
  friend bool operator==(const Has&, const Has&) = default;
};
struct WhoIsThere {
  static constexpr EndnodeAttribute kAttribute = EndnodeAttribute::kWhoIsThere;
  friend bool operator==(const WhoIsThere&, const WhoIsThere&) = default;
};
struct IsThere {
  static constexpr EndnodeAttribute kAttribute = EndnodeAttribute::kIsThere;
  MadProcess process{};  // of the sender
  friend bool operator==(const IsThere&, const IsThere&) = default;
};

struct EndnodeMad {
  uint64_t transaction = 0;
  std::variant<WhoHas, Has, WhoIsThere, IsThere> body{};
  friend bool operator==(const EndnodeMad&, const EndnodeMad&) = default;
};

[[nodiscard]] MadBytes encode_endnode(const EndnodeMad& mad) noexcept;
/// Reads one message; `out` is set only on kNone.
[[nodiscard]] MadError decode_endnode(std::span<const std::byte> in, EndnodeMad& out) noexcept;

}  // namespace weft
