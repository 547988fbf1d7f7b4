// weft status, weft logs, weft exec.
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <optional>
#include <thread>

#include "base/command_line.h"
#include "base/unique_fd.h"
#include "fabric/control_client.h"
#include "tools/command.h"

namespace weft {
namespace {

using namespace std::chrono_literals;

struct NodeStatus {
  RecordedProcess process;
  bool running = false;
  bool answers = false;
  NodeInfo info;
};

std::vector<NodeStatus> ask_all(const StateDir& dir, const RunRecord& record) {
  ControlClient client;
  std::vector<NodeStatus> out;
  for (const RecordedProcess& process : record.processes) {
    if (process.program == "holder") continue;
    NodeStatus status;
    status.process = process;
    status.running = is_running(process.pid, process.start_ticks);
    if (status.running) {
      Result<ControlReply> reply = client.ask(dir.file(process.name + ".ctl"), {}, 500ms);
      status.answers = reply.ok();
      if (reply.ok()) status.info = reply.value().info;
    }
    out.push_back(std::move(status));
  }
  return out;
}

std::string state_word(const NodeStatus& node) {
  if (!node.running) return "down";
  if (!node.answers) return "does not answer";
  return node.info.fault.empty() ? node.info.state : fmt::format("{} ({})", node.info.state, node.info.fault);
}

std::string status_json(const StateDir& dir, const RunRecord& record, const std::vector<NodeStatus>& nodes,
                        bool up) {
  std::string list;
  for (const NodeStatus& node : nodes) {
    std::string sessions;
    for (const SessionInfo& s : node.info.sessions)
      sessions += fmt::format("{}{{\"peer_lid\":{},\"state\":{},\"mode\":{},\"encoding\":{},\"mac\":{}}}",
                              sessions.empty() ? "" : ",", s.peer_lid, json_text(s.state), json_text(s.mode),
                              json_text(s.encoding), json_text(s.mac));
    std::string ports;
    for (const PortInfo& p : node.info.ports)
      ports += fmt::format("{}{{\"port\":{},\"state\":{},\"lid\":{},\"peer\":{},\"carrier\":{}}}",
                           ports.empty() ? "" : ",", p.number, json_text(p.state), p.lid, json_text(p.peer),
                           json_text(p.carrier));
    list += fmt::format(
        "{}{{\"name\":{},\"program\":{},\"pid\":{},\"running\":{},\"ready\":{},\"state\":{},\"lid\":{},"
        "\"guid\":\"{:016x}\",\"restarts\":{},\"sessions\":[{}],\"ports\":[{}]}}",
        list.empty() ? "" : ",", json_text(node.process.name), json_text(node.process.program),
        node.process.pid, node.running, node.info.ready, json_text(state_word(node)), node.info.lid,
        node.info.guid, node.process.restarts, sessions, ports);
  }
  return fmt::format("{{\"fabric\":{},\"running\":{},\"topology\":{},\"state_dir\":{},\"nodes\":[{}]}}",
                     json_text(dir.fabric()), up, json_text(record.topology), json_text(dir.path()), list);
}

void print_status(const StateDir& dir, const RunRecord& record, const std::vector<NodeStatus>& nodes) {
  print_line(fmt::format("fabric {} ({}), launcher pid {}", dir.fabric(), record.topology, record.launcher));
  print_line(fmt::format("{:<12} {:<12} {:>8} {:>5} {:>8}  {}", "node", "program", "pid", "lid", "restarts",
                         "state"));
  for (const NodeStatus& node : nodes) {
    print_line(fmt::format("{:<12} {:<12} {:>8} {:>5} {:>8}  {}", node.process.name, node.process.program,
                           node.process.pid, node.info.lid, node.process.restarts, state_word(node)));
    for (const SessionInfo& s : node.info.sessions)
      print_line(fmt::format("{:<12}   session with lid {}: {}, {}, {}, {}", "", s.peer_lid, s.state, s.mode,
                             s.encoding, s.mac));
    for (const PortInfo& p : node.info.ports)
      print_line(fmt::format("{:<12}   port {}: {}{}{}", "", p.number, p.state,
                             p.peer.empty() ? "" : fmt::format(", {} (lid {})", p.peer, p.lid),
                             p.carrier.empty() ? "" : " over " + p.carrier));
  }
}

/// Prints what a log has from `at` on, every line with the node's name; returns the new place.
std::streamoff print_log(const std::string& path, const std::string& name, std::streamoff at) {
  std::ifstream in(path, std::ios::binary);
  in.seekg(at);
  for (std::string line; std::getline(in, line);) {
    if (in.eof()) break;  // no line end yet
    at += static_cast<std::streamoff>(line.size()) + 1;
    print_line(fmt::format("{:<10} {}", name, line));
  }
  return at;
}

struct LogFile {
  std::string path;
  std::string name;
  std::streamoff at = 0;
};

}  // namespace

int command_status(const Arguments& arguments) {
  std::string fabric;
  bool json = false;
  Arguments none;
  CommandLine line(
      "weft status", "weft status [options]",
      "Lists the processes of a running fabric with their sessions and ports. Exit code 0 when all are "
      "ready, else 1.");
  line.text("fabric,f", "NAME", fabric, "which one, when several run");
  line.flag("json", json, "one JSON object");
  line.words("", none, 0, 0);
  if (std::optional<int> code = line.parse(arguments)) return *code;
  Result<StateDir> dir = chosen_fabric(fabric);
  if (!dir.ok()) return failure("status", dir.error().text);
  const RunRecord record = dir.value().load();
  const bool up = dir.value().locked();
  const std::vector<NodeStatus> nodes = ask_all(dir.value(), record);
  if (json) {
    print_line(status_json(dir.value(), record, nodes, up));
  } else if (up) {
    print_status(dir.value(), record, nodes);
  } else {
    print_line(fmt::format("fabric {} is not running", dir.value().fabric()));
  }
  const bool good = up && record.ready &&
                    std::all_of(nodes.begin(), nodes.end(), [](const NodeStatus& n) { return n.info.ready; });
  return good ? kExitDone : kExitFailed;
}

int command_logs(const Arguments& arguments) {
  std::string fabric;
  bool follow = false;
  Arguments names;
  CommandLine line("weft logs", "weft logs [options] [NODE]", "Prints what the processes have logged.");
  line.text("fabric", "NAME", fabric, "which one, when several run or it has ended");
  line.flag("follow,f", follow, "goes on with new lines until Ctrl-C");
  line.words("NODE", names, 0, 1);
  if (std::optional<int> code = line.parse(arguments)) return *code;
  Result<StateDir> dir = chosen_fabric(fabric);
  if (!dir.ok()) return failure("logs", dir.error().text);
  std::vector<LogFile> files;
  for (const RecordedProcess& process : dir.value().load().processes)
    if (process.program != "holder") files.push_back({dir.value().file(process.name + ".log"), process.name});
  if (!names.empty()) {
    files.assign(1, {dir.value().file(names[0] + ".log"), names[0]});
    if (access(files[0].path.c_str(), R_OK) != 0)
      return failure("logs", fmt::format("node '{}' has no log in {}", names[0], dir.value().path()));
  }
  do {
    for (LogFile& file : files) file.at = print_log(file.path, file.name, file.at);
    if (follow) std::this_thread::sleep_for(100ms);
  } while (follow);
  return kExitDone;
}

int command_exec(const Arguments& arguments) {
  std::string fabric;
  Arguments words;
  CommandLine line(
      "weft exec", "weft exec [options] NODE -- COMMAND [ARGUMENTS]",
      "Runs a command in the network namespace of a node, where its interface is. Needs the rights that "
      "weft up had.");
  line.text("fabric,f", "NAME", fabric, "which one, when several run");
  line.words("NODE and COMMAND", words, 2, 4096);
  if (std::optional<int> code = line.parse(arguments)) return *code;
  Result<StateDir> dir = chosen_fabric(fabric);
  if (!dir.ok()) return failure("exec", dir.error().text);
  Result<RecordedProcess> node = chosen_node(dir.value().load(), words[0]);
  if (!node.ok()) return failure("exec", node.error().text);
  const UniqueFd netns(open(fmt::format("/proc/{}/ns/net", node.value().pid).c_str(), O_RDONLY | O_CLOEXEC));
  const UniqueFd own(open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC));
  if (!netns.valid())
    return failure(
        "exec",
        errno_error(fmt::format("cannot open the namespace of node '{}' (is it up?)", words[0]), errno).text);
  if (setns(netns.get(), CLONE_NEWNET) != 0)
    return failure("exec",
                   errno_error("cannot enter the namespace of the node (needs CAP_SYS_ADMIN)", errno).text);
  std::vector<char*> argv;
  for (size_t i = 1; i < words.size(); ++i) argv.push_back(words[i].data());
  argv.push_back(nullptr);
  execvp(argv[0], argv.data());
  return failure("exec", errno_error(fmt::format("cannot run '{}'", words[1]), errno).text);
}

}  // namespace weft
