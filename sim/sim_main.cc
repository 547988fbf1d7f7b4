// weft-sim -- runs simulated fabrics by seed and prints how to replay a failure. docs/simulator.md.
#include <fmt/core.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <csignal>
#include <cstring>
#include <ctime>
#include <iostream>
#include <random>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/standard_descriptors.h"
#include "sim/verbs/command.h"
#include "sim/world.h"

namespace weft::sim {
namespace {

namespace po = boost::program_options;

struct Options {
  uint64_t from = 0;
  uint64_t seeds = 1;
  Profile profile = Profile::kMixed;
  Traffic traffic = Traffic::kAny;
  uint32_t edition = kPlanEdition;
  bool verbose = false;
  bool flits = false;
  bool json = false;
  bool plan_only = false;
  bool keep_going = false;
  bool each = false;
  bool verbs = false;  // random programs of verbs in place of a world
  bool shrink = false;
};

struct Tally {
  uint64_t runs = 0;
  uint64_t failed = 0;
  uint64_t frames_sent = 0;
  uint64_t frames_arrived = 0;
  uint64_t frames_lost = 0;
  FaultEffects effects;
  uint64_t runs_with_crash = 0;
  std::vector<std::pair<double, uint64_t>> cpu_ms;  // CPU time and seed
};

/// A failed check ends the process; this line still tells the seed.
char abort_note[160];
void on_fatal_signal(int signal_number) {
  static_cast<void>(!write(STDERR_FILENO, abort_note, strlen(abort_note)));
  std::signal(signal_number, SIG_DFL);
  static_cast<void>(std::raise(signal_number));
}

std::string replay_command(const Options& options, uint64_t seed) {
  std::string command = fmt::format("weft-sim --seed {} --profile {} --traffic {} --verbose", seed,
                                    to_string(options.profile), to_string(options.traffic));
  if (options.edition != kPlanEdition) command += fmt::format(" --edition {}", options.edition);
  return command;
}

double cpu_ms() {
  timespec spent{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &spent);
  return static_cast<double>(spent.tv_sec) * 1e3 + static_cast<double>(spent.tv_nsec) / 1e6;
}

bool run_one(const Options& options, uint64_t seed, Tally& tally) {
  const std::string note = fmt::format("aborted; replay: {}\n", replay_command(options, seed));
  note.copy(abort_note, sizeof abort_note - 1);
  abort_note[std::min(note.size(), sizeof abort_note - 1)] = '\0';
  WorldOutput output;
  if (options.verbose) {
    std::cout << describe(make_world_plan(seed, options.profile, options.traffic, options.edition));
    output.trace = &std::cout;
    output.flits = options.flits;
  }
  const double before = cpu_ms();
  const WorldResult result = run_world(seed, options.profile, options.traffic, output, options.edition);
  const double spent = cpu_ms() - before;
  tally.cpu_ms.emplace_back(spent, seed);
  ++tally.runs;
  tally.frames_sent += result.frames.sent;
  tally.frames_arrived += result.frames.arrived;
  tally.frames_lost += result.frames.lost_to_crash;
  tally.effects += result.effects;
  tally.runs_with_crash += result.effects.nodes_died != 0 ? 1 : 0;
  if (options.verbose || options.each) {
    fmt::print(
        "seed {} {}: {} turns, {} flits, {:.3f} virtual s, {:.1f} ms CPU, frames {} sent {} arrived {} "
        "excused, hash "
        "{:016x}\n",
        seed, result.ok ? "ok" : "FAILED", result.turns, result.flits,
        std::chrono::duration<double>(result.ended.time_since_epoch()).count(), spent, result.frames.sent,
        result.frames.arrived, result.frames.lost_to_crash, result.trace_hash);
  }
  if (result.ok) return true;
  ++tally.failed;
  fmt::print("seed {} failed at {}\n  replay: {}\n", seed, result.violations.front(),
             replay_command(options, seed));
  return false;
}

void print_tally(const Options& options, Tally& tally) {
  std::sort(tally.cpu_ms.begin(), tally.cpu_ms.end());
  const auto cpu = [&](size_t per_mille) {
    return tally.cpu_ms[std::min(tally.cpu_ms.size() - 1, tally.cpu_ms.size() * per_mille / 1000)];
  };
  const auto [slowest_ms, slowest] = tally.cpu_ms.back();
  if (options.json) {
    fmt::print(
        "{{\"seeds\":{},\"from\":{},\"failed\":{},\"seeds_with_crashes\":{},\"crashes\":{},\"frames_sent\":{}"
        ","
        "\"frames_arrived\":{},\"frames_excused\":{},\"cpu_ms_p50\":{:.1f},\"cpu_ms_p90\":{:.1f},"
        "\"cpu_ms_p99\":{:.1f},\"cpu_ms_max\":{:.1f},\"cpu_ms_max_seed\":{}}}\n",
        tally.runs, options.from, tally.failed, tally.runs_with_crash, tally.effects.nodes_died,
        tally.frames_sent, tally.frames_arrived, tally.frames_lost, cpu(500).first, cpu(900).first,
        cpu(990).first, slowest_ms, slowest);
    return;
  }
  fmt::print(
      "{} seeds from {}, {} failed; {} with crashes; frames {} sent, {} arrived, {} lost with a reason\n",
      tally.runs, options.from, tally.failed, tally.runs_with_crash, tally.frames_sent, tally.frames_arrived,
      tally.frames_lost);
  fmt::print("faults counted by links, queue pairs and nodes: {}\n", describe(tally.effects));
  fmt::print("CPU per seed: median {:.1f} ms, p90 {:.1f}, p99 {:.1f}, slowest {:.1f} (seed {})\n",
             cpu(500).first, cpu(900).first, cpu(990).first, slowest_ms, slowest);
}

uint64_t fresh_seed() {
  std::random_device device;
  return (uint64_t{device()} << 16 ^ device()) & 0xFFFF'FFFF'FFFF;
}

/// Returns 0 to go on, otherwise the exit code plus one.
int parse(int argc, char** argv, Options& options) {
  po::options_description visible("weft-sim: whole fabrics in one thread and virtual time, by seed");
  std::string profile = "mixed";
  std::string traffic = "any";
  visible.add_options()("help,h", "this text")("version", "version of weft")("seed", po::value<uint64_t>(),
                                                                             "run only this seed")(
      "seeds", po::value<uint64_t>(&options.seeds)->default_value(100), "number of seeds to run")(
      "from", po::value<uint64_t>(), "first seed; default: a new one, which is printed")(
      "profile", po::value(&profile)->default_value("mixed"),
      "mixed, clean, flits, cells, crashes, pressure or everything")(
      "traffic", po::value(&traffic)->default_value("any"),
      "any, cells (between link endpoints), raw (queue pairs), netdev (split driver) or verbs (random "
      "programs "
      "against a model; it draws its own profile)")("verbose,v", po::bool_switch(&options.verbose),
                                                    "print plan and trace")(
      "flits", po::bool_switch(&options.flits), "also trace flits")(
      "plan", po::bool_switch(&options.plan_only), "only print the plan")(
      "edition", po::value(&options.edition)->default_value(kPlanEdition),
      "edition of the plans, from 1; each edition adds to the previous one")(
      "keep-going,k", po::bool_switch(&options.keep_going), "do not stop after ten failures")(
      "shrink", po::bool_switch(&options.shrink),
      "with verbs: leave out the calls that the failure does not need")(
      "each", po::bool_switch(&options.each), "one line per seed with its work and CPU time")(
      "json", po::bool_switch(&options.json), "the summary as one JSON object")(
      "config", po::value<std::string>(), "a file with lines option = value");
  po::variables_map given;
  po::store(po::parse_command_line(argc, argv, visible), given);
  if (given.count("config") != 0) {
    po::store(po::parse_config_file(given["config"].as<std::string>().c_str(), visible), given);
  }
  po::notify(given);
  if (given.count("help") != 0) {
    std::cout << visible;
    return 1;
  }
  if (given.count("version") != 0) {
    fmt::print("weft-sim {}\n", WEFT_VERSION);
    return 1;
  }
  if (!parse_profile(profile, options.profile))
    throw po::error("unknown profile '" + profile + "'; see --help");
  options.verbs = traffic == "verbs";
  if (!options.verbs && !parse_traffic(traffic, options.traffic))
    throw po::error("unknown traffic '" + traffic + "'; see --help");
  options.from = given.count("from") != 0 ? given["from"].as<uint64_t>() : fresh_seed();
  if (given.count("seed") != 0) {
    options.from = given["seed"].as<uint64_t>();
    options.seeds = 1;
  }
  return 0;
}

int run_verbs(const Options& options) {
  log_setup("weft-sim", LogLevel::kError);
  return verbs::run_command({.from = options.from,
                             .seeds = options.seeds,
                             .verbose = options.verbose,
                             .cells = options.flits,
                             .plan_only = options.plan_only,
                             .keep_going = options.keep_going,
                             .each = options.each,
                             .shrink = options.shrink,
                             .json = options.json});
}

int run_all(const Options& options) {
  if (options.verbs) return run_verbs(options);
  std::signal(SIGABRT, on_fatal_signal);
  std::signal(SIGSEGV, on_fatal_signal);
  log_setup("weft-sim", options.verbose ? LogLevel::kInfo : LogLevel::kError);
  Tally tally;
  for (uint64_t i = 0; i < options.seeds; ++i) {
    if (options.plan_only) {
      std::cout << describe(
          make_world_plan(options.from + i, options.profile, options.traffic, options.edition));
      continue;
    }
    const bool ok = run_one(options, options.from + i, tally);
    if (!ok && !options.keep_going && tally.failed >= 10) break;
  }
  if (options.plan_only || tally.runs == 0) return 0;
  print_tally(options, tally);
  const bool judged =
      options.profile == Profile::kMixed && options.traffic == Traffic::kAny && tally.runs >= kFloorSeedsMin;
  const std::string few = judged ? too_few_faults(tally.effects, tally.runs) : "";
  if (!few.empty()) fmt::print(stderr, "too few faults struck: {}\n", few);
  return tally.failed == 0 && few.empty() ? 0 : 1;
}

}  // namespace
}  // namespace weft::sim

int main(int argc, char** argv) {
  weft::occupy_standard_descriptors();
  weft::sim::Options options;
  try {
    if (const int code = weft::sim::parse(argc, argv, options); code != 0) return code - 1;
  } catch (const std::exception& error) {
    fmt::print(stderr, "weft-sim: {}; see weft-sim --help\n", error.what());
    return 2;
  }
  return weft::sim::run_all(options);
}
