// weft stat: reads the stats pages, so it works on a frozen or dead process too; tools/blockers.h says what
// blocks.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <map>
#include <optional>
#include <thread>

#include "base/command_line.h"
#include "base/stats_page.h"
#include "tools/blockers.h"
#include "tools/command.h"
#include "tools/node_commands.h"
#include "tools/program_list.h"

namespace weft::tools {
namespace {

using namespace std::chrono_literals;

struct Snapshot {
  CounterValues values;
  std::vector<std::string> complaints;
};

/// Adds the page of a node unless others were asked for.
void read_page(const std::string& node, const std::string& path, const Arguments& only, Snapshot& out) {
  if (!only.empty() && std::find(only.begin(), only.end(), node) == only.end()) return;
  auto page = read_stats_page(path);
  if (!page.ok()) {
    out.complaints.push_back(page.error().text);
    return;
  }
  for (const auto& [name, value] : page.value()) out.values[fmt::format("{}.{}", node, name)] = value;
}

Snapshot read_all(const StateDir& dir, const Arguments& only) {
  Snapshot snapshot;
  for (const RecordedProcess& process : dir.load().processes)
    if (process.program != "holder")
      read_page(process.name, dir.file(process.name + ".stats"), only, snapshot);
  for (const ProgramNode& program : running_programs(dir))
    read_page(program.name, program_page(dir, program.name), only, snapshot);
  return snapshot;
}

FabricView view_of(const StateDir& dir) {
  FabricView view;
  const RunRecord record = dir.load();
  view.ports = record.ports;
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
  bool all = false;
  uint32_t interval_ms = 1000;  // queue pairs and pools are brought up to date twice a second
};

void print_json(const Snapshot& snapshot, const std::vector<std::string>& blocked) {
  std::string counters;
  for (const auto& [name, value] : snapshot.values)
    counters += fmt::format("{}{}:{}", counters.empty() ? "" : ",", json_text(name), value);
  std::string lines;
  for (const std::string& line : blocked)
    lines += fmt::format("{}{}", lines.empty() ? "" : ",", json_text(line));
  print_line(fmt::format("{{\"counters\":{{{}}},\"blocked\":[{}]}}", counters, lines));
}

void print_table(const Snapshot& before, const Snapshot& after, const StatOptions& options, double seconds) {
  for (const auto& [name, value] : after.values) {
    const uint64_t amount = growth(before.values, name, value);
    if (!options.all && (options.watch ? amount == 0 : value == 0)) continue;
    print_line(amount == 0 ? fmt::format("{:<60} {:>18}", name, value)
                           : fmt::format("{:<60} {:>18} {:>14.0f}/s", name, value,
                                         static_cast<double>(amount) / seconds));
  }
}

void report(const FabricView& view, const Snapshot& before, const Snapshot& after, const StatOptions& options,
            double seconds) {
  const std::vector<std::string> blocked = find_blockers(view, before.values, after.values, seconds);
  if (options.json) {
    print_json(after, blocked);
    return;
  }
  // A long table leaves a screen at the bottom: when watching, what blocks comes first.
  if (options.watch && isatty(STDOUT_FILENO) != 0) print_line("\x1b[2J\x1b[H");
  if (!options.watch) print_table(before, after, options, seconds);
  for (const std::string& complaint : after.complaints) print_line(complaint);
  print_line(blocked.empty() ? "nothing blocks" : "what blocks:");
  for (const std::string& line : blocked) print_line("  " + line);
  if (options.watch) print_table(before, after, options, seconds);
}

}  // namespace

int command_stat(const Arguments& arguments) {
  StatOptions options;
  CommandLine line(
      "weft stat", "weft stat [options] [NODE...]",
      "Shows counters of ports, lanes, queue pairs, sessions and pools that are not zero, how fast they "
      "grow, and which lane, pool\nor peer holds the traffic up right now.");
  line.text("fabric,f", "NAME", options.fabric, "which one, when several run");
  line.flag("watch,w", options.watch, "repeats until Ctrl-C, only what grows");
  line.flag("all", options.all, "zero counters too");
  line.flag("json", options.json, "one JSON object (with --watch: one a line)");
  line.number("interval", "MS", options.interval_ms, 10, 60'000, "between two looks (1000)");
  line.words("NODE", options.nodes, 0, 64);
  if (std::optional<int> code = line.parse(arguments)) return *code;
  Result<StateDir> dir = chosen_fabric(options.fabric);
  if (!dir.ok()) return failure("stat", dir.error().text);
  for (const std::string& node : options.nodes)
    if (Result<RecordedProcess> known = chosen_process(dir.value(), dir.value().load(), node); !known.ok())
      return failure("stat", known.error().text);
  Snapshot before = read_all(dir.value(), options.nodes);
  do {
    std::this_thread::sleep_for(std::chrono::milliseconds(options.interval_ms));
    Snapshot after = read_all(dir.value(), options.nodes);
    report(view_of(dir.value()), before, after, options, static_cast<double>(options.interval_ms) / 1000.0);
    before = std::move(after);
  } while (options.watch && dir.value().locked());
  return kExitDone;
}

}  // namespace weft::tools
