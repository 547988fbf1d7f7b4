// How it works: a command that finds no launcher forks one, and waits for its word; of several that do so at
// once the lock of the state directory lets one go on, and the others find its fabric. A command that comes
// while a fabric ends waits until it has ended and starts the next one.
#include "tools/used_fabric.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <thread>

#include "base/clock.h"
#include "base/environment.h"
#include "base/text_file.h"
#include "base/words.h"
#include "control/control_client.h"
#include "tools/daemon.h"
#include "tools/fabric_choice.h"
#include "tools/launcher.h"
#include "tools/node_names.h"
#include "tools/program_list.h"
#include "tools/surroundings.h"
#include "tools/topology.h"

namespace weft::tools {
namespace {

namespace fs = std::filesystem;

constexpr Duration kReadyWait = 20s;
constexpr Duration kLookAgain = 1ms;
/// As many as a switch can have, for a port that no program has joined costs little; fewer where this process
/// may not have that many descriptors (FabricSetup::check_room()).
constexpr uint32_t kFewestSparePorts = 64;
constexpr rlim_t kDescriptorsPerPort = 4;
constexpr rlim_t kDescriptorsBesides = 128;

uint32_t default_spare_ports() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return kFewestSparePorts;
  const rlim_t room = limit.rlim_max > kDescriptorsBesides ? limit.rlim_max - kDescriptorsBesides : 0;
  return static_cast<uint32_t>(
      std::clamp<rlim_t>(room / kDescriptorsPerPort, kFewestSparePorts, kTopologyPortsMax));
}

/// Which fabric is meant, and what to start when it does not run.
struct Plan {
  std::string fabric;
  std::string file;  // of the topology
  std::optional<Topology> topology;
};

bool is_file(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

/// The fabric of the program that started us: an endpoint in its state directory, the directory, or its name.
std::string surrounding_fabric() {
  std::string text = environment_variable("WEFT_FABRIC");
  for (const std::string_view prefix : {"shm:", "ipc://"}) {
    if (text.starts_with(prefix)) text = fs::path(text.substr(prefix.size())).parent_path();
  }
  return text.starts_with('/') ? fs::path(text).filename().string() : text;
}

/// The fabric that every command means, if it takes programs.
std::string fabric_for_programs() {
  Result<SeenFabrics> seen = SeenFabrics::look();
  const std::string meant = seen.ok() ? seen->meant() : std::string();
  if (meant.empty()) return {};
  Result<StateDir> dir = StateDir::open(meant);
  return dir.ok() && !dir->load().spare.empty() ? meant : std::string();
}

Result<Plan> planned(const std::string& choice) {
  std::string wanted = choice.empty() ? surrounding_fabric() : choice;
  if (wanted.empty()) wanted = fabric_for_programs();
  Plan plan{wanted.empty() ? std::string(kDefaultFabric) : wanted, "(built in)", {}};
  std::string text;
  if (plan.fabric == kDefaultFabric) {
    text = default_topology();
  } else if (wanted.ends_with(".toml") || (wanted.find('/') != std::string::npos && is_file(wanted))) {
    plan.file = fs::absolute(wanted);
    Result<std::string> read = read_text_file(wanted);
    if (!read.ok()) return read.error();
    text = *read;
  } else {
    return plan;
  }
  Result<Topology> topology = parse_topology(text, plan.file);
  if (!topology.ok()) return topology.error();
  resolve_paths(*topology, plan.file);
  plan.fabric = topology->fabric;
  plan.topology = std::move(*topology);
  return plan;
}

/// Our own processes are no programs of the fabric, and nothing of the first program's goes into them.
void forget_program() {
  std::vector<std::string> names{"LD_PRELOAD", "LD_AUDIT"};
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string_view variable(*each);
    const std::string name(variable.substr(0, variable.find('=')));
    if (name.starts_with("WEFT_") && name != "WEFT_STATE_DIR") names.push_back(name);
  }
  for (const std::string& name : names) unsetenv(name.c_str());
}

/// The launcher's whole life, in a process of its own.
int keep_fabric(const Plan& plan, DaemonReport& report) {
  forget_program();
  show_command_line(fmt::format("weft: fabric {}", plan.fabric));
  const std::vector<std::string> kept = leave_surroundings();
  LauncherOptions options;
  options.topology_path = plan.file;
  options.quiet = options.ends_unused = options.detached = true;
  Launcher launcher(*plan.topology, options);
  Status up = launcher.start();
  const bool started = up.ok();
  if (started) up = launcher.wait_ready();
  if (!up.ok()) {
    launcher.stop();
    report.failed(up.error().text +
                  (started ? fmt::format("; see weft logs --fabric {}", plan.fabric) : std::string()));
    return 1;
  }
  report.ready(kept.empty()
                   ? std::string()
                   : fmt::format("the fabric that was started keeps {} of this program, for all that "
                                 "use it: start it by weft up elsewhere",
                                 joined(kept)));
  launcher.watch();
  launcher.stop();
  return 0;
}

/// `note`: what the user should know of the fabric that was started.
Status start_fabric(const Plan& plan, std::string& note) {
  if (!plan.topology.has_value())
    return Error{fmt::format("fabric '{}' is not running; start it with weft up FILE", plan.fabric)};
  DaemonReport report;
  Result<bool> forked = start_daemon(report);
  if (!forked.ok()) return forked.error();
  if (*forked) _exit(keep_fabric(plan, report));
  note = report.note();
  return {};
}

/// A launcher runs; is its fabric ready for a program?
bool enter(StateDir& dir, UsedFabric& out) {
  out.record = dir.load();
  return out.record.ready && enter_fabric(dir, out.record, out.use) != UserEntry::kEnding;
}

const SpareRecord* find_spare(const RunRecord& record, const std::string& node) {
  const auto found = std::find_if(record.spare.begin(), record.spare.end(),
                                  [&node](const SpareRecord& spare) { return spare.node == node; });
  return found == record.spare.end() ? nullptr : &*found;
}

/// The switch that the program around this one joins, if it is of this fabric.
std::string surrounding_switch(const StateDir& dir) {
  const std::string text = environment_variable("WEFT_FABRIC");
  const std::string mine = "shm:" + dir.path() + "/";
  return text.starts_with(mine) ? fs::path(text.substr(mine.size())).stem().string() : std::string();
}

/// The one with most free ports; the first of equals, and when no switch answers.
SpareRecord emptiest(const StateDir& dir, const RunRecord& record) {
  control::ControlClient client;
  Result<SpareView> view = look_at_spare_ports(client, dir, record);
  if (!view.ok()) return record.spare.front();
  return *std::max_element(record.spare.begin(), record.spare.end(),
                           [&view](const SpareRecord& a, const SpareRecord& b) {
                             return view->free[a.node] < view->free[b.node];
                           });
}

}  // namespace

std::string default_topology() {
  return fmt::format("fabric = \"{}\"\n[[switch]]\nname = \"s1\"\nspare_ports = {}\n", kDefaultFabric,
                     default_spare_ports());
}

Result<UsedFabric> use_fabric(const std::string& choice) {
  Result<Plan> plan = planned(choice);
  if (!plan.ok()) return plan.error();
  if (!plan->topology.has_value()) {
    if (Result<StateDir> there = StateDir::open(plan->fabric); !there.ok()) return there.error();
  }
  // Not only opened: it must be ours alone, because another user could have made it for us.
  Result<StateDir> dir = StateDir::create(plan->fabric);
  if (!dir.ok()) return dir.error();
  UsedFabric out{std::move(*dir), {}, {}, {}};
  const Instant end = MonotonicClock().now() + kReadyWait;
  while (MonotonicClock().now() < end) {
    if (out.dir.locked()) {
      if (enter(out.dir, out)) return out;
      std::this_thread::sleep_for(kLookAgain);
      continue;
    }
    const Status started = start_fabric(*plan, out.note);
    if (!started.ok() && !out.dir.locked()) return started.error();
  }
  return Error{fmt::format("fabric '{}' is not ready in time; weft status shows why", plan->fabric)};
}

Result<SpareRecord> spare_switch(const StateDir& dir, const RunRecord& record, const JoinWish& wish) {
  if (record.spare.empty())
    return Error{fmt::format("no switch of fabric '{}' has spare_ports: give one some in {}", dir.fabric(),
                             record.topology)};
  if (!wish.switch_name.empty()) {
    const SpareRecord* const named = find_spare(record, wish.switch_name);
    if (named != nullptr) return *named;
    std::vector<std::string> known;
    for (const SpareRecord& spare : record.spare) known.push_back(spare.node);
    return Error{fmt::format("no switch with spare_ports is called '{}'{}", wish.switch_name,
                             choices(wish.switch_name, known))};
  }
  if (record.spare.size() == 1) return record.spare.front();
  if (const std::optional<SpareRecord> home = home_of(dir, record, wish.node); home.has_value()) return *home;
  const std::string around = surrounding_switch(dir);
  if (const SpareRecord* const outer = find_spare(record, around); outer != nullptr) return *outer;
  return emptiest(dir, record);
}

}  // namespace weft::tools
