#include "tools/topology/topology_parts.h"

#include <fmt/format.h>

#include <optional>
#include <vector>

#include "base/words.h"
#include "fabric/carrier/link_connect.h"
#include "fabric/link/link_handshake.h"
#include "node/spec_values.h"
#include "tools/topology/topology_text.h"

namespace weft::tools {

using node::OsKind;

namespace {

/// Reads which lanes have priority at the outputs of switches.
void read_lane_order(TopologySection& section, LinkSettings& out) {
  node::LaneOrder& order = out.lane_order;
  const auto read = [&](const char* key, std::vector<node::LaneWeight>& table) {
    for (const std::string& text : section.texts(key)) {
      Result<node::LaneWeight> entry = node::parse_lane_weight(text);
      if (!entry) section.fault(key, fmt::format("'{}': {}", text, entry.error().text));
      table.push_back(*entry);
    }
  };
  read("high_lanes", order.high);
  read("low_lanes", order.low);
  order.high_limit = section.number("high_limit", 1, node::kHighLimitNone, order.high_limit);
  const std::string fault = node::lane_order_fault(order, out.links.lanes);
  if (fault.empty()) return;
  const char* key = section.has("low_lanes") ? "low_lanes" : "high_lanes";
  section.fault(section.has(key) ? key : "high_limit", fault);
}

}  // namespace

LinkSettings read_link_settings(const toml::table& table, const std::string& file) {
  LinkSettings out;
  TopologySection section(table, file, "[links]");
  node::LinkSpec& links = out.links;
  links.cell_payload_bytes =
      section.number("cell_payload", kCellPayloadBytesMin, kCellPayloadBytesMax, links.cell_payload_bytes);
  links.flit_payload_bytes =
      section.number("flit_payload", kFlitPayloadBytesMin, cell_bytes_max(kCellPayloadBytesMax), 0);
  links.lanes = section.number("lanes", 1, fabric::kDataLanesMax, links.lanes);
  links.credits = section.number("credits", 1, fabric::kCreditsPerLaneMax, links.credits);
  if (section.has("silence")) {
    Result<Duration> silence = fabric::parse_silence(section.text("silence", {}));
    if (!silence) section.fault("silence", silence.error().text);
    links.silence = *silence;
  }
  out.cut_through = section.flag("cut_through", false);
  read_lane_order(section, out);
  section.finish();
  fabric::LinkConfig config;
  config.cell_payload_bytes = links.cell_payload_bytes;
  config.credits_per_lane = links.credits;
  config.flit_payload_bytes = links.flit_payload_bytes;
  config.cut_through = out.cut_through;
  config.is_switch = true;
  if (Status checked = fabric::check_link_config(config); !checked.ok())
    section.fault(section.has("credits") ? "credits" : "flit_payload", checked.error().text);
  return out;
}

Station read_station(TopologySection& section, const MacAddress& default_mac) {
  Station out;
  out.mtu = section.number("mtu", node::kMtuMin, node::kMtuMax, 0);
  out.mac = default_mac;
  const std::string mac = section.text("mac", {});
  if (mac.empty()) return out;
  const std::optional<MacAddress> station = parse_mac(mac);
  if (!station || !is_station(*station))
    section.fault("mac", fmt::format("'{}' is not a unicast MAC address, like \"02:00:00:00:00:01\"", mac));
  out.mac = *station;
  out.mac_given = true;
  return out;
}

std::vector<std::string> nic_words() {
  std::vector<std::string> words;
  words.reserve(node::kNicKinds.size());
  for (const auto& row : node::kNicKinds) words.emplace_back(row.name);
  return words;
}

node::OsName read_os(const TopologySection& section, const std::string& text) {
  if (text == "tap") return {.kind = OsKind::kTap};
  const Result<node::OsName> os = node::parse_os(text);
  const std::vector<std::string> known{"tap", "gen", "unix:/PATH"};
  if (!os.ok() && !text.starts_with("unix:"))
    section.fault("os", fmt::format("'os' cannot be '{}'{}", text, choices(text, known)));
  if (os.ok() && os.value().kind == OsKind::kTap)
    section.fault("os", fmt::format("write os = \"tap\" and interface = \"{}\"", os.value().argument));
  const bool absolute = text.starts_with("unix:/");
  if (!os.ok() || (os.value().kind == OsKind::kUnix && !absolute))
    section.fault(
        "os", fmt::format("write os = \"unix:/absolute/path\", at most {} bytes", node::kSocketPathBytesMax));
  return os.value();
}

}  // namespace weft::tools
