// weft traffic.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <optional>

#include "base/command_line.h"
#include "base/parse_number.h"
#include "tools/commands/command.h"
#include "tools/commands/traffic_client.h"

namespace weft::tools {
namespace {

std::atomic<bool> interrupted{false};

/// The first signal ends the run in order; a second one ends this program.
void stop_or_end(int number) {
  interrupted = true;
  signal(number, SIG_DFL);
}

struct TrafficOptions {
  std::string fabric, target, target6;
  Arguments node, sizes;
  bool json = false;
  bool no_round_trips = false;
  uint64_t duration_s = 0;
  uint64_t frames = 0;
  uint32_t port = 0;
  control::TrafficRun run;
};

/// The named host, or the first host of the fabric.
Result<RecordedProcess> generator_of(const RunRecord& record, const Arguments& node) {
  if (!node.empty()) {
    Result<RecordedProcess> process = chosen_node(record, node[0]);
    if (process.ok() && process.value().program != "weft-host")
      return Error{
          fmt::format("node '{}' is no host; traffic starts at a host whose os is \"gen\"", node[0])};
    return process;
  }
  for (const RecordedProcess& process : record.processes)
    if (process.program == "weft-host") return process;
  return Error{"the fabric has no host; add [[host]] with os = \"gen\" to its topology"};
}

/// Fills the run from the options. Returns an error text if an option is wrong, else an empty one.
std::string complete(TrafficOptions& options) {
  control::TrafficRun& run = options.run;
  run.port = static_cast<uint16_t>(options.port);
  if (!options.sizes.empty()) run.sizes.clear();
  for (const std::string& size : options.sizes) {
    const uint32_t bytes = parse_number<uint32_t>(size).value_or(0);
    if (bytes < 60 || bytes > 9018)
      return fmt::format("option --size needs a frame length from 60 to 9018, not '{}'", size);
    run.sizes.push_back(bytes);
  }
  if (run.sizes.size() > control::kTrafficSizesMax) return "option --size: at most 8 lengths";
  if (options.no_round_trips) run.round_trips = 0;
  run.bulk_duration_ms = options.duration_s * 1000;
  run.bulk_frames = options.frames;
  if (options.frames == 0 && options.duration_s == 0) run.bulk_frames = 10'000;
  in_addr ipv4{};
  in6_addr ipv6{};
  if (!options.target.empty() && inet_pton(AF_INET, options.target.c_str(), &ipv4) != 1)
    return fmt::format("option --target needs an IPv4 address, not '{}'", options.target);
  if (!options.target6.empty() && inet_pton(AF_INET6, options.target6.c_str(), &ipv6) != 1)
    return fmt::format("option --target6 needs an IPv6 address, not '{}'", options.target6);
  run.target_ipv4 = ntohl(ipv4.s_addr);
  for (int i = 0; i < 8; ++i) {
    run.target_ipv6_high = run.target_ipv6_high << 8 | ipv6.s6_addr[i];
    run.target_ipv6_low = run.target_ipv6_low << 8 | ipv6.s6_addr[i + 8];
  }
  return {};
}

void show_progress(const control::TrafficFigures& figures) {
  const std::string line = fmt::format(
      "\r\x1b[2K{}: sent {}, came back {}, lost {}, corrupted {}, {:.2f} Gb/s", figures.phase,
      figures.frames_sent, figures.frames_received, figures.lost, figures.corrupted, gbps_of(figures));
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
}

int run(TrafficOptions& options) {
  Result<StateDir> dir = chosen_fabric(options.fabric);
  if (!dir.ok()) return failure("traffic", dir.error().text);
  Result<RecordedProcess> node = generator_of(dir.value().load(), options.node);
  if (!node.ok()) return failure("traffic", node.error().text);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) signal(number, stop_or_end);
  const bool terminal = isatty(STDERR_FILENO) != 0;
  Result<control::TrafficFigures> figures =
      run_traffic(dir.value().file(node.value().name + ".ctl"), options.run,
                  [terminal](const control::TrafficFigures& so_far) {
                    if (terminal) show_progress(so_far);
                    return !interrupted;
                  });
  if (terminal) [[maybe_unused]]
    const ssize_t written = write(STDERR_FILENO, "\r\x1b[2K", 5);
  if (!figures.ok()) return failure("traffic", figures.error().text);
  const bool good = all_came_back(figures.value());
  const std::string& phase = figures.value().phase;
  const bool no_answer = phase == "failed";
  if (options.json) {
    print_line(fmt::format("{{\"good\":{},{}}}", good, traffic_json_fields(figures.value())));
  } else if (!no_answer) {
    print_line(traffic_table(figures.value()));
  }
  if (no_answer)
    return failure(
        "traffic",
        fmt::format("no station on the unit's LAN answered ARP for {}; is the unit up (weft status)?",
                    options.target.empty() ? "the echo object" : options.target));
  if (phase == "too-long")
    return failure("traffic", "a frame of this size is longer than the session carries");
  if (phase == "abandoned")
    return failure("traffic", "the host ended the run: no client asked for its report for seconds");
  return good ? kExitDone : kExitFailed;
}

}  // namespace

int command_traffic(const Arguments& arguments) {
  TrafficOptions options;
  CommandLine line(
      "weft traffic", "weft traffic [options] [HOST]",
      "Drives the generator of a host whose os is \"gen\": round trips of ARP, ICMP, ICMPv6 and UDP one at "
      "a time, then a\nbulk run over UDP echo, every byte of every answer compared. Exit code 0 only if "
      "every frame came back right.");
  line.text("fabric,f", "NAME", options.fabric, "which fabric, when several run");
  line.number("frames,n", "N", options.frames, 1, 1'000'000'000'000, "frames of the bulk run (10000)");
  line.number("duration,t", "SECONDS", options.duration_s, 0, 1'000'000,
              "duration of the bulk run, instead of a number of frames");
  line.number("rate,r", "N", options.run.rate, 0, 1'000'000'000,
              "bulk frames per second; 0: as fast as answers come");
  line.texts("size", "BYTES", options.sizes,
             "frame length of the bulk run; several lengths take turns (1514)");
  line.number("window", "N", options.run.window, 1, 4096, "most bulk frames without an answer (64)");
  line.number("round-trips", "N", options.run.round_trips, 0, 1'000'000, "round trips of each kind (100)");
  line.number("answer-timeout", "MS", options.run.timeout_ms, 1, 60'000,
              "an answer later than this counts as lost");
  line.number("seed", "N", options.run.seed, 0, UINT64_MAX, "seed of the data pattern");
  line.number("port", "N", options.port, 0, 15, "number of the generator, when the host has several");
  line.text("target", "ADDRESS", options.target, "IPv4 address that answers");
  line.text("target6", "ADDRESS", options.target6, "IPv6 address that answers");
  line.flag("bulk-only", options.no_round_trips, "no round trips");
  line.flag("json", options.json, "one JSON object");
  line.words("HOST", options.node, 0, 1);
  if (std::optional<int> code = line.parse(arguments)) return *code;
  if (const std::string wrong = complete(options); !wrong.empty()) return line.wrong_use(wrong);
  return run(options);
}

}  // namespace weft::tools
