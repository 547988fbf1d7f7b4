// weft devices: lists the spare ports of a fabric and the endnodes on them.
#include <fmt/format.h>

#include <optional>

#include "base/command_line.h"
#include "control/control_client.h"
#include "messages/endnode_address.h"
#include "tools/commands/command.h"
#include "tools/show/counter_words.h"
#include "tools/show/program_list.h"

namespace weft::tools {
namespace {

struct Device {
  Guest guest;
  std::string name;
  const ProgramNode* program = nullptr;  // null: runs elsewhere, or does not use our library

  /// The program's IPv4 address; for a program elsewhere, the one derived from its LID.
  [[nodiscard]] std::string ip() const {
    const bool given = program != nullptr && program->ipv4 != 0;
    return dotted_ipv4(given ? program->ipv4 : endnode_ipv4(Lid(guest.lid)));
  }
};

std::vector<Device> devices_of(const std::string& node, const SpareView& view, const GuestNames& names,
                               const std::vector<ProgramNode>& programs) {
  std::vector<Device> out;
  for (const Guest& guest : view.guests) {
    if (guest.node != node) continue;
    Device device{guest, {}, nullptr};
    if (const auto name = names.find(guest.guid); name != names.end()) device.name = name->second;
    for (const ProgramNode& program : programs)
      if (program.guid == guest.guid) device.program = &program;
    out.push_back(std::move(device));
  }
  return out;
}

void print_switch(const SpareRecord& spare, const std::vector<Device>& devices, uint32_t free) {
  print_line(fmt::format("{}: {} of {} spare ports are free", spare.node, free, spare.ports));
  for (const Device& device : devices) {
    const std::string pid = device.program == nullptr
                                ? std::string()
                                : fmt::format("  {}, pid {}", device.program->program, device.program->pid);
    // LIDs also in hex, because stock programs print them so.
    const std::string lid = fmt::format("{} (0x{:04x})", device.guest.lid, device.guest.lid);
    print_line(fmt::format("  port {:<4} lid {:<15} ip {:<15} guid {:016x}  {}{}", device.guest.port, lid,
                           device.ip(), device.guest.guid, device.name, pid));
  }
}

std::string json_of(const SpareRecord& spare, const std::vector<Device>& devices, uint32_t free) {
  std::string list;
  for (const Device& device : devices) {
    const ProgramNode* const program = device.program;
    list += fmt::format(
        "{}{{\"port\":{},\"lid\":{},\"ip\":\"{}\",\"guid\":\"{:016x}\",\"name\":{},\"program\":{},\"pid\":{}}"
        "}",
        list.empty() ? "" : ",", device.guest.port, device.guest.lid, device.ip(), device.guest.guid,
        device.name.empty() ? "null" : json_text(device.name),
        program == nullptr ? "null" : json_text(program->program),
        program == nullptr ? "null" : std::to_string(program->pid));
  }
  return fmt::format("{{\"switch\":{},\"spare_ports\":{},\"free\":{},\"devices\":[{}]}}",
                     json_text(spare.node), spare.ports, free, list);
}

}  // namespace

int command_devices(const Arguments& arguments) {
  std::string fabric;
  bool json = false;
  Arguments none;
  CommandLine line("weft devices", "weft devices [options]",
                   "Lists the endnodes on the spare ports of a running fabric: programs of weft run, and "
                   "others that joined.\nEach program sees one device, weft0.");
  line.text("fabric,f", "NAME", fabric, "which fabric, when several run");
  line.flag("json", json, "one JSON object");
  line.words("", none, 0, 0);
  if (std::optional<int> code = line.parse(arguments)) return *code;
  Result<StateDir> dir = chosen_fabric(fabric);
  if (!dir.ok()) return failure("devices", dir.error().text);
  const RunRecord record = dir->load();
  control::ControlClient client;
  Result<SpareView> view = look_at_spare_ports(client, *dir, record);
  if (!view.ok()) return failure("devices", view.error().text);
  const std::vector<ProgramNode> programs = running_programs(*dir);
  const GuestNames names = guest_names(*dir, programs);
  std::string switches;
  if (!json && record.spare.empty()) print_line("no switch has spare_ports");
  for (const SpareRecord& spare : record.spare) {
    const std::vector<Device> devices = devices_of(spare.node, *view, names, programs);
    const uint32_t free = view->free[spare.node];
    if (json) {
      if (!switches.empty()) switches += ',';
      switches += json_of(spare, devices, free);
    } else {
      print_switch(spare, devices, free);
    }
  }
  if (json)
    print_line(fmt::format("{{\"fabric\":{},\"switches\":[{}]}}", json_text(dir->fabric()), switches));
  return kExitDone;
}

}  // namespace weft::tools
