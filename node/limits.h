// node/limits.h -- limits of a fabric's configuration, as in docs/topology.md. A layer's own limits are in
// its header (fabric/link/limits.h, messages/netdev.h). Some are repeated here for programs that do not
// include the layer, which asserts that both agree.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weft::node {

/// For names of nodes and fabrics: the longest path, DIR/NAME.stats, still fits a socket address.
inline constexpr size_t kNodeNameBytesMax = 31;
/// For names of programs (WEFT_NODE, weft run --node), which have no sockets.
inline constexpr size_t kProgramNameBytesMax = 64;
/// Linux: IFNAMSIZ without the terminator.
inline constexpr size_t kInterfaceNameBytesMax = 15;
/// For sockets: sun_path less its terminator and room for a suffix of ours.
inline constexpr size_t kSocketPathBytesMax = 100;

/// Ports of one switch, port 0 not counted: InfiniBand's maximum.
inline constexpr uint32_t kSwitchPortsMax = 254;
/// The highest LID of a spare port; InfiniBand's multicast range follows. Listed nodes are numbered from 1
/// upwards.
inline constexpr uint16_t kSpareLidMax = 0xBFFF;
/// Most LIDs for the spare ports of a whole fabric.
inline constexpr uint32_t kSpareLidsTogetherMax = 40960;
/// Entries of a table of lanes, and the weight of one.
inline constexpr size_t kLaneTableMax = 64;
inline constexpr uint32_t kLaneWeightMax = 255;
/// A low-priority cell is sent after this many units of 4096 bytes of high-priority cells. The value 255
/// means never.
inline constexpr uint32_t kHighLimitNone = 255;
/// Links of a host, a unit or a program: the ports of its adapter, or an adapter each.
inline constexpr size_t kLinksMax = 4;
/// Units, and thus OS interfaces, of one host.
inline constexpr size_t kHostPortsMax = 16;
/// Hosts that one unit serves at the same time: default and maximum (the unit's driver has a bit for each).
inline constexpr uint32_t kHostsPerUnitDefault = 16;
inline constexpr uint32_t kHostsPerUnitMax = 31;
/// Receive pools of one node.
inline constexpr size_t kPoolsMax = 4;

/// MTU of an interface: IPv4's least, and a jumbo frame.
inline constexpr uint32_t kMtuMin = 68;
inline constexpr uint32_t kMtuMax = 9000;

}  // namespace weft::node
