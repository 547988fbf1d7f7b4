// node/limits.h -- how much of each thing a fabric may have, as docs/topology.md says it. Limits that a layer
// sets for itself stand with that layer (fabric/link/limits.h, messages/netdev.h); those here are the
// configuration's own, or are repeated for programs that do not know the layer, which asserts that they
// agree.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weft::node {

/// Of nodes and fabrics: the longest path made of them, DIR/NAME.stats, still fits a socket address.
inline constexpr size_t kNodeNameBytesMax = 31;
/// Linux: IFNAMSIZ without the end.
inline constexpr size_t kInterfaceNameBytesMax = 15;
/// Of sockets: sun_path with its end, and room for an ending of ours.
inline constexpr size_t kSocketPathBytesMax = 100;

/// Ports of one switch, port 0 not counted: as many as InfiniBand numbers.
inline constexpr uint32_t kSwitchPortsMax = 254;
/// The highest LID of a spare port: those above are InfiniBand's multicast range. Listed nodes are numbered
/// from the other end.
inline constexpr uint16_t kSpareLidMax = 0xBFFF;
/// LIDs that the spare ports of a whole fabric may have.
inline constexpr uint32_t kSpareLidsTogetherMax = 40960;
/// Entries of a table of lanes, and the weight of one.
inline constexpr size_t kLaneTableMax = 64;
inline constexpr uint32_t kLaneWeightMax = 255;
/// After N units of 4096 bytes of high-priority cells one low-priority cell goes; this many: never.
inline constexpr uint32_t kHighLimitNone = 255;
/// Ports of a host's adapter, each with a link of its own.
inline constexpr size_t kHostLinksMax = 4;
/// Units, and thus OS interfaces, of one host.
inline constexpr size_t kHostPortsMax = 16;
/// Hosts that one unit serves at a time: unless the configuration says otherwise, and at most (the unit's
/// driver has a bit for each).
inline constexpr uint32_t kHostsPerUnitDefault = 16;
inline constexpr uint32_t kHostsPerUnitMax = 31;
/// Receive pools of one node.
inline constexpr size_t kPoolsMax = 4;

/// MTU of an interface: IPv4's least, and a jumbo frame.
inline constexpr uint32_t kMtuMin = 68;
inline constexpr uint32_t kMtuMax = 9000;

}  // namespace weft::node
