// weft stat: reads the stats pages, so it works on a frozen or dead process too. What blocks is read from the
// counters that count waiting: the table below says what each of them means in words.
#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <map>
#include <optional>
#include <thread>

#include "base/command_line.h"
#include "base/stats_page.h"
#include "tools/command.h"

namespace weft {
namespace {

using namespace std::chrono_literals;

struct Blocker {
  std::string_view ending;  // of the counter's name
  std::string_view meaning;
};
constexpr std::array kBlockers{
    Blocker{"credit_stalls",
            "no credit on this lane: whoever is at the other end of the link drains it too slowly"},
    Blocker{"slot_stalls", "the ring of this link is full: its reader is too slow or asleep"},
    Blocker{"peer_stalled", "the process at the other end of this link does not read at all"},
    Blocker{"drop_lifetime", "cells waited 2 s for an output and were dropped: the node behind it is frozen"},
    Blocker{"claim_no_element", "no free pool element at the peer: its LAN or OS takes frames too slowly"},
    Blocker{"claim_no_memory",
            "no registered memory left for outbound frames: acknowledgements come too slowly"},
    Blocker{"no_element_turns", "no free pool element at the peer: its LAN or OS takes frames too slowly"},
    Blocker{"nic_busy_turns", "the LAN interface of this unit takes no frame"},
    Blocker{"os_busy_turns", "the OS interface of this host takes no frame"},
    Blocker{"host_busy_turns", "a host of this unit has no free pool element"},
    Blocker{"write_busy", "the interface behind this driver takes no frame"},
    Blocker{"rnr_naks_received", "the peer has no receive request posted"},
    Blocker{"stash_full", "cells came before the first of their packet and found no room"},
};

using Values = std::map<std::string, uint64_t>;  // "h1.session.1.frames_out"

struct Snapshot {
  Values values;
  std::vector<std::string> complaints;
};

Snapshot read_all(const StateDir& dir, const RunRecord& record, const Arguments& only) {
  Snapshot snapshot;
  for (const RecordedProcess& process : record.processes) {
    if (process.program == "holder") continue;
    if (!only.empty() && std::find(only.begin(), only.end(), process.name) == only.end()) continue;
    auto page = read_stats_page(dir.file(process.name + ".stats"));
    if (!page.ok()) {
      snapshot.complaints.push_back(page.error().text);
      continue;
    }
    for (const auto& [name, value] : page.value()) snapshot.values[process.name + "." + name] = value;
  }
  return snapshot;
}

uint64_t grown(const Values& before, const std::string& name, uint64_t now) {
  const auto at = before.find(name);
  // A process that started again counts from zero.
  return at == before.end() || at->second > now ? now : now - at->second;
}

std::string_view meaning_of(const std::string& name) {
  for (const Blocker& blocker : kBlockers)
    if (name.ends_with(blocker.ending)) return blocker.meaning;
  return {};
}

/// Lines for what waited between two snapshots, the worst first.
std::vector<std::string> blockers(const Values& before, const Values& after, double seconds) {
  std::vector<std::pair<uint64_t, std::string>> found;
  for (const auto& [name, value] : after) {
    const uint64_t amount = grown(before, name, value);
    const std::string_view meaning = meaning_of(name);
    if (amount == 0 || meaning.empty()) continue;
    found.emplace_back(amount,
                       fmt::format("{} +{:.0f}/s: {}", name, static_cast<double>(amount) / seconds, meaning));
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::string> lines;
  for (auto& [amount, line] : found) lines.push_back(std::move(line));
  return lines;
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
    const uint64_t amount = grown(before.values, name, value);
    if (!options.all && (options.watch ? amount == 0 : value == 0)) continue;
    print_line(amount == 0 ? fmt::format("{:<60} {:>18}", name, value)
                           : fmt::format("{:<60} {:>18} {:>14.0f}/s", name, value,
                                         static_cast<double>(amount) / seconds));
  }
}

void report(const Snapshot& before, const Snapshot& after, const StatOptions& options, double seconds) {
  const std::vector<std::string> blocked = blockers(before.values, after.values, seconds);
  if (options.json) {
    print_json(after, blocked);
    return;
  }
  if (options.watch) print_line("\x1b[2J\x1b[H");
  print_table(before, after, options, seconds);
  for (const std::string& complaint : after.complaints) print_line(complaint);
  print_line(blocked.empty() ? "nothing blocks" : "what blocks:");
  for (const std::string& line : blocked) print_line("  " + line);
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
    if (Result<RecordedProcess> known = chosen_node(dir.value().load(), node); !known.ok())
      return failure("stat", known.error().text);
  Snapshot before = read_all(dir.value(), dir.value().load(), options.nodes);
  do {
    std::this_thread::sleep_for(std::chrono::milliseconds(options.interval_ms));
    Snapshot after = read_all(dir.value(), dir.value().load(), options.nodes);
    report(before, after, options, static_cast<double>(options.interval_ms) / 1000.0);
    before = std::move(after);
  } while (options.watch && dir.value().locked());
  return kExitDone;
}

}  // namespace weft
