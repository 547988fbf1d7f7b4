// tools/topology/topology.h -- the topology that `weft up FILE` runs, read from a TOML file: switches, hosts,
// I/O units, their links, and the sources of their frames. docs/topology.md describes every key;
// docs/examples/ has sample files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/loop_runner.h"
#include "base/net/ethernet.h"
#include "base/result.h"
#include "messages/ids.h"
#include "node/limits.h"
#include "node/spec.h"
#include "tools/fault/fault_words.h"

namespace weft::tools {

inline constexpr size_t kTopologyNodesMax = 1024;
/// Ports of a switch; its control endpoint can report that many.
inline constexpr uint32_t kTopologyPortsMax = node::kSwitchPortsMax;
/// Addresses per interface.
inline constexpr size_t kAddressesMax = 16;

enum class LinkKind : uint8_t { kAuto, kShm, kZmq };

/// An interface that the launcher creates (TAP) or uses (packet).
struct InterfaceSettings {
  std::string name;                    // at most 15 bytes; default for a TAP: "weft-NODE"
  std::vector<std::string> addresses;  // "10.9.0.1/24", "fd09::1/64"
  std::string gateway;                 // default route; empty: none
  uint32_t mtu = 0;                    // bytes; 0: unchanged
  MacAddress mac{};
  bool mac_given = false;  // set in the file, not derived from the names
};

struct SwitchNode {
  std::string name;
  Guid guid;
  uint32_t ports = 0;                   // 0: as many as nodes and links use
  std::vector<std::string> listen;      // zmq endpoints beside the one in the state directory
  uint32_t spare_ports = 0;             // for endnodes that are not in the file
  std::vector<std::string> spare_keys;  // names of keys that may join spare ports over CURVE
  std::string netns;
  uint32_t core = kAnyCore;
};

/// A link between two switches; `from` joins `to`, which listens.
struct SwitchLink {
  uint32_t from = 0;
  uint32_t to = 0;
  LinkKind link = LinkKind::kAuto;
  std::string endpoint;  // zmq: endpoint at which `to` listens; empty: the socket in the state directory
};

/// Common part of hosts and units: their attachment to the fabric.
struct Endnode {
  std::string name;
  Guid guid;
  uint32_t switch_index = 0;
  LinkKind link = LinkKind::kAuto;
  // Zmq: endpoint at which the switch listens; empty: the socket in the state directory.
  std::string endpoint;
  std::string netns;
  uint32_t core = kAnyCore;
  std::vector<node::PoolSpec> pools;
  uint32_t order = 0;  // place among all endnodes of the file
};

/// One session of a host: an OS interface served by one unit.
struct HostPort {
  uint32_t unit_index = 0;
  node::OsName os;
  InterfaceSettings interface;  // for a TAP; other kinds use only `mac` and `mtu`
  uint32_t via = 1;             // port of the host's adapter
};

/// A host or a unit.
struct LinkedNode : Endnode {
  /// Ports 2, 3, ..., named NODE.2, NODE.3, ...: each is linked to a switch and has a LID like a node.
  std::vector<Endnode> further_links;
  bool adapter_per_link = false;  // each link is an adapter of its own; else a port of the only one
};

struct HostNode : LinkedNode {
  std::vector<HostPort> ports;
  TransferMode mode = TransferMode::kRdma;
  MessageEncoding encoding = MessageEncoding::kCapnp;
  AckPolicy acks = AckPolicy::kSelective;
};

struct UnitNode : LinkedNode {
  node::NicName nic;
  InterfaceSettings interface;  // for a TAP; for an existing interface its name, MTU and MAC
  bool bridge = false;
  bool promiscuous_allowed = false;
  uint32_t hosts_max = node::kHostsPerUnitDefault;
};

struct Topology {
  std::string fabric;
  bool direct = false;  // its programs make memory windows between each other
  node::LinkSpec links;
  bool cut_through = false;
  node::LaneOrder lane_order;  // for the outputs of all switches
  std::string curve_dir;       // directory with NAME.secret and NAME.public; empty: no CURVE
  std::vector<SwitchNode> switches;
  std::vector<SwitchLink> switch_links;  // without loops: one path between two switches
  std::vector<HostNode> hosts;
  std::vector<UnitNode> units;
  std::vector<FaultOrder> faults;  // sorted by their times, which count from the moment the fabric is ready
};

[[nodiscard]] std::string_view to_string(LinkKind kind) noexcept;

/// True for ipc:// endpoints and for tcp:// endpoints that only this machine can reach: they need no CURVE
/// keys.
[[nodiscard]] bool is_local_endpoint(std::string_view endpoint) noexcept;

/// GUID of a node, the same at every start of the same fabric (decisions 2.15).
[[nodiscard]] Guid stable_guid(std::string_view fabric, std::string_view node) noexcept;
/// Locally administered MAC address, equally stable; `index` distinguishes the ports of a node.
[[nodiscard]] MacAddress stable_mac(std::string_view fabric, std::string_view node, uint32_t index) noexcept;

/// For every switch, the first neighbour on the way to it from switch `from`; kNoSwitch for `from` itself and
/// for a switch without a path.
inline constexpr uint32_t kNoSwitch = ~uint32_t{0};
[[nodiscard]] std::vector<uint32_t> next_switches(const Topology& topology, uint32_t from);

/// Makes relative paths in `topology` absolute; they are relative to the directory of `file`.
void resolve_paths(Topology& topology, const std::string& file);

/// Parses and checks `text`. Errors have the form "FILE:LINE:COLUMN: problem; remedy".
Result<Topology> parse_topology(std::string_view text, const std::string& file_name);

}  // namespace weft::tools
