// The whole path under faults: fresh seeds each time, and every seed that ever failed again (decisions 5.2).
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "base/log.h"
#include "sim/world.h"

namespace weft::sim {
namespace {

/// Fresh seeds of a run; WEFT_SIM_SEEDS says otherwise, for builds that are slow.
constexpr uint64_t kFreshSeeds = 300;

/// Sessions come and go by the thousand; their log lines belong to the processes.
class Quiet final : public ::testing::Environment {
 public:
  void SetUp() override { log_setup("test_sim", LogLevel::kError); }
};
const auto* const kQuiet = ::testing::AddGlobalTestEnvironment(std::make_unique<Quiet>().release());

std::string replay_hint(uint64_t seed, Profile profile, Traffic traffic) {
  std::ostringstream text;
  text << "replay: weft-sim --seed " << seed << " --profile " << to_string(profile) << " --traffic "
       << to_string(traffic) << " --verbose";
  return text.str();
}

FaultEffects run_and_expect_ok(uint64_t seed, Profile profile, Traffic traffic,
                               uint32_t edition = kPlanEdition) {
  const WorldResult result = run_world(seed, profile, traffic, {}, edition);
  EXPECT_TRUE(result.ok) << "seed " << seed << ": "
                         << (result.violations.empty() ? "" : result.violations.front()) << '\n'
                         << replay_hint(seed, profile, traffic);
  return result.effects;
}

uint64_t base_seed() {
  if (const char* given = std::getenv("WEFT_SIM_SEED"); given != nullptr)
    return std::strtoull(given, nullptr, 0);
  return static_cast<uint64_t>(std::chrono::system_clock::now().time_since_epoch().count()) &
         0xFFFF'FFFF'FFFF;
}

uint64_t fresh_seeds() {
  const char* given = std::getenv("WEFT_SIM_SEEDS");
  return given == nullptr ? kFreshSeeds : std::strtoull(given, nullptr, 10);
}

TEST(SimSeeds, fresh_seeds_keep_every_invariant) {
  const uint64_t base = base_seed();
  const uint64_t count = fresh_seeds();
  std::cout << "fresh seeds " << base << " to " << base + count - 1 << "; again with WEFT_SIM_SEED=" << base
            << std::endl;
  FaultEffects effects;
  for (uint64_t i = 0; i < count; ++i) {
    // Known before the run, should a check end the process.
    if (i % 50 == 0) std::cout << "at seed " << base + i << std::endl;
    effects += run_and_expect_ok(base + i, Profile::kMixed, Traffic::kAny);
    if (::testing::Test::HasFailure() && i > 20) return;
  }
  if (count < kFloorSeedsMin) return;
  EXPECT_EQ(too_few_faults(effects, count), "") << "faults that are planned and do not strike show nothing";
}

TEST(SimSeeds, a_seed_replays_exactly) {
  for (uint64_t seed = 1; seed <= 24; ++seed) {
    const WorldResult first = run_world(seed, Profile::kMixed, Traffic::kAny);
    const WorldResult second = run_world(seed, Profile::kMixed, Traffic::kAny);
    EXPECT_EQ(first.trace_hash, second.trace_hash) << replay_hint(seed, Profile::kMixed, Traffic::kAny);
    EXPECT_EQ(first.trace_events, second.trace_events);
    EXPECT_EQ(first.ended, second.ended);
  }
}

TEST(SimSeeds, different_seeds_are_different_worlds) {
  const WorldResult first = run_world(1, Profile::kMixed, Traffic::kAny);
  const WorldResult second = run_world(2, Profile::kMixed, Traffic::kAny);
  EXPECT_NE(first.trace_hash, second.trace_hash);
}

/// Not CPU: that depends on the machine.
TEST(SimSeeds, plans_stay_within_their_size) {
  for (uint64_t seed = 1; seed <= 3000; ++seed) {
    const WorldPlan plan = make_world_plan(seed, Profile::kMixed, Traffic::kAny);
    uint64_t frames = 0;
    for (const CellFlowPlan& flow : plan.cell_flows) frames += flow.cells;
    for (const RawPairPlan& pair : plan.raw_pairs) frames += pair.messages[0] + pair.messages[1];
    for (const SessionPlan& session : plan.sessions) frames += session.frames[0] + session.frames[1];
    EXPECT_LE(frames, kFramesPerSeedMax) << "seed " << seed;
    EXPECT_LE(plan.flits(), kFlitsPerSeedMax + kFlitsPerSeedMax / 4) << "seed " << seed;
    EXPECT_LE(plan.faults_end(), Instant(kFaultsEndLatest)) << "seed " << seed;
  }
}

/// What a plan never draws no victim can count.
TEST(SimSeeds, plans_draw_each_kind_of_fault) {
  uint64_t drawn[2][6] = {};
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    for (const FaultWindow& window : make_world_plan(seed, Profile::kMixed, Traffic::kAny).faults) {
      auto& of_layer = drawn[static_cast<size_t>(window.layer)];
      const fabric::FaultRates& rates = window.rates;
      const uint32_t each[] = {rates.drop_ppm,    rates.corrupt_ppm, rates.duplicate_ppm,
                               rates.reorder_ppm, rates.delay_ppm,   rates.cut ? 1U : 0U};
      for (size_t i = 0; i < std::size(each); ++i) of_layer[i] += each[i] != 0 ? 1 : 0;
    }
  }
  for (const auto& of_layer : drawn) {
    for (size_t i = 0; i < 5; ++i) EXPECT_GT(of_layer[i], 20U) << "rate " << i;
  }
  EXPECT_GT(drawn[static_cast<size_t>(FaultLayer::kFlit)][5], 20U) << "links dead in one direction";
}

TEST(SimSeeds, runs_stay_within_their_size) {
  for (uint64_t seed = 100; seed < 140; ++seed) {
    const WorldResult result = run_world(seed, Profile::kEverything, Traffic::kAny);
    EXPECT_LE(result.frames.sent, kFramesPerSeedMax + 600) << "seed " << seed;  // and what trickles
    EXPECT_LE(result.ended, Instant(std::chrono::seconds(10))) << "seed " << seed;
    EXPECT_LE(result.turns, 100'000U) << "seed " << seed;
  }
}

/// A regress file names the edition of its plan: what an edition draws must not change.
TEST(SimSeeds, a_later_edition_leaves_earlier_plans_alone) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    const WorldPlan first = make_world_plan(seed, Profile::kEverything, Traffic::kAny, 1);
    EXPECT_TRUE(first.freezes.empty() && first.fabric.far_nodes == 0) << "seed " << seed;
  }
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    const WorldPlan second = make_world_plan(seed, Profile::kCrashes, Traffic::kAny, 2);
    const WorldPlan third = make_world_plan(seed, Profile::kCrashes, Traffic::kAny, 3);
    ASSERT_GE(third.cuts.size(), second.cuts.size()) << "seed " << seed;
    for (size_t i = 0; i < second.cuts.size(); ++i) EXPECT_EQ(second.cuts[i].begin, third.cuts[i].begin);
    EXPECT_EQ(second.sessions.size(), third.sessions.size()) << "seed " << seed;
    EXPECT_EQ(second.flits(), third.flits()) << "seed " << seed;
  }
  const WorldPlan known = make_world_plan(148, Profile::kEverything, Traffic::kNetdev, 1);
  ASSERT_EQ(known.sessions.size(), 2U);
  EXPECT_EQ(known.sessions[0].mode, TransferMode::kSendDataOnly);
  EXPECT_EQ(known.sessions[0].frames[0], 36U);
  EXPECT_EQ(known.faults.size(), 8U);
  ASSERT_EQ(known.crashes.size(), 2U);
  EXPECT_EQ(known.crashes[1].node, kSwitchNode);
  EXPECT_EQ(known.crashes[1].at.time_since_epoch() / std::chrono::milliseconds(1), 1584);
}

/// tests/regress/NAME.seed: one line `seed profile traffic [edition]`, then comment lines that say what it
/// showed. The edition of the plan keeps the seed's meaning.
struct RegressSeed {
  std::string file;
  uint64_t seed = 0;
  Profile profile = Profile::kMixed;
  Traffic traffic = Traffic::kAny;
  uint32_t edition = 1;
};

std::vector<RegressSeed> regress_seeds() {
  std::vector<RegressSeed> seeds;
  const char* source = std::getenv("WEFT_SOURCE");
  const std::filesystem::path folder =
      std::filesystem::path(source == nullptr ? "." : source) / "tests" / "regress";
  if (!std::filesystem::exists(folder)) return seeds;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".seed") continue;
    std::ifstream in(entry.path());
    RegressSeed seed;
    std::string profile;
    std::string traffic;
    seed.file = entry.path().filename().string();
    in >> seed.seed >> profile >> traffic;
    EXPECT_TRUE(in && parse_profile(profile, seed.profile) && parse_traffic(traffic, seed.traffic))
        << seed.file;
    if (uint32_t edition = 0; in >> edition) seed.edition = edition;
    EXPECT_TRUE(seed.edition >= 1 && seed.edition <= kPlanEdition) << seed.file;
    seeds.push_back(seed);
  }
  return seeds;
}

TEST(SimSeeds, seeds_that_failed_once_hold) {
  for (const RegressSeed& seed : regress_seeds()) {
    SCOPED_TRACE(seed.file);
    run_and_expect_ok(seed.seed, seed.profile, seed.traffic, seed.edition);
  }
}

}  // namespace
}  // namespace weft::sim
