// weft up, weft down.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <optional>

#include "base/command_line.h"
#include "base/log.h"
#include "base/standard_descriptors.h"
#include "base/text_file.h"
#include "tools/commands/command.h"
#include "tools/launch/daemon.h"
#include "tools/launch/fabric_end.h"
#include "tools/launch/launcher.h"
#include "tools/topology/node_commands.h"

namespace weft::tools {
namespace {

using namespace std::chrono_literals;

struct UpOptions {
  bool check = false;
  bool json = false;  // for --check
  bool detach = false;
  bool no_restart = false;
  bool quiet = false;
  uint32_t timeout_s = 15;
  LauncherOptions launcher;
};

int run_fabric(Topology topology, const UpOptions& options, DaemonReport& report) {
  const std::string fabric = topology.fabric;
  const auto start = std::chrono::steady_clock::now();
  Launcher launcher(std::move(topology), options.launcher);
  Status up = launcher.start();
  const bool started = up.ok();
  if (started) up = launcher.wait_ready();
  if (!up.ok()) {
    launcher.stop();
    if (launcher.stop_requested() && up.error().text == "stopped by a signal") return kExitDone;
    const std::string why =
        up.error().text + (started ? fmt::format("; see weft logs --fabric {}", fabric) : std::string());
    report.failed(why);
    return failure("up", why);
  }
  const auto took =
      std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - start);
  if (!options.quiet && !options.launcher.live)
    print_line(
        fmt::format("fabric '{}' is up after {} ms; end it with Ctrl-C or weft down", fabric, took.count()));
  report.ready();
  launcher.watch();
  launcher.stop();
  if (!options.quiet) print_line(fmt::format("fabric '{}' is down", fabric));
  return kExitDone;
}

/// The fabric to end; nothing when none runs and none was left behind.
Result<std::optional<StateDir>> fabric_to_end(const std::string& name) {
  Result<StateDir> dir = Error{};
  if (name.empty()) {
    Result<SeenFabrics> seen = SeenFabrics::look();
    if (!seen.ok()) return seen.error();
    Result<std::vector<std::string>> candidates = seen->found(Among::kLeft);
    if (!candidates.ok()) return candidates.error();
    if (candidates->empty()) return std::optional<StateDir>();
    dir = seen->choose(Among::kLeft);
  } else {
    dir = chosen_fabric(name, Among::kLeft);
  }
  if (!dir.ok()) return dir.error();
  return std::optional<StateDir>(std::move(*dir));
}

constexpr Duration kDownPatience = 15s;

int after_end(const StateDir& dir, FabricEnd end) {
  const pid_t launcher = dir.load().launcher;
  switch (end) {
    case FabricEnd::kEnded:
      clean_up_leftovers(dir, dir.load());
      return kExitDone;
    case FabricEnd::kReplaced:
      print_line(fmt::format("fabric '{}' has ended; another has been started since", dir.fabric()));
      return kExitDone;
    case FabricEnd::kHidden:
      return failure("down", fmt::format("the launcher of fabric '{}' (pid {}) runs in another namespace of "
                                         "processes, or has just started; use weft down there, or repeat it",
                                         dir.fabric(), launcher));
    case FabricEnd::kStays:
      break;
  }
  return failure("down", fmt::format("the launcher (pid {}) does not end; kill -9 it and repeat", launcher));
}

std::string counted(size_t count, const char* one, const char* many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

/// What `weft up` would refuse before it starts anything.
Status check_topology(Result<Topology>& topology, const std::string& file) {
  if (!topology.ok()) return topology.error();
  resolve_paths(topology.value(), file);
  return check_curve_keys(topology.value());
}

/// Output of `weft up --check --json`; docs/json.md.
int print_check(const std::string& file, Result<Topology>& topology, const Status& checked) {
  if (!checked.ok()) {
    print_line(fmt::format("{{\"file\":{},\"good\":false,\"error\":{}}}", json_text(file),
                           json_text(checked.error().text)));
    return kExitFailed;
  }
  print_line(
      fmt::format("{{\"file\":{},\"good\":true,\"fabric\":{},\"switches\":{},\"hosts\":{},\"units\":{}}}",
                  json_text(file), json_text(topology->fabric), topology->switches.size(),
                  topology->hosts.size(), topology->units.size()));
  return kExitDone;
}

}  // namespace

int command_up(const Arguments& arguments) {
  UpOptions options;
  Arguments files;
  CommandLine line(
      "weft up", "weft up [options] FILE",
      "Starts the switches, hosts and I/O units of a topology file, waits until their sessions are "
      "open,\nrestarts processes that die, and ends everything on Ctrl-C. TAP interfaces and namespaces need "
      "root or\n`unshare -Urn`; `os = \"gen\"` with `nic = \"echo\"` needs nothing.");
  line.flag("check", options.check, "only checks the file");
  line.flag("json", options.json, "with --check: one JSON object");
  line.flag("detach,d", options.detach, "returns once the fabric is ready; weft down ends it");
  line.flag("no-restart", options.no_restart, "does not restart processes that die");
  line.flag("quiet,q", options.quiet, "prints nothing but errors");
  line.number("timeout", "SECONDS", options.timeout_s, 1, 3600,
              "longest wait until every session is open (15)");
  std::string log_level = "info";
  line.text("log-level", "LEVEL", log_level, "log level of the processes: debug, info, warn, error (info)");
  line.words("FILE", files, 1, 1);
  if (std::optional<int> code = line.parse(arguments)) return *code;
  if (options.json && !options.check) return line.wrong_use("option --json needs --check");
  if (!parse_log_level(log_level, options.launcher.log_level))
    return line.wrong_use(
        fmt::format("option --log-level is debug, info, warn or error, not '{}'", log_level));

  const Result<std::string> text = read_text_file(files[0]);
  if (!text.ok()) return line.wrong_use(text.error().text);
  Result<Topology> topology = parse_topology(text.value(), files[0]);
  const Status checked = check_topology(topology, files[0]);
  if (options.check && options.json) return print_check(files[0], topology, checked);
  if (!checked.ok()) return failure("up", checked.error().text);
  if (options.check) {
    const Topology& t = topology.value();
    print_line(fmt::format("{}: fabric '{}', {}, {}, {}: good", files[0], t.fabric,
                           counted(t.switches.size(), "switch", "switches"),
                           counted(t.hosts.size(), "host", "hosts"),
                           counted(t.units.size(), "unit", "units")));
    return kExitDone;
  }
  options.launcher.topology_path = std::filesystem::absolute(files[0]);
  options.launcher.ready_timeout = std::chrono::seconds(options.timeout_s);
  options.launcher.restart = !options.no_restart;
  options.launcher.quiet = options.quiet || options.detach;
  options.launcher.live = !options.quiet && !options.detach && isatty(STDOUT_FILENO) != 0;
  options.launcher.detached = options.detach;
  DaemonReport report;
  if (options.detach) {
    const Result<bool> forked = start_daemon(report);
    if (!forked.ok()) return failure("up", forked.error().text);
    if (!forked.value()) {
      // A starter that has closed standard output wants no line, and the missing line is no failure.
      if (!options.quiet && has_standard_output())
        print_line("the fabric is up; weft status shows it, weft down ends it");
      return kExitDone;
    }
  }
  return run_fabric(std::move(topology).value(), options, report);
}

int command_down(const Arguments& arguments) {
  std::string fabric;
  Arguments none;
  CommandLine line("weft down", "weft down [options]",
                   "Ends a running fabric and waits for its end. Also cleans up after a launcher that was "
                   "killed. Exit code 0 also when no fabric\nruns.");
  line.text("fabric,f", "NAME", fabric, "which fabric, when several run");
  line.words("", none, 0, 0);
  if (std::optional<int> code = line.parse(arguments)) return *code;
  Result<std::optional<StateDir>> found = fabric_to_end(fabric);
  if (!found.ok()) return failure("down", found.error().text);
  if (!found->has_value()) {
    (void)failure("down", "no fabric is running");
    return kExitDone;
  }
  StateDir& dir = **found;
  return after_end(dir, end_fabric(dir, kDownPatience));
}

}  // namespace weft::tools
