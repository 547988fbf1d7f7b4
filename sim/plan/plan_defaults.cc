// Edition 4: worlds with the default settings of the product. With them, limits that small settings reach
// always may never be reached.
#include <algorithm>

#include "sim/plan/plan_draw.h"
#include "sim/plan/plan_extras.h"

namespace weft::sim {
namespace {

using namespace std::chrono_literals;

class Defaults : private PlanDraw {
 public:
  explicit Defaults(WorldPlan& plan)
      : PlanDraw(plan.seed * 0x9e3779b97f4a7c15ULL + 0x44454641), plan_(plan) {}

  void add() {
    if (plan_.traffic == Traffic::kCells && plan_.profile == Profile::kCrashes && chance(2)) neighbours();
    if (chance(4)) shipped();
  }

 private:
  /// The flit size follows from the cell size, as in a process.
  void shipped() {
    FabricPlan& fabric = plan_.fabric;
    fabric.cell_payload_bytes = fabric::kCellPayloadBytesDefault;
    fabric.flit_payload_bytes = 0;
    fabric.lanes = fabric::kDataLanesDefault;
    fabric.credits_per_lane = fabric::kCreditsPerLaneDefault;
    fabric.cut_through = false;
  }

  /// One sender and two receivers on one lane. One receiver is frozen until the cells for it have filled
  /// every buffer on the path, with any settings.
  void neighbours() {
    shipped();
    FabricPlan& fabric = plan_.fabric;
    if (chance(2)) fabric.credits_per_lane = between(2U, 64U);
    fabric.endnodes = std::max(3U, fabric.endnodes);
    plan_.faults.clear();
    plan_.cuts.clear();
    plan_.crashes.clear();
    plan_.freezes.clear();
    plan_.cell_flows.clear();
    const uint32_t frozen = between(1, fabric.endnodes);
    const Instant at = Instant(between(1ms, 20ms));
    plan_.freezes.push_back({frozen, at, at + between(200ms, 400ms)});
    CellFlowPlan flow;
    flow.from = frozen % fabric.endnodes + 1;
    flow.vl = VirtualLane(static_cast<uint8_t>(below(fabric.lanes)));
    flow.cells = 900;
    flow.bytes_max = between(60U, 400U);
    flow.gap = 500us;
    flow.to = frozen;
    plan_.cell_flows.push_back(flow);
    flow.to = flow.from % fabric.endnodes + 1;
    plan_.cell_flows.push_back(flow);
  }

  WorldPlan& plan_;
};

}  // namespace

void add_defaults(WorldPlan& plan) {
  Defaults(plan).add();
}

}  // namespace weft::sim
