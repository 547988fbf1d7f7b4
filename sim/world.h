// sim/world.h -- a whole fabric in one thread and virtual time: the production switch, links, adapters and
// the programs on them. Time advances a little with each turn that has work, and jumps to the next deadline
// otherwise.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/rng.h"
#include "sim/counter_check.h"
#include "sim/fabric/sim_fabric.h"
#include "sim/frames/flow_ledger.h"
#include "sim/plan/planner.h"
#include "sim/plan/world_plan.h"
#include "sim/scenario.h"
#include "sim/sim_endnode.h"
#include "sim/trace.h"
#include "sim/turns.h"

namespace weft::sim {

struct WorldResult {
  bool ok = false;
  std::vector<std::string> violations;  // the first one first
  uint64_t trace_hash = 0;
  uint64_t trace_events = 0;
  uint64_t turns = 0;
  uint64_t flits = 0;
  Instant ended{};    // virtual time
  FlowTotals frames;  // sum over all flows
  FaultEffects effects;
};

struct WorldOutput {
  std::ostream* trace = nullptr;  // null: no trace
  bool flits = false;             // also print flits
};

/// Owner: one thread. A world can run only once.
class World final : private FabricObserver {
 public:
  /// With a null `saboteur` no bugs are planted; otherwise it must outlive the world.
  explicit World(const WorldPlan& plan, const WorldOutput& output = {}, Saboteur* saboteur = nullptr);
  ~World() override;
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  [[nodiscard]] WorldResult run();

 private:
  enum class EventKind : uint8_t { kFaults, kCut, kMend, kCrash, kRestart, kFreeze, kThaw };
  struct Event {
    Instant at{};
    EventKind kind{};
    uint32_t index = 0;
  };
  /// State of a link that was last reported to the scenario.
  struct LinkNews {
    bool up = false;
    uint64_t incarnation = 0;
  };
  enum class Phase : uint8_t { kTraffic, kDrain, kRest, kIdle, kOver };

  // world.cc: the run.
  [[nodiscard]] std::unique_ptr<Scenario> make_scenario();
  int take_turn();
  void tell_link_news(uint32_t nodes);
  void check_invariants();
  void advance(int work);
  [[nodiscard]] Instant next_deadline() const;
  void change_phase(int work);
  void finish();
  [[nodiscard]] WorldResult result() const;
  void late_violation();
  void check_counters(uint32_t node);
  void check_link_counters();
  void violation(std::string_view who, uint32_t number, const std::string& what);

  // world_faults.cc: the faults and their times.
  void plan_events();
  void run_events();
  [[nodiscard]] bool happens(EventKind kind) noexcept;
  void apply_faults(const FaultWindow& changed);
  void apply_cut(uint32_t link, bool on);
  void apply_freeze(uint32_t node, bool on);
  void die(uint32_t node);
  void come_back(uint32_t node);
  void wire(uint32_t link);
  void wire_all();

  // world_trace.cc: output for debugging.
  void on_flit(uint32_t link_and_end, std::span<const std::byte> flit) noexcept override;
  void tamper(uint32_t link_and_end, std::span<std::byte> flit) noexcept override;
  void describe_cell(uint32_t link_and_end, std::span<const std::byte> cell);
  void describe_end();

  WorldPlan plan_;
  Saboteur* saboteur_;
  Trace trace_;
  FlowLedger ledger_;
  FaultEffects effects_;
  CounterCheck counter_check_;
  SeededRandom random_;       // for the order of turns and for time steps
  SeededRandom link_random_;  // for nonces and faults
  SeededRandom traffic_random_;
  Instant now_{};
  SimFabric fabric_;
  std::unique_ptr<Scenario> scenario_;  // outlives the nodes
  Turns turns_;                         // by node
  std::vector<SimEndnode*> endnodes_;   // by link
  std::vector<uint32_t> deaths_;        // by node: number of crashes in force
  std::vector<uint32_t> freezes_;       // by node: number of freezes in force
  std::vector<uint64_t> lives_;         // by node: number of lives
  std::vector<LinkNews> link_news_;
  std::vector<Event> events_;
  size_t next_event_ = 0;
  Phase phase_ = Phase::kTraffic;
  Instant phase_limit_ = kNever;
  Instant rest_limit_ = kNever;
  bool idles_ = false;  // an idle phase follows the rest
  bool trickling_ = false;
  bool rewired_ = true;      // links were plugged or unplugged since the last report to the scenario
  uint32_t idle_turns_ = 0;  // consecutive turns without work and without a time to jump to
  uint64_t turn_count_ = 0;
  uint64_t flits_ = 0;
  uint64_t flits_seen_ = 0;
};

/// Makes the plan of the seed and runs it.
[[nodiscard]] WorldResult run_world(uint64_t seed, Profile profile, Traffic traffic,
                                    const WorldOutput& output = {}, uint32_t edition = kPlanEdition);

}  // namespace weft::sim
