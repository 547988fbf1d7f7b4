// weft demo: starts the built-in echo fabric, runs traffic, prints a table, and removes everything.
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <fstream>
#include <optional>
#include <thread>

#include "base/command_line.h"
#include "base/stats_page.h"
#include "tools/commands/command.h"
#include "tools/commands/traffic_client.h"
#include "tools/launch/launcher.h"

namespace weft::tools {
namespace {

constexpr std::string_view kDemoTopology = R"([[switch]]
name = "s1"

[[host]]
name = "h1"
os = "gen"

[[unit]]
name = "u1"
nic = "echo"
)";

struct DemoOptions {
  bool json = false;
  uint64_t frames = 200'000;
  uint32_t round_trips = 1'000;
  std::string link = "auto";
};

struct DemoCounters {
  uint64_t writes_with_idata = 0;
  uint64_t retries = 0;
  uint64_t credit_stalls = 0;
};

/// Sums counters over all processes while their pages still exist.
DemoCounters read_counters(const std::string& state_path) {
  DemoCounters sum;
  for (const char* node : {"s1", "h1", "u1"}) {
    const auto page = read_stats_page(fmt::format("{}/{}.stats", state_path, node));
    if (!page.ok()) continue;
    for (const auto& [name, value] : page.value()) {
      if (name.ends_with(".writes_with_idata")) sum.writes_with_idata += value;
      if (name.ends_with(".cells_repeated") || name.ends_with(".repeats_served")) sum.retries += value;
      if (name.ends_with(".credit_stalls")) sum.credit_stalls += value;
    }
  }
  return sum;
}

std::string demo_topology(const DemoOptions& options) {
  std::string text = fmt::format("fabric = \"demo-{}\"\n\n{}", getpid(), kDemoTopology);
  if (options.link == "auto") return text;
  for (const std::string_view kind : {"os = \"gen\"\n", "nic = \"echo\"\n"})
    text.insert(text.find(kind) + kind.size(), fmt::format("link = \"{}\"\n", options.link));
  return text;
}

/// Prints the logs of the processes before their directory is removed.
void print_logs(const std::string& state_path) {
  for (const char* node : {"s1", "h1", "u1"}) {
    std::ifstream log(fmt::format("{}/{}.log", state_path, node));
    for (std::string line; std::getline(log, line);) {
      const std::string named = fmt::format("{} {}\n", node, line);
      [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, named.data(), named.size());
    }
  }
}

/// Runs the traffic in another thread, while the launcher continues to watch its processes.
Result<control::TrafficFigures> drive(Launcher& launcher, const DemoOptions& options) {
  control::TrafficRun run;
  run.round_trips = options.round_trips;
  run.bulk_frames = options.frames;
  run.sizes = {98, 594, 1514};
  std::optional<Result<control::TrafficFigures>> result;
  std::atomic<bool> done{false};
  const std::string control = launcher.state_path() + "/h1.ctl";
  std::thread driver([&] {
    result =
        run_traffic(control, run, [&](const control::TrafficFigures&) { return !launcher.stop_requested(); });
    done = true;
  });
  launcher.watch([&done] { return !done; });
  driver.join();
  return std::move(*result);
}

void print_report(const control::TrafficFigures& figures, const DemoCounters& counters) {
  print_line("\n  h1 (weft-host, generator) --- s1 (weft-switch) --- u1 (weft-iou, echo LAN)\n");
  print_line(traffic_table(figures));
  print_line(fmt::format("  RDMA writes with immediate data {}, retries {}, credit stalls {}",
                         counters.writes_with_idata, counters.retries, counters.credit_stalls));
}

int run_demo(const DemoOptions& options) {
  const std::string text = demo_topology(options);
  Result<Topology> topology = parse_topology(text, "demo");
  if (!topology.ok()) return failure("demo", topology.error().text);
  const std::string fabric = topology.value().fabric;
  LauncherOptions launcher_options;
  launcher_options.topology_path = "(built in)";
  launcher_options.quiet = options.json;
  Launcher launcher(std::move(topology).value(), launcher_options);
  Status up = launcher.start();
  if (up.ok()) up = launcher.wait_ready();
  Result<control::TrafficFigures> figures =
      up.ok() ? drive(launcher, options) : Result<control::TrafficFigures>(up.error());
  DemoCounters counters;
  // Counters of queue pairs are copied to the page every 500 ms.
  const Instant settled = MonotonicClock().now() + std::chrono::milliseconds(600);
  if (figures.ok()) launcher.watch([&] { return MonotonicClock().now() < settled; });
  if (figures.ok()) counters = read_counters(launcher.state_path());
  launcher.stop();
  Result<StateDir> dir = StateDir::open(fabric);
  if (dir.ok()) {
    if (!figures.ok()) print_logs(dir.value().path());
    dir.value().remove_all();
  }
  if (!figures.ok()) return failure("demo", figures.error().text);

  const bool good = all_came_back(figures.value());
  if (options.json) {
    print_line(
        fmt::format("{{\"good\":{},{},\"rdma_writes_with_idata\":{},\"retries\":{},\"credit_stalls\":{},"
                    "\"topology\":{}}}",
                    good, traffic_json_fields(figures.value()), counters.writes_with_idata, counters.retries,
                    counters.credit_stalls, json_text(text)));
  } else {
    print_line("\n" + text);
    print_report(figures.value(), counters);
  }
  return good ? kExitDone : failure("demo", "not every frame came back right");
}

}  // namespace

int command_demo(const Arguments& arguments) {
  DemoOptions options;
  Arguments none;
  CommandLine line(
      "weft demo", "weft demo [options]",
      "Starts a switch, a host with a traffic generator and a unit with an echo LAN as three processes, "
      "sends ARP, ICMP,\nICMPv6 and UDP round trips and a bulk run, compares every byte and ends the "
      "processes. Needs no rights. Exit code 0\nonly if every frame came back right.");
  line.number("frames,n", "N", options.frames, 1, 1'000'000'000'000, "frames of the bulk run (200000)");
  line.number("round-trips", "N", options.round_trips, 1, 1'000'000, "round trips of each kind (1000)");
  line.text("link", "KIND", options.link, "auto, shm or zmq");
  line.flag("json", options.json, "one JSON object");
  line.words("", none, 0, 0);
  if (std::optional<int> code = line.parse(arguments)) return *code;
  if (options.link != "auto" && options.link != "shm" && options.link != "zmq")
    return line.wrong_use(fmt::format("option --link is auto, shm or zmq, not '{}'", options.link));
  return run_demo(options);
}

}  // namespace weft::tools
