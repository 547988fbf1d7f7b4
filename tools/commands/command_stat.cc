// weft stat: reads the stats pages, so it also works for frozen and dead processes. tools/show/blockers.h
// finds what blocks.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>

#include "base/command_line.h"
#include "base/stats_page.h"
#include "base/words.h"
#include "tools/commands/command.h"
#include "tools/fault/fault_control.h"
#include "tools/show/blockers.h"
#include "tools/show/counter_words.h"
#include "tools/show/failure_list.h"
#include "tools/show/program_list.h"
#include "tools/show/prometheus_text.h"
#include "tools/show/stat_screen.h"
#include "tools/show/terminal.h"
#include "tools/topology/node_commands.h"

namespace weft::tools {
namespace {

using namespace std::chrono_literals;

/// Limit for questions to a switch, so that a frozen one does not delay the output.
constexpr Duration kStatTimeout = 300ms;

struct Snapshot {
  CounterValues values;
  std::vector<NodeFailure> failures;
  std::vector<std::string> complaints;  // unreadable pages, ended programs
  std::vector<std::string> nodes;       // whose pages were read
};

/// Adds the page of `node` if `only` is empty or names it.
void read_page(const std::string& node, const std::string& path, const Arguments& only, Snapshot& out) {
  if (!only.empty() && std::find(only.begin(), only.end(), node) == only.end()) return;
  auto page = read_stats_page(path);
  if (!page.ok()) {
    out.complaints.push_back(page.error().text);
    return;
  }
  out.nodes.push_back(node);
  for (const auto& [name, value] : page.value()) out.values[fmt::format("{}.{}", node, name)] = value;
}

Snapshot read_all(const StateDir& dir, const Arguments& only) {
  Snapshot snapshot;
  for (const RecordedProcess& process : dir.load().processes)
    if (process.program != "holder")
      read_page(process.name, dir.file(process.name + ".stats"), only, snapshot);
  for (const ProgramNode& program : running_programs(dir))
    read_page(program.name, program_page(dir, program.name), only, snapshot);
  const std::vector<std::string> ended = ended_programs(dir);
  for (const std::string& name : only) {
    if (std::find(ended.begin(), ended.end(), name) == ended.end()) continue;
    read_page(name, program_page(dir, name), only, snapshot);
    snapshot.complaints.push_back(fmt::format("{} has ended; these are its last counters", name));
  }
  snapshot.failures = take_failures(snapshot.values);
  return snapshot;
}

/// True if the rule has struck a cell and is not over.
bool strikes(const control::FaultInfo& fault) {
  const bool used_up = fault.rule.limit != 0 && fault.struck >= fault.rule.limit;
  const bool over = fault.rule.lasts != Duration{} && fault.left == Duration{};
  return fault.struck != 0 && !used_up && !over;
}

/// Asks the switches for the endnodes on their spare ports and for faults that strike. A frozen switch does
/// not answer and adds nothing.
void ask_switches(const StateDir& dir, FabricView& view) {
  Result<StateDir> again = StateDir::open(dir.fabric());
  if (!again.ok()) return;
  FaultControl control(std::move(again).value(), kStatTimeout);
  if (!control.look().ok()) return;
  for (const FaultPlace& place : control.places())
    for (RecordedPort& port : view.ports)
      if (place.guid != 0 && port.node == place.node && port.number == place.port) port.peer = place.peer;
  const Result<std::vector<SetFault>> faults = control.list();
  for (const SetFault& one : faults.ok() ? faults.value() : std::vector<SetFault>{})
    if (strikes(one.fault))
      view.faults.push_back(fmt::format("{} ({} of {} {})", control.describe(one), one.fault.struck,
                                        one.fault.matched, one.windows ? "DMA requests" : "cells"));
}

FabricView view_of(const StateDir& dir) {
  FabricView view;
  const RunRecord record = dir.load();
  view.ports = record.ports;
  ask_switches(dir, view);
  for (const auto& [name, lid] : load_lids(dir.file("lids"))) view.lids[lid.value()] = name;
  for (const RecordedProcess& process : record.processes) {
    if (process.program == "holder") continue;
    using Life = FabricView::Life;
    view.lives[process.name] = !is_running(process.pid, process.start_ticks) ? Life::kGone
                               : is_stopped(process.pid)                     ? Life::kFrozen
                                                                             : Life::kRuns;
  }
  for (const ProgramNode& program : running_programs(dir))
    view.lives[program.name] = is_stopped(program.pid) ? FabricView::Life::kFrozen : FabricView::Life::kRuns;
  return view;
}

struct StatOptions {
  std::string fabric;
  Arguments nodes;
  bool watch = false;
  bool json = false;
  bool prometheus = false;
  bool all = false;
  uint32_t interval_ms = 1000;  // counters of queue pairs and pools are copied to the pages every 500 ms
  StatOrder order = StatOrder::kRate;
};

/// Output of --json, described in docs/json.md.
void print_json(const Snapshot& snapshot, const std::vector<std::string>& blocked) {
  std::string counters;
  std::string states;
  for (const auto& [name, value] : snapshot.values) {
    counters += fmt::format("{}{}:{}", counters.empty() ? "" : ",", json_text(name), value);
    const std::string_view state = counter_state(name, value);
    if (!state.empty())
      states += fmt::format("{}{}:{}", states.empty() ? "" : ",", json_text(name), json_text(state));
  }
  std::string lines;
  for (const std::string& line : blocked)
    lines += fmt::format("{}{}", lines.empty() ? "" : ",", json_text(line));
  std::string failures;
  for (const NodeFailure& one : snapshot.failures)
    failures += fmt::format("{}{{\"node\":{},\"text\":{}}}", failures.empty() ? "" : ",", json_text(one.node),
                            json_text(one.text));
  print_line(fmt::format("{{\"counters\":{{{}}},\"states\":{{{}}},\"blocked\":[{}],\"failures\":[{}]}}",
                         counters, states, lines, failures));
}

void print_lines(const std::vector<std::string>& lines) {
  for (const std::string& line : lines) print_line(line);
}

void report(const FabricView& view, Snapshot before, const Snapshot& after, const StatOptions& options,
            const std::string& fabric) {
  StatScreen screen;
  screen.seconds = static_cast<double>(options.interval_ms) / 1000.0;
  screen.blocked = find_blockers(view, before.values, after.values, screen.seconds);
  if (options.json) {
    print_json(after, screen.blocked);
    return;
  }
  screen.title = fmt::format("fabric {}, every {} ms, {}; Ctrl-C ends it", fabric, options.interval_ms,
                             options.order == StatOrder::kRate ? "fastest first" : "by name");
  screen.remarks = after.complaints;
  for (const NodeFailure& one : after.failures)
    screen.failures.push_back(fmt::format("{}: {}", one.node, one.text));
  screen.before = std::move(before.values);
  screen.after = after.values;
  screen.order = options.order;
  screen.all = options.all;
  if (!options.watch) {
    print_lines(stat_table(screen));
    print_lines(screen.remarks);
    print_line(screen.blocked.empty() ? "nothing blocks" : "what blocks:");
    for (const std::string& line : screen.blocked) print_line("  " + line);
    if (!screen.failures.empty()) print_line("latest failures:");
    for (const std::string& line : screen.failures) print_line("  " + line);
  } else if (isatty(STDOUT_FILENO) != 0) {
    const Window window = terminal_window();
    std::vector<std::string> lines = stat_screen(screen, window);
    for (std::string& line : lines) line = printable(line, true);
    print_raw(full_screen(lines, window));
  } else {
    constexpr Window kAnyWindow{.rows = 100'000, .columns = 110};
    print_lines(stat_screen(screen, kAnyWindow));
  }
}

/// Fails if a name is neither a node of the topology, nor a running program, nor an ended program whose
/// counters are kept.
Status check_nodes(const StateDir& dir, const Arguments& nodes) {
  const std::vector<std::string> ended = ended_programs(dir);
  for (const std::string& node : nodes) {
    if (std::find(ended.begin(), ended.end(), node) != ended.end()) continue;
    if (Result<RecordedProcess> known = chosen_process(dir, dir.load(), node); !known.ok())
      return known.error();
  }
  return {};
}

/// Takes two snapshots and reports; with --watch repeats this while the fabric runs and the output is taken.
void look(const StateDir& dir, const StatOptions& options) {
  Snapshot before = read_all(dir, options.nodes);
  do {
    std::this_thread::sleep_for(std::chrono::milliseconds(options.interval_ms));
    Snapshot after = read_all(dir, options.nodes);
    report(view_of(dir), std::move(before), after, options, dir.fabric());
    before = std::move(after);
  } while (options.watch && !output_failed() && dir.locked());
}

/// Complaints go to standard error, because the output is for a program.
int print_prometheus(const StateDir& dir, const StatOptions& options) {
  const Snapshot now = read_all(dir, options.nodes);
  if (!now.complaints.empty() && now.nodes.empty()) return failure("stat", now.complaints.front());
  print_raw(prometheus_text(now.values, now.nodes));
  for (const std::string& complaint : now.complaints) fmt::print(stderr, "weft stat: {}\n", complaint);
  return kExitDone;
}

}  // namespace

int command_stat(const Arguments& arguments) {
  StatOptions options;
  std::string order = "rate";
  CommandLine line("weft stat", "weft stat [options] [NODE...]",
                   "Shows the counters of ports, lanes, queue pairs, sessions and pools that are not zero "
                   "and their growth per second, the lane,\npool or peer that blocks the traffic now, and "
                   "the latest failed requests of programs. NODE may be a program that has "
                   "ended.\ndocs/counters.md describes each counter.");
  line.text("fabric,f", "NAME", options.fabric, "which fabric, when several run");
  line.flag("watch,w", options.watch,
            "repeats until Ctrl-C; only counters that grow, as many as fit the window");
  line.text("sort", "WORD", order, "with --watch: by rate, the fastest first, or by name (rate)");
  line.flag("all", options.all, "also zero counters");
  line.flag("json", options.json, "one JSON object (with --watch: one per line)");
  line.flag("prometheus", options.prometheus,
            "once, in the text format of Prometheus, for node-exporter's collector of text files");
  line.number("interval", "MS", options.interval_ms, 10, 60'000, "time between two readings (1000)");
  line.words("NODE", options.nodes, 0, 64);
  if (std::optional<int> code = line.parse(arguments)) return *code;
  if (order != "rate" && order != "name")
    return line.wrong_use(fmt::format("option --sort is rate or name, not '{}'", order));
  if (options.prometheus && (options.watch || options.json))
    return line.wrong_use("option --prometheus prints one reading; leave out --watch and --json");
  options.order = order == "rate" ? StatOrder::kRate : StatOrder::kName;
  Result<StateDir> dir = chosen_fabric(options.fabric);
  if (!dir.ok()) return failure("stat", dir.error().text);
  if (Status known = check_nodes(*dir, options.nodes); !known.ok())
    return failure("stat", known.error().text);
  if (options.prometheus) return print_prometheus(*dir, options);
  look(*dir, options);
  return kExitDone;
}

}  // namespace weft::tools
