// How it works: a command that finds no launcher forks one and waits for its report. If several commands do
// so at once, the lock of the state directory lets one launcher continue, and the other commands find its
// fabric. A command that comes while a fabric is ending waits for the end and starts the next fabric.
#include "tools/launch/used_fabric.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <sstream>
#include <thread>

#include "base/clock.h"
#include "base/environment.h"
#include "base/text_file.h"
#include "base/words.h"
#include "control/control_client.h"
#include "tools/launch/daemon.h"
#include "tools/launch/fabric_choice.h"
#include "tools/launch/launcher.h"
#include "tools/launch/node_names.h"
#include "tools/launch/surroundings.h"
#include "tools/show/program_list.h"
#include "tools/topology/topology.h"

namespace weft::tools {
namespace {

namespace fs = std::filesystem;

constexpr Duration kReadyWait = 20s;
constexpr Duration kLookAgain = 1ms;
/// The default topology has as many spare ports as a switch can have, because an unused port costs little;
/// fewer if this process may not open that many descriptors (FabricSetup::check_room()), but at least this
/// many.
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

/// The wanted fabric, and its topology in case that it must be started.
struct Plan {
  std::string fabric;
  std::string file;  // path of the topology file
  std::optional<Topology> topology;
};

bool is_file(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

/// The fabric named by WEFT_FABRIC of a surrounding program, which holds an endpoint in its state directory,
/// the directory, or the name.
std::string surrounding_fabric() {
  std::string text = environment_variable("WEFT_FABRIC");
  for (const std::string_view prefix : {"shm:", "ipc://"}) {
    if (text.starts_with(prefix)) text = fs::path(text.substr(prefix.size())).parent_path();
  }
  return text.starts_with('/') ? fs::path(text).filename().string() : text;
}

bool takes_programs(const std::string& fabric) {
  Result<StateDir> dir = StateDir::open(fabric);
  return dir.ok() && !dir->load().spare.empty();
}

/// The fabric that commands without --fabric mean, if it has spare ports; else empty. Fails when several
/// fabrics of `weft up` have them, because a program must not come to any of these by chance.
Result<std::string> fabric_for_programs() {
  Result<SeenFabrics> seen = SeenFabrics::look();
  if (!seen.ok()) return std::string();
  const std::string meant = seen->meant();
  if (!meant.empty()) return takes_programs(meant) ? meant : std::string();
  std::vector<std::string> open;
  for (const std::string& name : seen->staying())
    if (takes_programs(name)) open.push_back(name);
  if (open.size() > 1)
    return Error{fmt::format("there are several fabrics; choose with --fabric: {}", joined(open))};
  return std::string();
}

Result<Plan> planned(const std::string& choice) {
  std::string wanted = choice.empty() ? surrounding_fabric() : choice;
  if (wanted.empty()) {
    Result<std::string> meant = fabric_for_programs();
    if (!meant.ok()) return meant.error();
    wanted = std::move(*meant);
  }
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

/// Removes variables by which the launcher's processes would act as programs of the fabric or load libraries
/// of the first program.
void forget_program() {
  std::vector<std::string> names{"LD_PRELOAD", "LD_AUDIT"};
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string_view variable(*each);
    const std::string name(variable.substr(0, variable.find('=')));
    if (name.starts_with("WEFT_") && name != "WEFT_STATE_DIR") names.push_back(name);
  }
  for (const std::string& name : names) unsetenv(name.c_str());
}

/// The launcher's whole life, in its own process.
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
  report.ready(kept.empty() ? std::string()
                            : fmt::format("the started fabric keeps {} of this program, for all its users; "
                                          "better start it by weft up elsewhere",
                                          joined(kept)));
  launcher.watch();
  launcher.stop();
  return 0;
}

/// Starts the fabric. `note` is set to a text for the user, or stays empty.
Status start_fabric(const Plan& plan, std::string& note) {
  if (!plan.topology.has_value()) return Error{StateDir::not_running(plan.fabric)};
  DaemonReport report;
  Result<bool> forked = start_daemon(report);
  if (!forked.ok()) return forked.error();
  if (*forked) _exit(keep_fabric(plan, report));
  note = report.note();
  return {};
}

/// A launcher runs. True when its fabric is ready and we are registered as a user.
bool enter(StateDir& dir, UsedFabric& out) {
  out.record = dir.load();
  return out.record.ready && enter_fabric(dir, out.record, out.use) != UserEntry::kEnding;
}

const SpareRecord* find_spare(const RunRecord& record, const std::string& node) {
  const auto found = std::find_if(record.spare.begin(), record.spare.end(),
                                  [&node](const SpareRecord& spare) { return spare.node == node; });
  return found == record.spare.end() ? nullptr : &*found;
}

/// The switch that a surrounding program joined, if it belongs to this fabric; else empty.
std::string surrounding_switch(const StateDir& dir) {
  const std::string text = environment_variable("WEFT_FABRIC");
  const std::string mine = "shm:" + dir.path() + "/";
  return text.starts_with(mine) ? fs::path(text.substr(mine.size())).stem().string() : std::string();
}

/// The switch with most free spare ports; the first one if several have equally many or a switch does not
/// answer.
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
  // create() also checks that the directory belongs to this user alone; another user could have prepared it.
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
    return Error{fmt::format("no switch of fabric '{}' has spare_ports; add them to one in {}", dir.fabric(),
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

Result<std::vector<SpareRecord>> spare_switches(const StateDir& dir, const RunRecord& record,
                                                const JoinWish& wish, uint32_t adapters) {
  std::vector<SpareRecord> out;
  std::istringstream names(wish.switch_name);
  for (std::string name; std::getline(names, name, ',');) {
    Result<SpareRecord> named = spare_switch(dir, record, {name, wish.node});
    if (!named.ok()) return named.error();
    out.push_back(*named);
  }
  if (out.size() > adapters)
    return Error{fmt::format("--switch names {} switches; --adapters {} joins them", out.size(), out.size())};
  if (!out.empty()) return out;
  Result<SpareRecord> first = spare_switch(dir, record, wish);
  if (!first.ok()) return first.error();
  out.push_back(*first);
  for (const SpareRecord& spare : record.spare) {
    if (out.size() < adapters && spare.node != first->node) out.push_back(spare);
  }
  return out;
}

}  // namespace weft::tools
