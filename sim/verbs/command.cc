#include "sim/verbs/command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <cstring>
#include <ctime>
#include <iostream>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/verbs/plan.h"
#include "sim/verbs/turn_time.h"
#include "sim/verbs/world.h"

namespace weft::sim::verbs {
namespace {

struct Floor {
  std::string_view what;
  // Half of the average, or less: a tenth or less for what comes in crowds, a hundred in one seed and none in
  // the next (windows, migrations).
  uint64_t per_100_seeds;
};
constexpr std::array kFloors{
    Floor{"event QP access error", 56},
    Floor{"event QP fatal", 103},
    Floor{"event QP request error", 24},
    Floor{"event SQ drained", 23},
    Floor{"event SRQ limit reached", 3},
    Floor{"event last WQE reached", 79},
    Floor{"event port up", 117},
    Floor{"keys moved", 100},
    Floor{"keys moved and ended", 10},
    Floor{"keys of no NIC", 10},
    Floor{"notified of any", 537},
    Floor{"notified of solicited", 435},
    Floor{"other way taken", 3},
    Floor{"peer followed to another way", 2},
    Floor{"rc bind success", 80},
    Floor{"rc compare and swap remote access error", 5},
    Floor{"rc compare and swap remote invalid request", 5},
    Floor{"rc compare and swap success", 59},
    Floor{"rc delay success", 200},
    Floor{"rc fetch and add remote access error", 4},
    Floor{"rc fetch and add remote invalid request", 4},
    Floor{"rc fetch and add success", 58},
    Floor{"rc local invalidate success", 23},
    Floor{"rc read remote access error", 11},
    Floor{"rc read remote invalid request", 10},
    Floor{"rc read success", 109},
    Floor{"rc send delivered", 217},
    Floor{"rc send remote operation error", 2},
    Floor{"rc send success", 166},
    Floor{"rc send with immediate delivered", 78},
    Floor{"rc send with immediate success", 60},
    Floor{"rc send with invalidate delivered", 6},
    Floor{"rc send with invalidate success", 5},
    Floor{"rc send work request flushed", 95},
    Floor{"rc unbind success", 17},
    Floor{"rc write remote access error", 16},
    Floor{"rc write success", 166},
    Floor{"rc write with immediate delivered", 65},
    Floor{"rc write with immediate remote access error", 6},
    Floor{"rc write with immediate success", 50},
    Floor{"rd send delivered", 198},
    Floor{"rd send remote operation error", 1},
    Floor{"rd send success", 156},
    Floor{"rd send transport retry counter exceeded", 1},
    Floor{"rd send with immediate delivered", 61},
    Floor{"rd send with immediate success", 49},
    Floor{"rd send with invalidate delivered", 1},
    Floor{"rd send with invalidate success", 1},
    Floor{"rd send work request flushed", 77},
    Floor{"rd write remote access error", 2},
    Floor{"rd write success", 47},
    Floor{"rd write with immediate delivered", 59},
    Floor{"rd write with immediate remote access error", 5},
    Floor{"rd write with immediate success", 49},
    Floor{"receive local protection error", 4},
    Floor{"region registered", 225},
    Floor{"region renewed", 12},
    Floor{"searches for another way", 8},
    Floor{"uc bind success", 153},
    Floor{"uc delay success", 61},
    Floor{"uc local invalidate success", 90},
    Floor{"uc send delivered", 154},
    Floor{"uc send local protection error", 1},
    Floor{"uc send success", 225},
    Floor{"uc send with immediate delivered", 162},
    Floor{"uc send with immediate success", 231},
    Floor{"uc write success", 201},
    Floor{"uc write with immediate delivered", 58},
    Floor{"uc write with immediate success", 99},
    Floor{"ud send delivered", 227},
    Floor{"ud send success", 335},
    Floor{"ud send with immediate delivered", 295},
    Floor{"ud send with immediate success", 446},
    Floor{"window DMA failed", 1},
    Floor{"window DMA late", 3},
    Floor{"window notifications merged", 10},
    Floor{"wrong Q_Key", 10},
    Floor{"wrong local address", 4},
    Floor{"wrong local key", 6},
    Floor{"wrong remote address", 1},
    Floor{"wrong remote key", 1},
    Floor{"receive local length error", 1},
    Floor{"receive local protection error", 3},
    Floor{"receive work request flushed", 1300},
    Floor{"completion queue resized", 4},
    Floor{"list with a bad request", 200},
    Floor{"rc register local QP operation error", 3},
    Floor{"rc register success", 12},
    Floor{"send memory window bind error", 1},
    Floor{"uc register success", 10},
    Floor{"window deallocated", 2},
    Floor{"xrc bind success", 17},
    Floor{"xrc compare and swap success", 4},
    Floor{"xrc fetch and add success", 5},
    Floor{"xrc local invalidate success", 3},
    Floor{"xrc read success", 11},
    Floor{"xrc send delivered", 25},
    Floor{"xrc send success", 20},
    Floor{"xrc send with immediate delivered", 13},
    Floor{"xrc send work request flushed", 6},
    Floor{"xrc unbind success", 1},
    Floor{"xrc write success", 20},
    Floor{"xrc write with immediate delivered", 8},
    Floor{"LID taken again", 10},
    Floor{"alternate path asked for", 15},
    Floor{"alternate path loaded again", 4},
    Floor{"datagram to a node that is no more", 5},
    Floor{"key of a node that is no more", 1},
    Floor{"event GID change", 10},
    Floor{"event LID change", 15},
    Floor{"event P_Key change", 80},
    Floor{"event client reregister", 80},
    Floor{"event path migrated", 25},
    Floor{"event path migration failed", 5},
    Floor{"event port down", 70},
    Floor{"given up, the port of the other path being down", 1},
    Floor{"event port expired", 12},
    Floor{"request that ended with a switch", 3},
    Floor{"request that outlived a switch", 17},
    Floor{"switch died", 12},
    Floor{"switch died for long", 2},
    Floor{"node died", 7},
    Floor{"node left", 8},
    Floor{"spare port taken", 2},
    Floor{"link cut", 70},
    Floor{"link cut for long", 14},
    Floor{"partitions of a port changed", 50},
    Floor{"port without its partition", 30},
    Floor{"rc send transport retry counter exceeded", 10},
    Floor{"xrc send transport retry counter exceeded", 1},
    Floor{"cells lost", 300},
    Floor{"cells damaged", 33},
    Floor{"cells doubled", 100},
    Floor{"cells swapped", 300},
    Floor{"cells late", 33},
};

double cpu_ms() {
  timespec spent{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &spent);
  return static_cast<double>(spent.tv_sec) * 1e3 + static_cast<double>(spent.tv_nsec) / 1e6;
}

/// A failed check ends the process; this line still tells the seed.
char abort_note[120];
void on_fatal_signal(int signal_number) {
  static_cast<void>(!write(STDERR_FILENO, abort_note, strlen(abort_note)));
  std::signal(signal_number, SIG_DFL);
  static_cast<void>(std::raise(signal_number));
}

std::string replay_of(uint64_t seed) {
  return fmt::format("weft-sim --traffic verbs --seed {} --verbose", seed);
}

void tell_failure(const CommandOptions& options, const Plan& plan, Outcome outcome) {
  fmt::print("seed {} failed: {}\n  replay: {}\n", plan.seed, outcome.violations.front(),
             replay_of(plan.seed));
  if (!options.verbose && !options.shrink) return;
  std::set<uint64_t> left_out;
  if (options.shrink) left_out = shrink(plan);
  outcome = run(plan, {.leave_out = &left_out, .cells = options.cells, .tells = true});
  if (options.shrink)
    fmt::print("  shrunk to {} calls: {}\n", plan.operations - left_out.size(), outcome.violations.front());
  for (const std::string& line : outcome.around) fmt::print("    {}\n", line);
  for (const std::string& line : outcome.violations) fmt::print("  {}\n", line);
}

/// A number of each seed, with the seed.
using PerSeed = std::vector<std::pair<double, uint64_t>>;

/// The value below which `per_mille` of the sorted numbers lie.
double part_of(const PerSeed& sorted, size_t per_mille) {
  return sorted[std::min(sorted.size() - 1, sorted.size() * per_mille / 1000)].first;
}

void print_sums(const Tally& tally, const PerSeed& cpu, const PerSeed& turns, uint64_t failed) {
  for (const auto& [what, times] : tally.count) fmt::print("  {:>9}  {}\n", times, what);
  fmt::print("{} seeds, {} failed\n", cpu.size(), failed);
  fmt::print("CPU per seed: median {:.1f} ms, p90 {:.1f}, p99 {:.1f}, slowest {:.1f} (seed {})\n",
             part_of(cpu, 500), part_of(cpu, 900), part_of(cpu, 990), cpu.back().first, cpu.back().second);
  const auto slowest = std::max_element(turns.begin(), turns.end());
  fmt::print("slowest turn of an adapter: {:.0f} us of CPU (seed {})\n", slowest->first, slowest->second);
}

void print_json(uint64_t from, const Tally& tally, const PerSeed& cpu, const PerSeed& turns,
                uint64_t failed) {
  std::string counts;
  for (const auto& [what, times] : tally.count)
    counts += fmt::format("{}\"{}\":{}", counts.empty() ? "" : ",", what, times);
  const auto slowest = std::max_element(turns.begin(), turns.end());
  fmt::print(
      "{{\"seeds\":{},\"from\":{},\"failed\":{},\"cpu_ms_p50\":{:.1f},\"cpu_ms_p90\":{:.1f},"
      "\"cpu_ms_p99\":{:.1f},\"cpu_ms_max\":{:.1f},\"cpu_ms_max_seed\":{},\"turn_us_max\":{:.0f},"
      "\"turn_us_max_seed\":{},\"counts\":{{{}}}}}\n",
      cpu.size(), from, failed, part_of(cpu, 500), part_of(cpu, 900), part_of(cpu, 990), cpu.back().first,
      cpu.back().second, slowest->first, slowest->second, counts);
}

/// The least number that `seeds` arbitrary seeds must have: three standard deviations below the average. For
/// an average below 4 nothing is required; otherwise at least 1.
uint64_t least_of(uint64_t per_100_seeds, uint64_t seeds) {
  const double expected = static_cast<double>(per_100_seeds * seeds) / 100;
  if (expected < 4) return 0;
  return static_cast<uint64_t>(std::max(1.0, expected - 3 * std::sqrt(expected)));
}

}  // namespace

std::string too_few(const Tally& tally, uint64_t seeds) {
  std::string few;
  for (const Floor& floor : kFloors) {
    const auto found = tally.count.find(std::string(floor.what));
    const uint64_t times = found == tally.count.end() ? 0 : found->second;
    const uint64_t least = least_of(floor.per_100_seeds, seeds);
    if (times < least)
      few += fmt::format("{}{} {} instead of {} or more", few.empty() ? "" : "; ", floor.what, times, least);
  }
  return few;
}

Outcome run_timed(const Plan& plan) {
  constexpr uint32_t kMoreRuns = 2;
  Outcome outcome = run(plan);
  for (uint32_t i = 0; i < kMoreRuns && outcome.slowest_turn > kTurnMost; ++i)
    outcome.slowest_turn = std::min(outcome.slowest_turn, run(plan).slowest_turn);
  if (outcome.slowest_turn <= kTurnMost) return outcome;
  outcome.ok = false;
  outcome.violations.push_back(fmt::format("a turn of an adapter took {} us of CPU",
                                           outcome.slowest_turn / std::chrono::microseconds(1)));
  return outcome;
}

int run_command(const CommandOptions& options) {
  std::signal(SIGABRT, on_fatal_signal);
  std::signal(SIGSEGV, on_fatal_signal);
  Tally tally;
  uint64_t failed = 0;
  PerSeed cpu;
  PerSeed turns;
  for (uint64_t seed = options.from; seed < options.from + options.seeds; ++seed) {
    const Plan plan = make_plan(seed);
    if (options.verbose || options.plan_only) std::cout << describe(plan);
    if (options.plan_only) continue;
    const std::string note = "aborted; replay: " + replay_of(seed) + "\n";
    note.copy(abort_note, sizeof abort_note - 1);
    abort_note[std::min(note.size(), sizeof abort_note - 1)] = '\0';
    const double before = cpu_ms();
    const Outcome outcome = run_timed(plan);
    cpu.emplace_back(cpu_ms() - before, seed);
    turns.emplace_back(std::chrono::duration<double, std::micro>(outcome.slowest_turn).count(), seed);
    tally += outcome.tally;
    if (options.verbose || options.each)
      fmt::print(
          "seed {} {}: {} calls, {} turns, {:.3f} virtual s, {:.1f} ms CPU, slowest turn {:.0f} us, hash "
          "{:016x}\n",
          seed, outcome.ok ? "ok" : "FAILED", outcome.calls, outcome.turns,
          std::chrono::duration<double>(outcome.ended.time_since_epoch()).count(), cpu.back().first,
          turns.back().first, outcome.hash);
    if (outcome.ok) continue;
    tell_failure(options, plan, outcome);
    if (++failed == 10 && !options.keep_going) break;
  }
  if (cpu.empty()) return 0;
  std::sort(cpu.begin(), cpu.end());
  if (options.json) {
    print_json(options.from, tally, cpu, turns, failed);
  } else {
    print_sums(tally, cpu, turns, failed);
  }
  const std::string few = cpu.size() >= kTallySeedsMin ? too_few(tally, cpu.size()) : "";
  if (!few.empty()) fmt::print(stderr, "too little was tried: {}\n", few);
  return failed == 0 && few.empty() ? 0 : 1;
}

}  // namespace weft::sim::verbs
