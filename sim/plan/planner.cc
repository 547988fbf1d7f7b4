#include "sim/plan/planner.h"

#include <algorithm>
#include <array>

#include "messages/flit.h"
#include "sim/plan/plan_draw.h"
#include "sim/plan/plan_extras.h"

namespace weft::sim {
namespace {

using namespace std::chrono_literals;

/// Draws a plan from one stream of random numbers. Changing a draw changes all later ones, so old seeds then
/// mean something else; regression tests therefore say what their seed showed.
class Planner : private PlanDraw {
 public:
  explicit Planner(WorldPlan& plan) : PlanDraw(plan.seed * 0x9e3779b97f4a7c15ULL + 0x57454654), plan_(plan) {}

  void draw() {
    if (plan_.profile == Profile::kMixed) {
      static constexpr std::array kChoices{Profile::kClean,   Profile::kFlitFaults, Profile::kCellFaults,
                                           Profile::kCrashes, Profile::kPressure,   Profile::kEverything};
      plan_.profile = pick(kChoices);
    }
    if (plan_.traffic == Traffic::kAny) {
      static constexpr std::array kChoices{Traffic::kCells,  Traffic::kRaw,    Traffic::kRaw,
                                           Traffic::kNetdev, Traffic::kNetdev, Traffic::kNetdev};
      plan_.traffic = pick(kChoices);
    }
    // Without queue pairs, cells that are lost above the links are not repaired.
    if (plan_.traffic == Traffic::kCells && plan_.profile == Profile::kCellFaults)
      plan_.profile = Profile::kFlitFaults;
    plan_.step_min = Duration(100 + below(400));
    plan_.step_max = plan_.step_min + Duration(below(3000));
    plan_.skip_ppm = chance(2) ? 0 : below(300'000);
    fabric();
    if (plan_.traffic == Traffic::kCells) cell_flows();
    if (plan_.traffic == Traffic::kRaw) raw_pairs();
    if (plan_.traffic == Traffic::kNetdev) sessions();
    if (is(Profile::kFlitFaults)) windows(FaultLayer::kFlit, 100'000);
    if (is(Profile::kCellFaults) && plan_.traffic != Traffic::kCells) windows(FaultLayer::kCell, 300'000);
    if (is(Profile::kCrashes)) crashes();
  }

 private:
  [[nodiscard]] bool is(Profile profile) const {
    return plan_.profile == profile || plan_.profile == Profile::kEverything;
  }
  void fabric() {
    FabricPlan& fabric = plan_.fabric;
    fabric.cell_payload_bytes = pick(std::array{256U, 256U, 512U, 1024U, 1024U, 4096U});
    const bool small_flits = chance(4);
    fabric.flit_payload_bytes = small_flits ? kFlitPayloadBytesConformance : 0;
    fabric.cut_through = chance(3);
    fabric.lanes = between(1, 4);
    fabric.credits_per_lane = between(2U, 32U);
    if (is(Profile::kPressure) || chance(8)) fabric.credits_per_lane = between(1, 2);
    if (small_flits && !fabric.cut_through) {  // decisions 2.6
      const uint32_t cell_bytes = cell_bytes_max(fabric.cell_payload_bytes);
      const uint32_t flits = (cell_bytes + kFlitPayloadBytesConformance - 1) / kFlitPayloadBytesConformance;
      fabric.credits_per_lane = flits + fabric.credits_per_lane - 1;
    }
    fabric.receiver_rereads = chance(2);
    fabric.endnodes = between(2, 4);
  }

  void cell_flows() {
    const uint32_t count = between(1, 6);
    for (uint32_t i = 0; i < count; ++i) {
      CellFlowPlan flow;
      flow.from = between(1, plan_.fabric.endnodes);
      flow.to = between(1, plan_.fabric.endnodes - 1);
      if (flow.to >= flow.from) ++flow.to;
      flow.vl = VirtualLane(static_cast<uint8_t>(below(plan_.fabric.lanes)));
      flow.cells = between(1, 300);
      flow.bytes_max = between(60, plan_.fabric.cell_payload_bytes);
      flow.gap = gap();
      plan_.cell_flows.push_back(flow);
    }
  }

  void raw_pairs() {
    const uint32_t pairs = between(1, 3);
    uint32_t budget = between(40, 500);
    for (uint32_t i = 0; i < pairs; ++i) {
      RawPairPlan pair;
      pair.nodes[0] = between(1, plan_.fabric.endnodes);
      pair.nodes[1] = between(1, plan_.fabric.endnodes - 1);
      if (pair.nodes[1] >= pair.nodes[0]) ++pair.nodes[1];
      pair.type = pick(std::array{adapter::QpType::kRc, adapter::QpType::kRc, adapter::QpType::kRc,
                                  adapter::QpType::kUc, adapter::QpType::kUd});
      pair.ack_mode = chance(4) ? adapter::AckMode::kStrict : adapter::AckMode::kSelective;
      pair.sl = ServiceLevel(static_cast<uint8_t>(below(plan_.fabric.lanes)));
      const uint32_t cell = plan_.fabric.cell_payload_bytes;
      pair.bytes_min = 80;
      pair.bytes_max =
          pair.type == adapter::QpType::kUd ? cell - 16 : pick(std::array{200U, cell, 3 * cell, 40 * cell});
      pair.bytes_max = std::clamp(pair.bytes_max, pair.bytes_min, 32'768U);
      const uint32_t share = std::max(1U, std::min(budget, 600'000 / pair.bytes_max));
      pair.messages[0] = between(1, share);
      pair.messages[1] = between(0, share);
      pair.send_wqes = between(1, 32);
      pair.recv_wqes = is(Profile::kPressure) ? between(1, 4) : between(1, 32);
      pair.packet_bytes = chance(3) ? cell * between(1, 8) : 0;
      pair.packet_crc = chance(4);
      pair.idata_takes_recv_wqe = chance(2);
      pair.one_sided = pair.type == adapter::QpType::kRc && !chance(3);
      pair.gap = gap();
      if (is(Profile::kPressure) && chance(2)) pair.receiver_pause = between(10us, 2ms);
      plan_.raw_pairs.push_back(pair);
    }
  }

  void sessions() {
    // Nodes 1 to `hosts` are hosts, the others units.
    const uint32_t units = plan_.fabric.endnodes > 2 && chance(2) ? 2 : 1;
    const uint32_t hosts = plan_.fabric.endnodes - units;
    uint32_t budget = between(40, 900);
    for (uint32_t host = 1; host <= hosts; ++host) {
      for (uint32_t unit = hosts + 1; unit <= plan_.fabric.endnodes; ++unit) {
        if (unit > hosts + 1 && chance(2)) continue;
        plan_.sessions.push_back(session(host, unit, budget));
      }
    }
  }

  SessionPlan session(uint32_t host, uint32_t unit, uint32_t budget) {
    SessionPlan session;
    session.host_node = host;
    session.unit_node = unit;
    session.mode = pick(std::array{TransferMode::kRdma, TransferMode::kRdma, TransferMode::kRdma,
                                   TransferMode::kSendReceive, TransferMode::kSendDataOnly});
    // Without RDMA the data channel is unacknowledged, so each lost cell resets the session (decisions 5.4).
    if (is(Profile::kCellFaults) && session.mode == TransferMode::kSendReceive) {
      session.mode = TransferMode::kRdma;
    }
    session.encoding = chance(2) ? MessageEncoding::kBytes : MessageEncoding::kCapnp;
    session.frames[0] = between(5, budget / 3);
    session.frames[1] = between(5, budget / 3);
    session.bytes_max = pick(std::array{100U, 1514U, 1514U, 9014U});
    // A frame is many small flits. Fewer frames keep a seed within its CPU time (decisions 5.2).
    if (plan_.fabric.flit_payload_bytes != 0 && session.bytes_max > 1000) {
      for (uint32_t& frames : session.frames) frames = std::max(5U, frames / 4);
    }
    session.gap = gap();
    session.sl = ServiceLevel(static_cast<uint8_t>(below(plan_.fabric.lanes)));
    session.force_indicate = chance(5);
    session.pool_elements = is(Profile::kPressure) ? 4 : between(8, 64);
    session.pool_element_bytes = session.bytes_max + 64 > 2048 ? 16384 : 2048;
    if (is(Profile::kPressure)) {
      session.reader_pause[0] = chance(2) ? between(1us, 1ms) : Duration{};
      session.reader_pause[1] = chance(2) ? between(1us, 1ms) : Duration{};
    }
    return session;
  }

  Duration gap() { return chance(2) ? between(0us, 20us) : between(20us, 4ms); }

  void windows(FaultLayer layer, uint32_t ppm_max) {
    const uint32_t count = between(1, 6);
    for (uint32_t i = 0; i < count; ++i) {
      FaultWindow window;
      window.layer = layer;
      window.link = between(0, plan_.fabric.endnodes - 1);
      window.from_end = between(0, 1);
      window.begin = Instant(between(0ms, 1500ms));
      window.end = std::min(window.begin + between(1ms, 1000ms), Instant(kFaultsEndLatest));
      // The rates add up to at most ppm_max, often to much less.
      const uint32_t total = chance(2) ? ppm_max : between(0, ppm_max);
      fabric::FaultRates& rates = window.rates;
      rates.drop_ppm = between(0, total);
      rates.corrupt_ppm = between(0, total - rates.drop_ppm);
      const uint32_t rest = total - rates.drop_ppm - rates.corrupt_ppm;
      if (chance(2)) rates.duplicate_ppm = between(0, rest);
      if (chance(2)) rates.reorder_ppm = between(0, rest - rates.duplicate_ppm);
      if (chance(3)) rates.delay_ppm = between(0, rest - rates.duplicate_ppm - rates.reorder_ppm);
      rates.delay_min = 1us;
      rates.delay_max = between(2us, 500us);
      plan_.faults.push_back(window);
    }
  }

  void crashes() {
    const uint32_t count = between(1, 3);
    for (uint32_t i = 0; i < count; ++i) {
      Crash crash;
      crash.node = chance(3) ? kSwitchNode : between(1, plan_.fabric.endnodes);
      crash.at = Instant(between(1ms, 1800ms));
      crash.back_at = crash.at + between(1ms, 600ms);
      plan_.crashes.push_back(crash);
    }
    for (uint32_t i = between(0, 2); i > 0; --i) {
      CutWindow cut;
      cut.link = between(0, plan_.fabric.endnodes - 1);
      cut.begin = Instant(between(0ms, 1800ms));
      cut.end = cut.begin + between(10us, 500ms);
      plan_.cuts.push_back(cut);
    }
  }

  WorldPlan& plan_;
};

}  // namespace

WorldPlan make_world_plan(uint64_t seed, Profile profile, Traffic traffic, uint32_t edition) {
  WorldPlan plan;
  plan.seed = seed;
  plan.profile = profile;
  plan.traffic = traffic;
  Planner(plan).draw();
  if (edition >= 2) {
    add_extras(plan);
    limit_size(plan);
  }
  if (edition >= 3) add_storms(plan);
  if (edition >= 4) {
    add_defaults(plan);
    add_verbs(plan);
  }
  return plan;
}

}  // namespace weft::sim
