// tools/topology.h -- what `weft up FILE` runs, read from a TOML file: switches, hosts, I/O units, how they
// are linked and where their frames come from. docs/topology.md describes every key; docs/examples/ has files
// to start from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/ethernet.h"
#include "base/loop_runner.h"
#include "base/result.h"
#include "messages/ids.h"

namespace weft::tools {

inline constexpr size_t kTopologyNodesMax = 1024;
inline constexpr size_t kNodeNameBytesMax = 31;
inline constexpr size_t kPortsPerHostMax = 16;

/// Settings that hold for every link of the fabric; 0 means the programs' own default.
struct LinkSettings {
  uint32_t cell_payload = 0;
  uint32_t flit_payload = 0;
  uint32_t lanes = 0;
  uint32_t credits = 0;
  bool cut_through = false;
};

enum class LinkKind : uint8_t { kAuto, kShm, kZmq };

struct PoolSetting {
  uint32_t element_bytes = 0;
  uint32_t elements = 0;
};

/// An interface that the launcher creates (TAP) or uses (packet).
struct InterfaceSettings {
  std::string name;                    // at most 15 bytes; of a TAP by default "weft-NODE"
  std::vector<std::string> addresses;  // "10.9.0.1/24", "fd09::1/64"
  std::string gateway;                 // default route, empty for none
  uint32_t mtu = 0;                    // 0: leave it
  MacAddress mac{};
  bool mac_given = false;  // by the file, not made from the names
};

struct SwitchNode {
  std::string name;
  Guid guid;
  uint32_t ports = 0;               // 0: as many as nodes hang on it
  std::vector<std::string> listen;  // zmq endpoints beside the one in the state directory
  std::string netns;
  uint32_t core = kAnyCore;
};

/// A link between two switches; `from` joins `to`, which listens.
struct SwitchLink {
  uint32_t from = 0;
  uint32_t to = 0;
  LinkKind link = LinkKind::kAuto;
  std::string endpoint;  // zmq: where `to` listens; empty: the socket in the state directory
};

/// What hosts and units have in common: where they hang on the fabric.
struct Endnode {
  std::string name;
  Guid guid;
  uint32_t switch_index = 0;
  LinkKind link = LinkKind::kAuto;
  std::string endpoint;  // zmq: where the switch listens; empty: the socket in the state directory
  std::string netns;
  uint32_t core = kAnyCore;
  std::vector<PoolSetting> pools;
  uint32_t order = 0;  // place among all endnodes of the file
};

enum class OsKind : uint8_t { kTap, kGen, kUnix };

/// One session of a host: an OS interface served by one unit.
struct HostPort {
  uint32_t unit_index = 0;
  OsKind os = OsKind::kTap;
  InterfaceSettings interface;  // kTap; `mac` and `mtu` of the others too
  std::string path;             // kUnix
};

struct HostNode : Endnode {
  std::vector<HostPort> ports;
  std::string mode = "rdma";       // rdma, sendrecv, senddata
  std::string encoding = "capnp";  // capnp, bytes
};

enum class NicKind : uint8_t { kEcho, kTap, kPacket, kSlirp, kPcap };

struct UnitNode : Endnode {
  NicKind nic = NicKind::kEcho;
  InterfaceSettings interface;  // kTap, kPacket
  std::string pcap_in, pcap_out;
  bool bridge = false;
  bool promiscuous_allowed = false;
};

struct Topology {
  std::string fabric;
  LinkSettings links;
  std::string curve_dir;  // directory with NAME.secret and NAME.public; empty: no CURVE
  std::vector<SwitchNode> switches;
  std::vector<SwitchLink> switch_links;  // without loops: no two paths between two switches
  std::vector<HostNode> hosts;
  std::vector<UnitNode> units;
};

[[nodiscard]] std::string_view to_string(LinkKind kind) noexcept;
[[nodiscard]] std::string_view to_string(OsKind kind) noexcept;
[[nodiscard]] std::string_view to_string(NicKind kind) noexcept;

/// True for ipc:// and for tcp:// endpoints of this machine only: they need no CURVE keys.
[[nodiscard]] bool is_local_endpoint(std::string_view endpoint) noexcept;

/// Stable name of a node: the same for every start of the same fabric (decisions 2.15).
[[nodiscard]] Guid stable_guid(std::string_view fabric, std::string_view node) noexcept;
/// Locally administered address, stable as above; `index` tells the ports of a node apart.
[[nodiscard]] MacAddress stable_mac(std::string_view fabric, std::string_view node, uint32_t index) noexcept;

/// For every switch the neighbour that comes next on the way from switch `from` to it; kNoSwitch for `from`
/// itself and where no link leads.
inline constexpr uint32_t kNoSwitch = ~uint32_t{0};
[[nodiscard]] std::vector<uint32_t> next_switches(const Topology& topology, uint32_t from);

/// Parses and checks `text`. Errors read "FILE:LINE:COLUMN: what is wrong; how to mend it".
Result<Topology> parse_topology(std::string_view text, const std::string& file_name);

}  // namespace weft::tools
