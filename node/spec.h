// node/spec.h -- the configuration of one process of a fabric, typed. The launcher makes it from a topology
// file, node/spec_codec.h turns it into a command line and back, and the programs are built from it. A new
// field needs one line in spec_codec.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/log.h"
#include "base/loop_runner.h"
#include "base/net/frame_port.h"
#include "fabric/link/limits.h"
#include "messages/ids.h"
#include "messages/netdev.h"
#include "messages/session_mad.h"
#include "node/limits.h"
#include "node/port_kind.h"

namespace weft::node {

/// Link parameters; the same in the whole fabric.
struct LinkSpec {
  uint32_t cell_payload_bytes = fabric::kCellPayloadBytesDefault;
  uint32_t flit_payload_bytes = 0;  // 0: a whole cell
  uint32_t lanes = fabric::kDataLanesDefault;
  uint32_t credits = fabric::kCreditsPerLaneDefault;
  Duration silence{};  // after which the peer of a ZeroMQ link is dead; 0: as its kind of endpoint has it
  friend bool operator==(const LinkSpec&, const LinkSpec&) = default;
};

/// Settings of every process.
struct ProcessSpec {
  std::string name;
  std::string dir = ".";
  LogLevel log_level = LogLevel::kInfo;
  Guid guid;
  int parent_fd = -1;  // pipe whose end of file ends the process; -1: none
  uint32_t core = kAnyCore;
  std::string curve_secret;  // file
  LinkSpec links;

  /// DIR/NAME, to which the endings of its files are added.
  [[nodiscard]] std::string file_base() const { return dir + "/" + name; }
  friend bool operator==(const ProcessSpec&, const ProcessSpec&) = default;
};

struct PoolSpec {
  uint32_t element_bytes = 0;
  uint32_t elements = 0;
  friend bool operator==(const PoolSpec&, const PoolSpec&) = default;
};

/// A further link of a host or unit: port 2 and later ones, each with its own address.
struct FurtherLinkSpec {
  Guid guid;  // of the port
  Lid lid;
  std::string endpoint;      // of its switch, as EndnodeSpec::endpoint
  std::string curve_secret;  // file: the key of this port
  std::string curve_server;  // file: public key of its switch
  friend bool operator==(const FurtherLinkSpec&, const FurtherLinkSpec&) = default;
};

/// Settings of hosts and units.
struct EndnodeSpec : ProcessSpec {
  Lid lid;                      // with `guid`; without both it joins a spare port, which gives both
  std::string endpoint;         // of the switch: "shm:PATH", "ipc://PATH", "tcp://HOST:PORT"
  std::string curve_server;     // file
  std::vector<PoolSpec> pools;  // smallest elements first; empty: the session's own
  std::vector<FurtherLinkSpec> further_links;
  bool adapter_per_link = false;  // each link is an adapter of its own (docs/key_migration.md); else a port
  friend bool operator==(const EndnodeSpec&, const EndnodeSpec&) = default;
};

/// An OS interface of a host and the unit that serves it.
struct HostPortSpec {
  Lid unit;
  OsName os{.kind = OsKind::kGen};
  int fd = -1;                    // the interface, opened by the launcher; -1: the program opens it
  std::optional<MacAddress> mac;  // none: the interface's own, else one made from the GUID
  uint32_t mtu_bytes = 0;         // 0: the interface's own
  bool promiscuous = false;       // wants all frames of the LAN, because it bridges
  uint32_t via = 1;               // port of the adapter that carries the session
  friend bool operator==(const HostPortSpec&, const HostPortSpec&) = default;
};

struct HostSpec : EndnodeSpec {
  std::vector<HostPortSpec> ports;
  TransferMode mode = TransferMode::kRdma;
  MessageEncoding encoding = MessageEncoding::kCapnp;
  AckPolicy acks = AckPolicy::kSelective;  // not with kSendReceive
  friend bool operator==(const HostSpec&, const HostSpec&) = default;
};

struct UnitSpec : EndnodeSpec {
  NicName nic;
  int nic_fd = -1;
  bool bridge = false;
  bool promiscuous_allowed = false;
  uint32_t hosts_max = kHostsPerUnitDefault;
  friend bool operator==(const UnitSpec&, const UnitSpec&) = default;
};

/// An endnode that may join a switch.
struct SwitchNodeSpec {
  std::string name;
  Guid guid;
  Lid lid;
  friend bool operator==(const SwitchNodeSpec&, const SwitchNodeSpec&) = default;
};

/// A data lane's share of a contended output (fabric/switch/vl_arbiter.h).
struct LaneWeight {
  uint32_t lane = 0;    // below LinkSpec::lanes
  uint32_t weight = 0;  // 1 to 255 units of 64 bytes, sent before the next lane has its turn
  friend bool operator==(const LaneWeight&, const LaneWeight&) = default;
};

/// The arbitration of a switch's outputs. Both tables empty: all lanes get the same share.
struct LaneOrder {
  std::vector<LaneWeight> high;  // their cells go before those of `low`
  std::vector<LaneWeight> low;   // empty: every lane that is not in `high`, with equal weights
  uint32_t high_limit = kHighLimitNone;
  friend bool operator==(const LaneOrder&, const LaneOrder&) = default;
};

/// A neighbouring switch.
struct NeighbourSpec {
  std::string name;
  Guid guid;
  std::vector<Lid> beyond;  // endnodes that are reached through it
  std::string endpoint;     // where we join it; empty: it joins us
  std::string key;          // file with its public key, where we join it with keys
  friend bool operator==(const NeighbourSpec&, const NeighbourSpec&) = default;
};

struct SwitchSpec : ProcessSpec {
  std::vector<SwitchNodeSpec> nodes;      // node i has port i + 1
  std::vector<NeighbourSpec> neighbours;  // the ports after them
  uint32_t ports = 0;                     // 0: as many as nodes and neighbours
  std::vector<std::string> listen;        // ZeroMQ endpoints
  std::string curve_allow;                // file: the keys of nodes that may join
  uint32_t spare_ports = 0;               // after those of the neighbours, for endnodes that are not listed
  Lid spare_lid;                          // the first of their LIDs
  uint32_t spare_lids = 0;                // 0: 16 for each port, 64 at least
  bool cut_through = false;
  LaneOrder lane_order;
  friend bool operator==(const SwitchSpec&, const SwitchSpec&) = default;
};

using NodeSpec = std::variant<SwitchSpec, HostSpec, UnitSpec>;

}  // namespace weft::node
