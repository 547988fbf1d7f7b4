// Edition 4: verbs beside data transfer (windows, one-shot keys, fences, inline data, drained and failed send
// queues), and their places: both ends on one node, or the second port of an adapter.
#include <algorithm>

#include "sim/plan/plan_draw.h"
#include "sim/plan/plan_extras.h"

namespace weft::sim {
namespace {

/// The slot after the read of a fenced Send stays unchanged; a bind and its message are posted together.
constexpr uint32_t kSendWqesMin = 4;

class Verbs : private PlanDraw {
 public:
  explicit Verbs(WorldPlan& plan) : PlanDraw(plan.seed * 0x9e3779b97f4a7c15ULL + 0x56455242), plan_(plan) {}

  void add() {
    if (plan_.fabric.endnodes >= 3 && chance(3)) plan_.fabric.second_port = between(2, plan_.fabric.endnodes);
    for (RawPairPlan& pair : plan_.raw_pairs) {
      if (chance(6)) pair.nodes[1] = pair.nodes[0];
      if (pair.type == adapter::QpType::kRc) reliable(pair);
      if (pair.type == adapter::QpType::kUc) unreliable(pair);
      pair.verbs.inline_data = chance(3);
      if (pair.verbs.any()) pair.send_wqes = std::max(pair.send_wqes, kSendWqesMin);
    }
  }

 private:
  void reliable(RawPairPlan& pair) {
    pair.verbs.windows = pair.one_sided && chance(2);
    pair.verbs.one_shot = pair.verbs.windows && chance(2);
    pair.verbs.revokes = pair.verbs.windows && chance(4);
    pair.verbs.fenced = pair.one_sided && chance(2);
    pair.verbs.drains = chance(3);
  }
  void unreliable(RawPairPlan& pair) {
    pair.one_sided = chance(2);
    pair.verbs.windows = pair.one_sided && chance(2);
    pair.verbs.one_shot = pair.verbs.windows && chance(2);
    pair.verbs.drains = chance(3);
    pair.verbs.takes_memory = chance(3);
  }

  WorldPlan& plan_;
};

}  // namespace

void add_verbs(WorldPlan& plan) {
  if (plan.traffic == Traffic::kRaw) Verbs(plan).add();
}

}  // namespace weft::sim
