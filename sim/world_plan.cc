#include "sim/world_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/rng.h"
#include "messages/flit.h"

namespace weft::sim {
namespace {

using namespace std::chrono_literals;

constexpr std::array<std::string_view, static_cast<size_t>(Profile::kCount)> kProfileNames{
    "mixed", "clean", "flits", "cells", "crashes", "pressure", "everything"};
constexpr std::array<std::string_view, static_cast<size_t>(Traffic::kCount)> kTrafficNames{"any", "cells",
                                                                                           "raw", "netdev"};

/// Draws a plan. One stream of random numbers: any change of an earlier draw changes all later ones, so old
/// seeds mean something new after a change here; regress files therefore name what they showed.
class Planner {
 public:
  Planner(WorldPlan& plan) : plan_(plan), random_(plan.seed * 0x9e3779b97f4a7c15ULL + 0x57454654) {}

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
    // Nobody repairs a cell that is lost above the links unless queue pairs do.
    if (plan_.traffic == Traffic::kCells && plan_.profile == Profile::kCellFaults)
      plan_.profile = Profile::kFlitFaults;
    plan_.step_min = Duration(static_cast<int64_t>(100 + random_.below(400)));
    plan_.step_max = plan_.step_min + Duration(static_cast<int64_t>(random_.below(3000)));
    plan_.skip_ppm = chance(2) ? 0 : static_cast<uint32_t>(random_.below(300'000));
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
  bool chance(uint64_t one_in) { return random_.below(one_in) == 0; }
  uint32_t between(uint32_t low, uint32_t high) {
    return low + static_cast<uint32_t>(random_.below(high - low + 1));
  }
  Duration between(Duration low, Duration high) {
    return low +
           Duration(static_cast<int64_t>(random_.below(static_cast<uint64_t>((high - low).count()) + 1)));
  }
  template <class T, size_t N>
  T pick(const std::array<T, N>& choices) {
    return choices[random_.below(N)];
  }

  void fabric() {
    FabricPlan& fabric = plan_.fabric;
    fabric.cell_payload_bytes = pick(std::array{256U, 256U, 512U, 1024U, 1024U, 4096U});
    const bool small_flits = chance(4);
    fabric.flit_payload_bytes = small_flits ? kFlitPayloadBytesConformance : 0;
    fabric.cut_through = chance(3);
    fabric.lanes = between(1, 4);
    fabric.credits_per_lane = between(2, 32);
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
      flow.vl = VirtualLane(static_cast<uint8_t>(random_.below(plan_.fabric.lanes)));
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
      pair.type = pick(std::array{QpType::kRc, QpType::kRc, QpType::kRc, QpType::kUc, QpType::kUd});
      pair.ack_mode = chance(4) ? AckMode::kStrict : AckMode::kSelective;
      pair.sl = ServiceLevel(static_cast<uint8_t>(random_.below(plan_.fabric.lanes)));
      const uint32_t cell = plan_.fabric.cell_payload_bytes;
      pair.bytes_min = 80;
      pair.bytes_max =
          pair.type == QpType::kUd ? cell - 16 : pick(std::array{200U, cell, 3 * cell, 40 * cell});
      pair.bytes_max = std::clamp(pair.bytes_max, pair.bytes_min, 32'768U);
      const uint32_t share = std::max(1U, std::min(budget, 600'000 / pair.bytes_max));
      pair.messages[0] = between(1, share);
      pair.messages[1] = between(0, share);
      pair.send_wqes = between(1, 32);
      pair.recv_wqes = is(Profile::kPressure) ? between(1, 4) : between(1, 32);
      pair.packet_bytes = chance(3) ? cell * between(1, 8) : 0;
      pair.packet_crc = chance(4);
      pair.idata_takes_recv_wqe = chance(2);
      pair.one_sided = pair.type == QpType::kRc && !chance(3);
      pair.gap = gap();
      if (is(Profile::kPressure) && chance(2)) pair.receiver_pause = between(10us, 2ms);
      plan_.raw_pairs.push_back(pair);
    }
  }

  void sessions() {
    // Nodes 1..hosts are hosts, the rest units.
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
    // Without RDMA the data channel is unacknowledged: cell loss resets the session over and over
    // (decisions 5.4).
    if (is(Profile::kCellFaults) && session.mode == TransferMode::kSendReceive) {
      session.mode = TransferMode::kRdma;
    }
    session.encoding = chance(2) ? MessageEncoding::kBytes : MessageEncoding::kCapnp;
    session.frames[0] = between(5, budget / 3);
    session.frames[1] = between(5, budget / 3);
    session.bytes_max = pick(std::array{100U, 1514U, 1514U, 9014U});
    // A frame is many small flits: fewer frames keep a seed within its CPU time (decisions 5.2).
    if (plan_.fabric.flit_payload_bytes != 0 && session.bytes_max > 1000) {
      for (uint32_t& frames : session.frames) frames = std::max(5U, frames / 4);
    }
    session.gap = gap();
    session.sl = ServiceLevel(static_cast<uint8_t>(random_.below(plan_.fabric.lanes)));
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
      // Together at most ppm_max, and often much less.
      const uint32_t total = chance(2) ? ppm_max : between(0, ppm_max);
      FaultRates& rates = window.rates;
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
  SeededRandom random_;
};

double milliseconds(Instant at) {
  return std::chrono::duration<double, std::milli>(at.time_since_epoch()).count();
}

void describe_faults(const WorldPlan& plan, std::string& out) {
  for (const FaultWindow& w : plan.faults) {
    out += fmt::format(
        "  {} faults on link {} from end {}: {:.3f}..{:.3f} ms drop {} corrupt {} duplicate {} reorder {} "
        "delay {} ppm\n",
        w.layer == FaultLayer::kFlit ? "flit" : "cell", w.link, w.from_end, milliseconds(w.begin),
        milliseconds(w.end), w.rates.drop_ppm, w.rates.corrupt_ppm, w.rates.duplicate_ppm,
        w.rates.reorder_ppm, w.rates.delay_ppm);
  }
  for (const CutWindow& w : plan.cuts) {
    out +=
        fmt::format("  link {} cut: {:.3f}..{:.3f} ms\n", w.link, milliseconds(w.begin), milliseconds(w.end));
  }
  for (const Crash& c : plan.crashes) {
    out += fmt::format("  node {} dead: {:.3f}..{:.3f} ms\n", c.node, milliseconds(c.at),
                       milliseconds(c.back_at));
  }
}

}  // namespace

std::string_view to_string(Profile profile) noexcept {
  return profile < Profile::kCount ? kProfileNames[static_cast<size_t>(profile)] : "unknown";
}

bool parse_profile(std::string_view text, Profile& out) noexcept {
  const auto at = std::find(kProfileNames.begin(), kProfileNames.end(), text);
  if (at == kProfileNames.end()) return false;
  out = static_cast<Profile>(at - kProfileNames.begin());
  return true;
}

std::string_view to_string(Traffic traffic) noexcept {
  return traffic < Traffic::kCount ? kTrafficNames[static_cast<size_t>(traffic)] : "unknown";
}

bool parse_traffic(std::string_view text, Traffic& out) noexcept {
  const auto at = std::find(kTrafficNames.begin(), kTrafficNames.end(), text);
  if (at == kTrafficNames.end()) return false;
  out = static_cast<Traffic>(at - kTrafficNames.begin());
  return true;
}

std::string_view type_name(QpType type) noexcept {
  switch (type) {
    case QpType::kRc:
      return "rc";
    case QpType::kUc:
      return "uc";
    case QpType::kUd:
      return "ud";
    case QpType::kRd:
      return "rd";
    case QpType::kRaw:
      return "raw";
  }
  return "unknown";
}

Instant WorldPlan::faults_end() const noexcept {
  Instant end{};
  for (const FaultWindow& window : faults) end = std::max(end, window.end);
  for (const CutWindow& cut : cuts) end = std::max(end, cut.end);
  for (const Crash& crash : crashes) end = std::max(end, crash.back_at);
  return end;
}

WorldPlan make_world_plan(uint64_t seed, Profile profile, Traffic traffic) {
  WorldPlan plan;
  plan.seed = seed;
  plan.profile = profile;
  plan.traffic = traffic;
  Planner(plan).draw();
  return plan;
}

std::string describe(const WorldPlan& plan) {
  const FabricPlan& f = plan.fabric;
  std::string out = fmt::format(
      "seed {} profile {} traffic {}: {} endnodes, cell payload {}, flit payload {}, {} lanes x {} "
      "credits{}{}\n",
      plan.seed, to_string(plan.profile), to_string(plan.traffic), f.endnodes, f.cell_payload_bytes,
      f.flit_payload_bytes, f.lanes, f.credits_per_lane, f.cut_through ? ", cut-through" : "",
      f.receiver_rereads ? ", rereading links" : "");
  for (const CellFlowPlan& c : plan.cell_flows) {
    out += fmt::format("  cells {} -> {} lane {}: {} of {}..{} bytes\n", c.from, c.to, c.vl.value(), c.cells,
                       c.bytes_min, c.bytes_max);
  }
  for (const RawPairPlan& p : plan.raw_pairs) {
    out += fmt::format("  {} nodes {} <-> {} messages {}/{} of {}..{} bytes, {} send {} recv WQEs{}{}\n",
                       type_name(p.type), p.nodes[0], p.nodes[1], p.messages[0], p.messages[1], p.bytes_min,
                       p.bytes_max, p.send_wqes, p.recv_wqes, p.one_sided ? ", one-sided too" : "",
                       p.ack_mode == AckMode::kStrict ? ", strict acks" : "");
  }
  for (const SessionPlan& s : plan.sessions) {
    out += fmt::format("  session host {} unit {} {} {} frames {}/{} of {}..{} bytes, pools {} x {}\n",
                       s.host_node, s.unit_node, weft::to_string(s.mode), weft::to_string(s.encoding),
                       s.frames[0], s.frames[1], s.bytes_min, s.bytes_max, s.pool_elements,
                       s.pool_element_bytes);
  }
  describe_faults(plan, out);
  return out;
}

}  // namespace weft::sim
