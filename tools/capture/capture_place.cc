#include "tools/capture/capture_place.h"

#include <fmt/format.h>

#include "base/parse_number.h"
#include "base/stats_page.h"
#include "tools/commands/command.h"

namespace weft::tools {
namespace {

constexpr Duration kPlaceTimeout = std::chrono::seconds(3);

/// Names of a node's interfaces, each with the node's name in front, so that they stay unique in a merged
/// file.
Result<std::vector<std::string>> interfaces_of(control::ControlClient& client, const std::string& control,
                                               const std::string& node) {
  Result<control::ControlReply> reply = client.ask(control, {}, kPlaceTimeout);
  if (!reply.ok()) return reply.error();
  std::vector<std::string> names;
  for (const std::string& name : reply.value().info.interfaces)
    names.push_back(fmt::format("{}:{}", node, name));
  if (names.empty())
    return Error{
        fmt::format("no frames pass through node '{}'; capture a host, a unit, a program or a port, "
                    "as {}:1",
                    node, node)};
  return names;
}

CapturePlace cells_at(const RecordedProcess& node, const std::string& switch_name, uint32_t port,
                      const CaptureWish& wish) {
  return {node, true, switch_name, std::to_string(port), {wish.target}, port - 1, wish.cell_content()};
}

Result<CapturePlace> place_of_port(const RunRecord& record, const std::string& switch_name,
                                   const std::string& number, const CaptureWish& wish) {
  Result<RecordedProcess> node = chosen_node(record, switch_name);
  if (!node.ok()) return node.error();
  const auto port = parse_number<uint32_t>(number);
  if (node->program != "weft-switch" || !port || *port == 0)
    return Error{fmt::format("'{}' is no port: name one as SWITCH:NUMBER", wish.target)};
  return cells_at(*node, node->name, *port, wish);
}

/// The place of a running program.
Result<CapturePlace> place_of_guest(control::ControlClient& client, const StateDir& dir,
                                    const RunRecord& record, const CaptureWish& wish) {
  Result<SpareView> view = look_at_spare_ports(client, dir, record);
  if (!view.ok()) return view.error();
  for (const ProgramNode& program : running_programs(dir)) {
    if (program.name != wish.target) continue;
    for (const Guest& guest : view->guests)
      if (guest.guid == program.guid) return place_of_program(program, guest, wish);
  }
  return Error{fmt::format("'{}' is on no port of a switch now", wish.target)};
}

}  // namespace

CapturePlace place_of_program(const ProgramNode& program, const Guest& guest, const CaptureWish& wish) {
  const RecordedProcess process{program.name, program.program, program.pid, process_start_ticks(program.pid),
                                0};
  CapturePlace out = cells_at(process, guest.node, guest.port, wish);
  out.listed = false;
  return out;
}

Result<CapturePlace> find_capture_place(control::ControlClient& client, const StateDir& dir,
                                        const CaptureWish& wish) {
  const RunRecord record = dir.load();
  if (const size_t colon = wish.target.rfind(':'); colon != std::string::npos)
    return place_of_port(record, wish.target.substr(0, colon), wish.target.substr(colon + 1), wish);
  Result<RecordedProcess> node = chosen_process(dir, record, wish.target);
  if (!node.ok()) return node.error();
  if (!chosen_node(record, wish.target).ok()) return place_of_guest(client, dir, record, wish);
  if (wish.cells || wish.packets) {
    for (const RecordedPort& port : record.ports)
      if (port.peer == wish.target) return cells_at(*node, port.node, port.number, wish);
    return Error{fmt::format("'{}' is on no port of a switch now", wish.target)};
  }
  Result<std::vector<std::string>> names = interfaces_of(client, dir.file(wish.target + ".ctl"), wish.target);
  if (!names.ok()) return names.error();
  return CapturePlace{*node, true, wish.target, wish.interface, *names, 0, CaptureContent::kFrames};
}

bool has_ended(const StateDir& dir, const CapturePlace& place) {
  if (place.node.pid != 0) return !is_running(place.node.pid, place.node.start_ticks);
  return !place.listed && !stats_page_holder(program_page(dir, place.node.name)).has_value();
}

}  // namespace weft::tools
