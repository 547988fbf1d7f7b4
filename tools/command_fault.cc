// weft fault.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <optional>
#include <thread>

#include "base/command_line.h"
#include "base/parse_number.h"
#include "base/rng.h"
#include "base/words.h"
#include "control/control_client.h"
#include "tools/command.h"
#include "tools/fault_words.h"
#include "tools/node_commands.h"
#include "tools/program_list.h"

namespace weft::tools {
namespace {

using namespace std::chrono_literals;

constexpr Duration kAnswerTimeout = 3s;

/// A port of a running switch, and who sits there.
struct Place {
  std::string node;  // the switch
  uint16_t port = 0;
  uint16_t lid = 0;
  std::string peer;
};

/// One running fabric: its switches and their ports as they are now.
class Fabric {
 public:
  explicit Fabric(StateDir dir) : dir_(std::move(dir)), record_(dir_.load()) {}

  /// Asks the switches who sits where.
  Status look();
  /// The ports that a target names.
  Result<std::vector<Place>> find(const std::string& target) const;
  Result<std::vector<control::FaultInfo>> ask(const std::string& node,
                                              const control::ControlRequest& request);
  [[nodiscard]] const std::vector<std::string>& switches() const { return switches_; }
  [[nodiscard]] const RunRecord& record() const { return record_; }
  [[nodiscard]] const StateDir& dir() const { return dir_; }
  [[nodiscard]] std::string at(const std::string& node, uint16_t port) const;

 private:
  StateDir dir_;
  RunRecord record_;
  control::ControlClient client_;
  std::vector<std::string> switches_;
  std::vector<Place> places_;
};

Status Fabric::look() {
  const auto lids = load_lids(dir_.file("lids"));
  const GuestNames guests = guest_names(dir_, running_programs(dir_));
  for (const RecordedProcess& process : record_.processes) {
    if (process.program != "weft-switch" || !is_running(process.pid, process.start_ticks)) continue;
    Result<control::ControlReply> reply = client_.ask(dir_.file(process.name + ".ctl"), {}, kAnswerTimeout);
    if (!reply.ok()) return Error{fmt::format("switch '{}': {}", process.name, reply.error().text)};
    switches_.push_back(process.name);
    for (const control::PortInfo& port : reply.value().info.ports) {
      Place place{process.name, port.number, port.lid, port.peer};
      for (const auto& [name, lid] : lids)
        if (port.lid != 0 && lid.value() == port.lid) place.peer = name;
      if (const std::optional<uint64_t> guid = guest_guid(port.peer); guid && guests.contains(*guid))
        place.peer = guests.at(*guid);
      places_.push_back(std::move(place));
    }
  }
  if (switches_.empty()) return Error{"no switch of this fabric runs"};
  return {};
}

Result<std::vector<Place>> Fabric::find(const std::string& target) const {
  std::vector<Place> found;
  std::vector<std::string> known = switches_;
  for (const Place& place : places_) {
    const bool named = place.peer == target || place.node == target ||
                       target == fmt::format("{}:{}", place.node, place.port) ||
                       (place.lid != 0 && target == fmt::format("lid:{}", place.lid));
    if (named) found.push_back(place);
    if (place.lid != 0) known.push_back(place.peer);
  }
  if (!found.empty()) return found;
  return Error{
      fmt::format("'{}' is no node, switch, SWITCH:PORT or lid:N{}", target, choices(target, known))};
}

Result<std::vector<control::FaultInfo>> Fabric::ask(const std::string& node,
                                                    const control::ControlRequest& request) {
  Result<control::ControlReply> reply = client_.ask(dir_.file(node + ".ctl"), request, kAnswerTimeout);
  if (!reply.ok()) return Error{fmt::format("switch '{}': {}", node, reply.error().text)};
  return reply.value().faults;
}

std::string Fabric::at(const std::string& node, uint16_t port) const {
  const auto place = std::find_if(places_.begin(), places_.end(), [&node, port](const Place& one) {
    return one.node == node && one.port == port;
  });
  const bool named = place != places_.end() && !place->peer.empty();
  return named ? fmt::format("{}:{} ({})", node, port, place->peer) : fmt::format("{}:{}", node, port);
}

/// Stops or kills the process of a node: the fault that no switch can make.
Status strike_process(const Fabric& fabric, const FaultOrder& order) {
  Result<RecordedProcess> node = chosen_process(fabric.dir(), fabric.record(), order.target);
  if (!node.ok()) return node.error();
  const RecordedProcess& process = node.value();
  if (!is_running(process.pid, process.start_ticks))
    return Error{
        process.pid == 0
            ? fmt::format("'{}' runs in another namespace of processes: do it from there", order.target)
            : fmt::format("node '{}' does not run", order.target)};
  const bool freeze = order.kind == "freeze";
  if (kill(process.pid, freeze ? SIGSTOP : SIGKILL) != 0)
    return errno_error(fmt::format("{} '{}'", order.kind, order.target), errno);
  print_line(fmt::format("{}: {}", order.target, freeze ? "frozen" : "killed"));
  if (!freeze || order.lasts.empty()) return {};
  std::this_thread::sleep_for(parse_time_span(order.lasts).value_or(0ns));
  if (is_running(process.pid, process.start_ticks)) static_cast<void>(kill(process.pid, SIGCONT));
  print_line(fmt::format("{}: goes on", order.target));
  return {};
}

Status set_fault(Fabric& fabric, FaultOrder order) {
  if (order.seed == 0) order.seed = SystemRandom().below(1'000'000) + 1;
  Result<control::FaultWish> wish = fault_wish(order);
  if (!wish) return wish.error();
  if (order.kind == "freeze" || order.kind == "kill") return strike_process(fabric, order);
  Result<std::vector<Place>> places = fabric.find(order.target);
  if (!places.ok()) return places.error();
  for (const Place& place : places.value()) {
    control::ControlRequest request;
    request.action = control::ControlAction::kFaultAdd;
    request.fault = *wish;
    request.fault.port = place.port;
    Result<std::vector<control::FaultInfo>> faults = fabric.ask(place.node, request);
    if (!faults.ok()) return faults.error();
    const control::FaultInfo& made = faults.value().back();
    print_line(fmt::format("fault {}:{} at {}: {}", place.node, made.id, fabric.at(place.node, place.port),
                           describe_fault(made.rule)));
  }
  return {};
}

Status list_faults(Fabric& fabric, bool json) {
  control::ControlRequest request;
  request.action = control::ControlAction::kFaultList;
  std::string rows;
  for (const std::string& node : fabric.switches()) {
    Result<std::vector<control::FaultInfo>> faults = fabric.ask(node, request);
    if (!faults.ok()) return faults.error();
    for (const control::FaultInfo& fault : faults.value()) {
      const std::string name = fmt::format("{}:{}", node, fault.id);
      if (json) {
        rows += fmt::format(
            "{}{{\"id\":{},\"switch\":{},\"port\":{},\"kind\":{},\"rule\":{},\"seed\":{},\"matched\":{},"
            "\"struck\":{}}}",
            rows.empty() ? "" : ",", json_text(name), json_text(node), fault.rule.port,
            json_text(fault.rule.kind), json_text(describe_fault(fault.rule)), fault.rule.seed, fault.matched,
            fault.struck);
      } else {
        print_line(fmt::format("{:<8} {:<20} {} of {} cells: {}", name, fabric.at(node, fault.rule.port),
                               fault.struck, fault.matched, describe_fault(fault.rule)));
      }
    }
  }
  if (json) print_line(fmt::format("{{\"faults\":[{}]}}", rows));
  return {};
}

/// `id` is SWITCH:NUMBER; empty clears all rules of all switches.
Status clear_faults(Fabric& fabric, const std::string& id) {
  const size_t colon = id.rfind(':');
  control::ControlRequest request;
  request.action = control::ControlAction::kFaultClear;
  std::vector<std::string> nodes = fabric.switches();
  if (!id.empty()) {
    const std::optional<uint32_t> number =
        colon == std::string::npos ? std::nullopt : parse_number<uint32_t>(id.substr(colon + 1));
    if (!number)
      return Error{fmt::format("a fault is named SWITCH:NUMBER, as weft fault list prints it, not '{}'", id)};
    request.fault_id = *number;
    nodes = {id.substr(0, colon)};
    const std::vector<std::string>& known = fabric.switches();
    if (std::find(known.begin(), known.end(), nodes[0]) == known.end())
      return Error{fmt::format("no switch is called '{}'{}", nodes[0], choices(nodes[0], known))};
  }
  for (const std::string& node : nodes) {
    Result<std::vector<control::FaultInfo>> left = fabric.ask(node, request);
    if (!left.ok()) return left.error();
  }
  return {};
}

/// Sets each fault of a script when its time has come.
Status run_script(Fabric& fabric, const std::string& path) {
  Result<std::vector<FaultOrder>> script = read_fault_script(path);
  if (!script.ok()) return script.error();
  const auto start = std::chrono::steady_clock::now();
  for (const FaultOrder& order : script.value()) {
    std::this_thread::sleep_until(start + order.at);
    if (Status set = set_fault(fabric, order); !set) return set;
  }
  return {};
}

Status run(const std::string& fabric_name, const Arguments& words, FaultOrder order, bool json) {
  Result<StateDir> dir = chosen_fabric(fabric_name);
  if (!dir.ok()) return dir.error();
  Fabric fabric(std::move(dir).value());
  if (Status looked = fabric.look(); !looked) return looked;
  if (words[0] == "list") return list_faults(fabric, json);
  if (words[0] == "clear") return clear_faults(fabric, words.size() > 1 ? words[1] : "");
  if (words[0] == "script") return run_script(fabric, words[1]);
  order.target = words[0];
  order.kind = words[1];
  order.value = words.size() > 2 ? words[2] : "";
  return set_fault(fabric, std::move(order));
}

}  // namespace

int command_fault(const Arguments& arguments) {
  std::string fabric;
  Arguments words;
  FaultOrder order;
  bool json = false;
  CommandLine line("weft fault",
                   "weft fault [options] TARGET KIND [VALUE]\n       weft fault list | clear [SWITCH:NUMBER] "
                   "| script FILE.toml",
                   "Faults on demand in a running fabric. TARGET is a node, a switch, SWITCH:PORT or lid:N. "
                   "KIND is drop, corrupt,\n"
                   "duplicate, reorder, delay TIME or TIME..TIME, rate CELLS-PER-SECOND, cut, flap UP/DOWN, "
                   "freeze or kill. Without\n"
                   "options every cell is struck, both ways, until the fault is cleared.");
  line.text("fabric,f", "NAME", fabric, "which one, when several run");
  line.text("chance", "PERCENT", order.chance, "of the cells, like 1% or 0.01%");
  line.number("every", "N", order.every, 1, UINT32_MAX, "only every N-th cell that matches");
  line.text("direction", "WORD", order.direction, "both; from: what the node sends; to: what it gets");
  line.texts("lane", "N", order.lanes, "only cells of this virtual lane; several times for several");
  line.text("opcode", "NAME", order.opcode, "only cells of this operation: send, rdma-write, ack, ...");
  line.number("limit", "N", order.limit, 0, UINT64_MAX, "ends after so many strikes; 0: never");
  line.text("for", "TIME", order.lasts, "ends after this time, like 500ms or 5s");
  line.number("seed", "N", order.seed, 0, UINT64_MAX, "of its random numbers; 0: one is chosen, and printed");
  line.flag("json", json, "list: one JSON object");
  line.words("TARGET", words, 1, 3);
  if (std::optional<int> code = line.parse(arguments)) return *code;
  const bool command = words[0] == "list" || words[0] == "clear" || words[0] == "script";
  const size_t most = words[0] == "list" ? 1 : command ? 2 : 3;
  if (words.size() > most || (words[0] == "script" && words.size() != 2) || (!command && words.size() < 2))
    return line.wrong_use(command ? fmt::format("'{}' takes other words", words[0])
                                  : "a kind of fault is missing");
  const Status done = run(fabric, words, std::move(order), json);
  return done.ok() ? kExitDone : failure("fault", done.error().text);
}

}  // namespace weft::tools
