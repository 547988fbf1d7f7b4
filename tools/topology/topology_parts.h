// tools/topology/topology_parts.h -- parts of a topology file that name no other node: settings of all links,
// stations, kinds of OS interface. Internal to the topology reader.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/net/ethernet.h"
#include "node/port_kind.h"
#include "node/spec.h"
#include "tools/topology/topology_section.h"

namespace weft::tools {

/// Settings in [links], for all links and switches.
struct LinkSettings {
  node::LinkSpec links;
  bool cut_through = false;
  node::LaneOrder lane_order;  // for the outputs of all switches
};
[[nodiscard]] LinkSettings read_link_settings(const toml::table& table, const std::string& file);

/// MAC and MTU, which all kinds of host port have.
struct Station {
  uint32_t mtu = 0;  // bytes; 0: unchanged
  MacAddress mac{};
  bool mac_given = false;  // set in the file
};
[[nodiscard]] Station read_station(TopologySection& section, const MacAddress& default_mac);

/// Names of the NIC kinds, in the order of node::kNicKinds.
[[nodiscard]] std::vector<std::string> nic_words();

/// Parses `os = "TEXT"`. The name of a TAP stands in the key 'interface'; the path of a socket must be
/// absolute.
[[nodiscard]] node::OsName read_os(const TopologySection& section, const std::string& text);

}  // namespace weft::tools
