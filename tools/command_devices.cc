// weft devices: what programs find on a fabric with spare ports, and which endnodes are there.
#include <fmt/format.h>

#include <fstream>
#include <map>
#include <optional>

#include "base/command_line.h"
#include "control/control_client.h"
#include "tools/command.h"

namespace weft::tools {
namespace {

constexpr Duration kAnswerTimeout = std::chrono::seconds(1);
constexpr std::string_view kGuest = "guest ";

/// GUID in hex -> name, of the names that stay.
std::map<std::string, std::string> known_names(const StateDir& dir) {
  std::map<std::string, std::string> out;
  std::ifstream in(dir.file("names"));
  std::string guid;
  std::string secret;
  std::string lid;
  std::string name;
  while (in >> guid >> secret >> lid >> name) out[guid] = name;
  return out;
}

struct Device {
  uint32_t port = 0;
  uint32_t lid = 0;
  std::string guid;
  std::string name;
};

/// The endnodes on the spare ports of a switch, and how many of these are free.
Result<std::vector<Device>> devices_of(const StateDir& dir, const SpareRecord& spare, uint32_t& free) {
  control::ControlClient client;
  Result<control::ControlReply> reply = client.ask(dir.file(spare.node + ".ctl"), {}, kAnswerTimeout);
  if (!reply.ok()) return reply.error();
  const std::map<std::string, std::string> names = known_names(dir);
  std::vector<Device> out;
  for (const control::PortInfo& port : reply->info.ports) {
    if (port.peer == "spare") ++free;
    if (!port.peer.starts_with(kGuest)) continue;
    Device device{port.number, port.lid, port.peer.substr(kGuest.size()), {}};
    if (const auto name = names.find(device.guid); name != names.end()) device.name = name->second;
    out.push_back(std::move(device));
  }
  return out;
}

void print_switch(const SpareRecord& spare, const std::vector<Device>& devices, uint32_t free) {
  print_line(fmt::format("{}: {} of {} spare ports are free", spare.node, free, spare.ports));
  for (const Device& device : devices)
    print_line(
        fmt::format("  port {:<4} lid {:<6} guid {}  {}", device.port, device.lid, device.guid, device.name));
}

std::string json_of(const SpareRecord& spare, const std::vector<Device>& devices, uint32_t free) {
  std::string list;
  for (const Device& device : devices)
    list += fmt::format("{}{{\"port\":{},\"lid\":{},\"guid\":{},\"name\":{}}}", list.empty() ? "" : ",",
                        device.port, device.lid, json_text(device.guid),
                        device.name.empty() ? "null" : json_text(device.name));
  return fmt::format("{{\"switch\":{},\"spare_ports\":{},\"free\":{},\"devices\":[{}]}}",
                     json_text(spare.node), spare.ports, free, list);
}

}  // namespace

int command_devices(const Arguments& arguments) {
  std::string fabric;
  bool json = false;
  Arguments none;
  CommandLine line(
      "weft devices", "weft devices [options]",
      "Lists the endnodes on the spare ports of a running fabric: programs of weft run, and whoever else "
      "joined.\nA program itself sees one device, weft0.");
  line.text("fabric,f", "NAME", fabric, "which one, when several run");
  line.flag("json", json, "one JSON object");
  line.words("", none, 0, 0);
  if (std::optional<int> code = line.parse(arguments)) return *code;
  Result<StateDir> dir = chosen_fabric(fabric);
  if (!dir.ok()) return failure("devices", dir.error().text);
  const RunRecord record = dir->load();
  std::string switches;
  if (!json && record.spare.empty()) print_line("no switch has spare_ports");
  for (const SpareRecord& spare : record.spare) {
    uint32_t free = 0;
    Result<std::vector<Device>> devices = devices_of(*dir, spare, free);
    if (!devices.ok()) return failure("devices", devices.error().text);
    if (json) {
      switches += (switches.empty() ? "" : ",") + json_of(spare, *devices, free);
    } else {
      print_switch(spare, *devices, free);
    }
  }
  if (json)
    print_line(fmt::format("{{\"fabric\":{},\"switches\":[{}]}}", json_text(dir->fabric()), switches));
  return kExitDone;
}

}  // namespace weft::tools
