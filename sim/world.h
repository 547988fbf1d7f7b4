// sim/world.h -- a whole fabric in one thread and virtual time: the production switch, links, adapters and
// what runs on them. Time moves a little with each busy turn and jumps to the next deadline when nothing is
// to do.
#pragma once

#include <array>
#include <cstdint>
#include <iosfwd>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/rng.h"
#include "fabric/faulty_cell_port.h"
#include "fabric/link_cell_port.h"
#include "fabric/memory_link.h"
#include "sim/flow_ledger.h"
#include "sim/scenario.h"
#include "sim/trace.h"
#include "sim/world_plan.h"

namespace weft {
class Switch;
}

namespace weft::sim {

struct WorldResult {
  bool ok = false;
  std::vector<std::string> violations;  // first thing first
  uint64_t trace_hash = 0;
  uint64_t trace_events = 0;
  uint64_t turns = 0;
  Instant ended{};    // virtual
  FlowTotals frames;  // over all flows
  uint32_t crashes = 0;
};

struct WorldOutput {
  std::ostream* trace = nullptr;  // null: silent
  bool flits = false;             // print flits too
};

/// Owner: one thread. A world runs once.
class World final {
 public:
  explicit World(const WorldPlan& plan, const WorldOutput& output = {});
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  [[nodiscard]] WorldResult run();

 private:
  static constexpr uint32_t kNodesMax = 32;
  enum class EventKind : uint8_t { kFaultsBegin, kFaultsEnd, kCut, kMend, kCrash, kRestart };
  struct Event {
    Instant at{};
    EventKind kind{};
    uint32_t index = 0;
  };
  struct Node;
  class LinkWatch;
  enum class Phase : uint8_t { kTraffic, kDrain, kRest, kOver };

  [[nodiscard]] LinkConfig end_config(uint32_t end, uint32_t link) const;
  [[nodiscard]] std::unique_ptr<Scenario> make_scenario();
  void build_links();
  void plan_events();
  void run_events();
  void apply_faults(const FaultWindow& window, bool on);
  void start_node(uint32_t node);
  void crash_node(uint32_t node);
  void start_switch();
  void crash_switch();
  void wire(uint32_t link);
  int poll_all();
  void watch_links();
  void check_credits(uint32_t link);
  void check_switch_cells();
  void check_credits_at_rest(uint32_t link);
  void advance(int work);
  [[nodiscard]] Instant next_deadline() const;
  void change_phase();
  void finish();
  void describe_cell(uint32_t link_and_end, std::span<const std::byte> cell);
  void on_flit(uint32_t link_and_end, std::span<const std::byte> flit) noexcept;

  WorldPlan plan_;
  Trace trace_;
  FlowLedger ledger_;
  SeededRandom random_;       // order of turns, time
  SeededRandom link_random_;  // nonces and faults
  SeededRandom traffic_random_;
  Instant now_{};
  std::vector<Event> events_;
  size_t next_event_ = 0;
  std::vector<std::unique_ptr<LinkWatch>> watches_;
  std::vector<std::unique_ptr<MemoryCable>> cables_;
  std::unique_ptr<Scenario> scenario_;
  std::vector<std::unique_ptr<Node>> nodes_;  // by link
  SeededRandom switch_random_;
  std::unique_ptr<Switch> switch_;
  uint32_t switch_deaths_ = 0;  // crashes in force
  uint64_t switch_lives_ = 0;
  Phase phase_ = Phase::kTraffic;
  Instant phase_limit_ = kNever;
  bool trickling_ = false;
  bool woken_ = false;       // the nodes have not yet seen what has changed around them
  uint32_t idle_turns_ = 0;  // in a row, without time to jump to
  uint64_t turns_ = 0;
  std::array<uint64_t, kNodesMax> busy_turns_{};
  uint64_t late_turns_ = 0;  // nobody worked although a deadline had passed
  std::array<uint64_t, kNodesMax> node_late_turns_{};
  uint64_t trace_flits_ = 0;
  uint64_t seen_flits_ = 0;
  uint32_t crashes_ = 0;
};

/// Makes the plan and runs it.
[[nodiscard]] WorldResult run_world(uint64_t seed, Profile profile, Traffic traffic,
                                    const WorldOutput& output = {});

}  // namespace weft::sim
