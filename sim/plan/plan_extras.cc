#include "sim/plan/plan_extras.h"

#include <algorithm>
#include <array>

#include "messages/cell.h"
#include "sim/plan/plan_draw.h"

namespace weft::sim {
namespace {

using namespace std::chrono_literals;

class Extras : private PlanDraw {
 public:
  explicit Extras(WorldPlan& plan) : PlanDraw(plan.seed * 0x9e3779b97f4a7c15ULL + 0x45585452), plan_(plan) {}

  void add() {
    second_switch();
    if (plan_.traffic == Traffic::kRaw) datagrams();
    if (plan_.traffic == Traffic::kNetdev) {
      big_frames();
      config_changes();
      closes();
    }
    if (is(Profile::kCrashes)) {
      freezes();
      resets();
      second_switch_faults();
    }
    if ((is(Profile::kFlitFaults) || is(Profile::kCrashes)) && chance(3)) partition();
    if (is(Profile::kCellFaults) && plan_.traffic == Traffic::kNetdev && chance(3)) lossy_opening();
  }

 private:
  [[nodiscard]] bool is(Profile profile) const {
    return plan_.profile == profile || plan_.profile == Profile::kEverything;
  }
  [[nodiscard]] Instant some_time() { return Instant(between(1ms, 1800ms)); }

  void second_switch() {
    FabricPlan& fabric = plan_.fabric;
    if (!chance(4)) return;
    for (const SessionPlan& session : plan_.sessions) fabric.far_nodes |= 1U << session.unit_node;
    if (plan_.sessions.empty()) fabric.far_nodes = between(1U, (1U << fabric.endnodes) - 1) << 1;
  }

  void second_switch_faults() {
    if (plan_.fabric.switches() == 1) return;
    if (chance(2)) {
      const Instant at = some_time();
      plan_.crashes.push_back({plan_.fabric.switch_node(1), at, at + between(1ms, 400ms)});
    }
    if (chance(3)) {
      const Instant at = some_time();
      plan_.cuts.push_back({plan_.fabric.endnodes, at, at + between(10us, 300ms)});
    }
  }

  /// Makes some pairs RD or UD; their messages are one cell.
  void datagrams() {
    for (RawPairPlan& pair : plan_.raw_pairs) {
      if (!chance(4)) continue;
      pair.type = chance(4) ? adapter::QpType::kUd : adapter::QpType::kRd;
      pair.bytes_max = std::clamp(pair.bytes_max, pair.bytes_min, plan_.fabric.cell_payload_bytes - 16);
      pair.one_sided = false;
      pair.packet_bytes = 0;
      pair.packet_crc = false;
    }
  }

  void big_frames() {
    for (SessionPlan& session : plan_.sessions) {
      if (session.mode != TransferMode::kRdma || !chance(8)) continue;
      session.bytes_max = pick(std::array{20'000U, 65'000U});
      session.pool_element_bytes = 65'536;
      session.pool_elements = std::min(session.pool_elements, 16U);
      for (uint32_t& frames : session.frames) frames = std::min(frames, between(5U, 60U));
    }
  }

  void config_changes() {
    const Duration latest = plan_.faults.empty() && plan_.crashes.empty() ? 50ms : 1500ms;
    for (SessionPlan& session : plan_.sessions) {
      if (!chance(3)) continue;
      for (uint32_t i = between(1U, 4U); i > 0; --i) {
        session.changes.push_back(
            {Instant(between(0ms, latest)), static_cast<ConfigChangeKind>(below(kConfigChangeKinds))});
      }
    }
  }

  /// Some hosts close their session in an orderly way and open it again.
  void closes() {
    for (SessionPlan& session : plan_.sessions) {
      if (chance(6)) session.close_at = Instant(between(1ms, 100ms));
    }
  }

  void freezes() {
    for (uint32_t i = between(0U, 2U); i > 0; --i) {
      const Instant at = some_time();
      plan_.freezes.push_back({below(plan_.fabric.nodes()), at, at + between(1ms, 600ms)});
    }
  }

  /// Link resets: down and up at the same time, a new incarnation; everything in flight is lost.
  void resets() {
    for (uint32_t i = between(0U, 2U); i > 0; --i) {
      const Instant at = some_time();
      plan_.cuts.push_back({below(plan_.fabric.links()), at, at});
    }
  }

  /// One direction of a link transports nothing; its ends do not notice.
  void partition() {
    FaultWindow window;
    window.link = below(plan_.fabric.links());
    window.from_end = below(2);
    window.begin = some_time();
    window.end = window.begin + between(1ms, 400ms);
    window.rates.cut = true;
    plan_.faults.push_back(window);
  }

  void lossy_opening() {
    for (uint32_t link = 0; link < plan_.fabric.endnodes; ++link) {
      FaultWindow window;
      window.layer = FaultLayer::kCell;
      window.link = link;
      window.end = Instant(between(10ms, 300ms));
      window.rates.drop_ppm = 300'000;
      plan_.faults.push_back(window);
    }
  }

  WorldPlan& plan_;
};

class Storms : private PlanDraw {
 public:
  explicit Storms(WorldPlan& plan) : PlanDraw(plan.seed * 0x9e3779b97f4a7c15ULL + 0x53544f52), plan_(plan) {}

  void add() {
    const bool crashes = plan_.profile == Profile::kCrashes || plan_.profile == Profile::kEverything;
    if (!crashes || chance(3)) return;
    for (uint32_t i = between(1U, 3U); i > 0; --i) storm(Instant(between(520us, 20ms)));
  }

 private:
  void storm(Instant at) {
    for (uint32_t link = 0; link < plan_.fabric.links(); ++link) {
      if (!chance(4)) plan_.cuts.push_back({link, at, at});
    }
    if (chance(2)) {  // a frozen switch, which later finds all links new
      const uint32_t node = plan_.fabric.switch_node(below(plan_.fabric.switches()));
      plan_.freezes.push_back({node, at - between(0us, 15us), at + between(1us, 2ms)});
    }
    if (chance(2)) {  // cells wait in the switch for a frozen endnode
      const uint32_t node = between(1, plan_.fabric.endnodes);
      plan_.freezes.push_back({node, at - between(0us, 500us), at + between(1us, 2ms)});
    }
  }

  WorldPlan& plan_;
};

template <class T>
void scale(T& count, uint64_t budget, uint64_t planned, T least) {
  if (count == 0) return;
  count = std::max(least, static_cast<T>(count * budget / planned));
}

}  // namespace

void add_extras(WorldPlan& plan) {
  Extras(plan).add();
}

void add_storms(WorldPlan& plan) {
  Storms(plan).add();
}

void limit_size(WorldPlan& plan) {
  const uint64_t planned = plan.flits();
  if (planned <= kFlitsPerSeedMax) return;
  for (CellFlowPlan& flow : plan.cell_flows) scale(flow.cells, kFlitsPerSeedMax, planned, 1U);
  for (RawPairPlan& pair : plan.raw_pairs) {
    for (uint32_t& messages : pair.messages) scale(messages, kFlitsPerSeedMax, planned, 1U);
  }
  for (SessionPlan& session : plan.sessions) {
    for (uint32_t& frames : session.frames) scale(frames, kFlitsPerSeedMax, planned, 3U);
  }
}

}  // namespace weft::sim
