// weft fault.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <optional>
#include <thread>

#include "base/command_line.h"
#include "base/parse_number.h"
#include "base/text_file.h"
#include "base/time_span.h"
#include "base/words.h"
#include "tools/commands/command.h"
#include "tools/fault/fault_control.h"
#include "tools/fault/fault_words.h"
#include "tools/fault/held_signals.h"
#include "tools/show/program_list.h"

namespace weft::tools {
namespace {

using namespace std::chrono_literals;

/// Stops or kills the process of a node, which no switch can do.
Status strike_process(const FaultControl& fabric, const FaultOrder& order) {
  Result<RecordedProcess> node = chosen_process(fabric.dir(), fabric.record(), order.target);
  if (!node.ok()) return node.error();
  const RecordedProcess& process = node.value();
  if (!is_running(process.pid, process.start_ticks))
    return Error{
        process.pid == 0
            ? fmt::format("'{}' runs in another namespace of processes; use the command there", order.target)
            : fmt::format("node '{}' does not run", order.target)};
  const bool freeze = order.kind == "freeze";
  std::optional<HeldSignals> held;  // Ctrl-C must not leave the process stopped
  if (freeze && !order.lasts.empty()) held.emplace();
  signal_recorded(process.pid, process.start_ticks, freeze ? SIGSTOP : SIGKILL);
  const char* struck = freeze ? "frozen" : "killed";
  print_line(fmt::format("{}: {}{}", order.target, struck,
                         freeze && order.lasts.empty() ? "; weft fault clear continues it" : ""));
  if (!held) return {};
  held->wait(parse_time_span(order.lasts).value_or(0ns));
  signal_recorded(process.pid, process.start_ticks, SIGCONT);
  print_line(fmt::format("{}: continues", order.target));
  return {};
}

/// Continues the nodes and programs that are stopped. Asks no switch, because a switch may be stopped.
void continue_all(const StateDir& dir, const RunRecord& record) {
  std::vector<RecordedProcess> processes = record.processes;
  for (const ProgramNode& program : running_programs(dir))
    processes.push_back({program.name, program.program, program.pid, process_start_ticks(program.pid), 0});
  for (const RecordedProcess& process : processes) {
    if (!is_running(process.pid, process.start_ticks) || !is_stopped(process.pid)) continue;
    signal_recorded(process.pid, process.start_ticks, SIGCONT);
    print_line(fmt::format("{}: continues", process.name));
  }
}

/// Rules that this command has set. If one cannot be set, all of them are removed.
using Made = std::vector<SetFault>;

Status set_fault(FaultControl& fabric, FaultOrder order, Made& made) {
  if (Status good = check_order(order); !good) return good;
  if (strikes_process(order)) return strike_process(fabric, order);
  Result<std::vector<SetFault>> faults = fabric.set(std::move(order));
  if (!faults.ok()) return faults.error();
  for (SetFault& one : faults.value()) {
    print_line(fabric.describe(one));
    made.push_back(std::move(one));
  }
  for (const std::string& note : fabric.notes()) print_line(note);
  return {};
}

Status list_faults(FaultControl& fabric, bool json) {
  Result<std::vector<SetFault>> faults = fabric.list();
  if (!faults.ok()) return faults.error();
  std::string rows;
  for (const SetFault& one : faults.value()) {
    const control::FaultInfo& fault = one.fault;
    if (json) {
      rows += fmt::format(
          "{}{{\"id\":{},\"switch\":{},\"port\":{},\"at\":{},\"kind\":{},\"rule\":{},\"seed\":{},"
          "\"matched\":{},\"struck\":{}}}",
          rows.empty() ? "" : ",", json_text(one.name()), json_text(one.node), fault.rule.port,
          json_text(fabric.at(one)), json_text(to_string(fault.rule.kind)),
          json_text(describe_fault(fault.rule)), fault.rule.seed, fault.matched, fault.struck);
    } else {
      print_line(fmt::format("{:<8} {:<20} {} of {} {}: {}", one.name(), fabric.at(one), fault.struck,
                             fault.matched, one.windows ? "DMA requests" : "cells",
                             describe_fault(fault.rule)));
    }
  }
  if (json) print_line(fmt::format("{{\"faults\":[{}]}}", rows));
  return {};
}

/// `id` is SWITCH:NUMBER or PROGRAM:NUMBER; empty clears all rules of all switches and programs.
Status clear_faults(FaultControl& fabric, const std::string& id) {
  if (id.empty()) {
    for (const auto& nodes : {fabric.switches(), fabric.programs()})
      for (const std::string& node : nodes)
        if (Status cleared = fabric.clear(node, 0); !cleared) return cleared;
    return {};
  }
  const size_t colon = id.rfind(':');
  const std::optional<uint32_t> number =
      colon == std::string::npos ? std::nullopt : parse_number<uint32_t>(id.substr(colon + 1));
  if (!number)
    return Error{fmt::format(
        "a fault is named SWITCH:NUMBER or PROGRAM:NUMBER, as weft fault list prints it, not '{}'", id)};
  const std::string node = id.substr(0, colon);
  std::vector<std::string> known = fabric.switches();
  for (std::string& program : fabric.programs()) known.push_back(std::move(program));
  if (std::find(known.begin(), known.end(), node) == known.end())
    return Error{fmt::format("no switch, and no program with memory windows, is called '{}'{}", node,
                             choices(node, known))};
  return fabric.clear(node, *number);
}

/// Sets each fault of a script at its time.
Status run_script(FaultControl& fabric, const std::string& path, Made& made) {
  Result<std::vector<FaultOrder>> script = read_fault_script(path);
  if (!script.ok()) return script.error();
  const auto start = std::chrono::steady_clock::now();
  for (const FaultOrder& order : script.value()) {
    std::this_thread::sleep_until(start + order.at);
    if (Status looked = fabric.look(); !looked) return looked;  // programs may have joined or left
    if (Status set = set_fault(fabric, order, made); !set) return set;
  }
  return {};
}

Status run(const std::string& fabric_name, const Arguments& words, FaultOrder order, bool json) {
  Result<StateDir> dir = chosen_fabric(fabric_name);
  if (!dir.ok()) return dir.error();
  FaultControl fabric(std::move(dir).value());
  const bool clears_all = words[0] == "clear" && words.size() == 1;
  if (clears_all) continue_all(fabric.dir(), fabric.record());
  if (Status looked = fabric.look(); !looked) return looked;
  if (words[0] == "list") return list_faults(fabric, json);
  if (words[0] == "clear") return clear_faults(fabric, words.size() > 1 ? words[1] : "");
  Made made;
  Status done;
  if (words[0] == "script") {
    done = run_script(fabric, words[1], made);
  } else {
    done = set_fault(fabric, std::move(order), made);
  }
  if (done.ok()) return done;
  for (const SetFault& one : made) static_cast<void>(fabric.clear(one.node, one.fault.id));
  return done;
}

}  // namespace

int command_fault(const Arguments& arguments) {
  std::string fabric;
  Arguments words;
  FaultOrder order;
  bool json = false;
  CommandLine line(
      "weft fault",
      "weft fault [options] TARGET KIND [VALUE]\n       weft fault list | clear [SWITCH:NUMBER] "
      "| script FILE.toml",
      "Sets faults in a running fabric. TARGET is a node, a program, a switch (one rule for all "
      "cells that it forwards), SWITCH:PORT\nor lid:N. KIND is drop, corrupt, duplicate or "
      "reorder, each with or without a chance like 1%; delay TIME or TIME..TIME; rate\nBITS "
      "like 10Gbit or 500Mbit/s, or CELLS-PER-SECOND, for each way of each link (cells wait for "
      "their turn, and none is lost\nunless its queue moves nothing for 2 s); cut; flap UP/DOWN; freeze; "
      "kill; or fail-dma with or without a chance. Without\noptions every cell is struck, both ways, until "
      "the fault is cleared or its program has ended. clear also continues what\nfreeze has stopped. delay, "
      "cut, flap and fail-dma also strike what a program moves through memory windows (weft run\n--direct).");
  line.text("fabric,f", "NAME", fabric, "which fabric, when several run");
  line.text("chance", "PERCENT", order.chance, "strikes this share of the cells, like 1% or 0.01%");
  line.number("every", "N", order.every, 1, UINT32_MAX, "only every N-th cell that matches");
  line.text("direction", "WORD", order.direction,
            "from: cells that the node sends; to: cells that it gets; both (both)");
  line.texts("lane", "N", order.lanes, "only cells of this virtual lane; may be repeated");
  line.text("opcode", "NAME", order.opcode, "only cells of this operation: send, rdma-write, ack, ...");
  line.number("limit", "N", order.limit, 0, UINT64_MAX, "ends after this many strikes; 0: never");
  line.text("for", "TIME", order.lasts, "ends after this time, like 500ms or 5s");
  line.number("seed", "N", order.seed, 0, UINT64_MAX, "seed of its random numbers; 0: chosen and printed");
  line.flag("prepare", order.prepare,
            "TARGET is the name of a program that has not started: weft run --node TARGET");
  line.flag("json", json, "with list: one JSON object");
  line.words("TARGET", words, 1, 3);
  if (std::optional<int> code = line.parse(arguments)) return *code;
  const bool command = words[0] == "list" || words[0] == "clear" || words[0] == "script";
  const size_t most = words[0] == "list" ? 1 : command ? 2 : 3;
  if (words.size() > most || (words[0] == "script" && words.size() != 2) || (!command && words.size() < 2))
    return line.wrong_use(
        command ? fmt::format(
                      "wrong words after '{}'; the forms are: list, clear [SWITCH:NUMBER], script FILE.toml",
                      words[0])
                : "a kind of fault is missing");
  if (!command) {
    order.target = words[0];
    order.kind = words[1];
    order.value = words.size() > 2 ? words[2] : "";
    if (const Status good = check_order(order); !good) return line.wrong_use(good.error().text);
  }
  if (words[0] == "script") {
    if (const Result<std::string> text = read_text_file(words[1]); !text.ok())
      return line.wrong_use(text.error().text);
  }
  const Status done = run(fabric, words, std::move(order), json);
  return done.ok() ? kExitDone : failure("fault", done.error().text);
}

}  // namespace weft::tools
