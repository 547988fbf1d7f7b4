// node/port_kind.h -- the kinds of OS interface and of LAN NIC, each in one table: its word, its argument,
// and the descriptor and capability it needs. Topology check, launcher and programs use these tables; the
// drivers create the port by a switch over the same enumerators. A word in no table is refused.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace weft::node {

enum class OsKind : uint8_t { kTap, kGen, kUnix };
enum class NicKind : uint8_t { kEcho, kTap, kPacket, kSlirp, kPcap };

/// The argument in "KIND:ARGUMENT".
enum class PortArgument : uint8_t {
  kNone,
  kInterface,  // a network interface
  kPath,       // a socket
  kFiles,      // "IN" or "IN,OUT"
};

/// Descriptors that the launcher may open, so that the program itself needs no capability.
enum class PortDescriptor : uint8_t { kNone, kTap, kPacketSocket };

template <class Kind>
struct PortKindRow {
  Kind kind;
  std::string_view name;
  PortArgument argument;
  PortDescriptor descriptor;
  std::string_view right;  // capability for that descriptor; empty: none
};

inline constexpr std::array<PortKindRow<OsKind>, 3> kOsKinds{{
    {OsKind::kTap, "tap", PortArgument::kInterface, PortDescriptor::kTap, "CAP_NET_ADMIN"},
    {OsKind::kGen, "gen", PortArgument::kNone, PortDescriptor::kNone, {}},
    {OsKind::kUnix, "unix", PortArgument::kPath, PortDescriptor::kNone, {}},
}};

inline constexpr std::array<PortKindRow<NicKind>, 5> kNicKinds{{
    {NicKind::kEcho, "echo", PortArgument::kNone, PortDescriptor::kNone, {}},
    {NicKind::kTap, "tap", PortArgument::kInterface, PortDescriptor::kTap, "CAP_NET_ADMIN"},
    {NicKind::kPacket, "packet", PortArgument::kInterface, PortDescriptor::kPacketSocket, "CAP_NET_RAW"},
    {NicKind::kSlirp, "slirp", PortArgument::kNone, PortDescriptor::kNone, {}},
    {NicKind::kPcap, "pcap", PortArgument::kFiles, PortDescriptor::kNone, {}},
}};

[[nodiscard]] constexpr const PortKindRow<OsKind>& row_of(OsKind kind) noexcept {
  return kOsKinds[static_cast<size_t>(kind)];
}
[[nodiscard]] constexpr const PortKindRow<NicKind>& row_of(NicKind kind) noexcept {
  return kNicKinds[static_cast<size_t>(kind)];
}
[[nodiscard]] constexpr std::string_view to_string(OsKind kind) noexcept {
  return row_of(kind).name;
}
[[nodiscard]] constexpr std::string_view to_string(NicKind kind) noexcept {
  return row_of(kind).name;
}

/// A port as the configuration names it.
template <class Kind>
struct PortName {
  Kind kind{};
  std::string argument{};  // interface, path or file that is read; empty where the kind has none
  std::string output{};    // kFiles: the file that is written; empty for none
  friend bool operator==(const PortName&, const PortName&) = default;
};
using OsName = PortName<OsKind>;
using NicName = PortName<NicKind>;

/// "tap:NAME, gen or unix:PATH".
[[nodiscard]] std::string os_forms();
[[nodiscard]] std::string nic_forms();

/// "tap:eth0", "gen" (or "gen:"), "unix:/run/q"; the error names what is known.
[[nodiscard]] Result<OsName> parse_os(std::string_view text);
/// "echo", "packet:eth0", "pcap:IN,OUT".
[[nodiscard]] Result<NicName> parse_nic(std::string_view text);
/// The text that the parsers above accept.
[[nodiscard]] std::string to_string(const OsName& os);
[[nodiscard]] std::string to_string(const NicName& nic);

/// The port's name in `weft nic` and `weft capture`: the interface or path, else the kind.
[[nodiscard]] std::string label_of(const OsName& os);
[[nodiscard]] std::string label_of(const NicName& nic);

}  // namespace weft::node
