// tools/topology_parts.h -- the parts of a topology file that name no other node: settings of all links,
// stations, kinds of OS interface. Internal to the topology reader.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/ethernet.h"
#include "node/port_kind.h"
#include "node/spec.h"
#include "tools/topology_section.h"

namespace weft::tools {

/// What [links] says of all links and switches.
struct LinkSettings {
  node::LinkSpec links;
  bool cut_through = false;
  node::LaneOrder lane_order;  // of every switch's outputs
};
[[nodiscard]] LinkSettings read_link_settings(const toml::table& table, const std::string& file);

/// MAC and MTU, which every kind of host port has.
struct Station {
  uint32_t mtu = 0;  // 0: leave it
  MacAddress mac{};
  bool mac_given = false;  // by the file
};
[[nodiscard]] Station read_station(TopologySection& section, const MacAddress& default_mac);

/// The kinds of NIC, in the order of node::kNicKinds.
[[nodiscard]] std::vector<std::string> nic_words();

/// What `os = "TEXT"` names. "tap" is named by the key 'interface', and a path stands from the root on.
[[nodiscard]] node::OsName read_os(const TopologySection& section, const std::string& text);

}  // namespace weft::tools
