// How it works: each endnode sends one-cell Sends on each of its flows; the payload is a ledger frame. Every
// cell that was sent while all links on its path are up and stay up must arrive, in order. A link that goes
// down or comes up excuses the cells sent before. A node that stands still must not block its neighbours.
#include "sim/cell_scenario.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/crc32c.h"
#include "base/endian.h"
#include "messages/cell.h"

namespace weft::sim {
namespace {

using namespace std::chrono_literals;

struct CellFlow {
  const CellFlowPlan* plan = nullptr;
  uint32_t flow = 0;
  uint32_t sent = 0;
  Instant next_at{};
  Instant blocked_since = kNever;  // time since which the port has refused the flow's next cell
};

/// Longest delay that a node standing still may cause its neighbours, per switch on the path.
constexpr Duration kStandstillCost = 50ms;

struct CellTraffic {
  const WorldPlan& world;
  const FabricPlan& fabric;
  FlowLedger& ledger;
  RandomSource& random;
  std::vector<CellFlow> flows;
  std::vector<bool> link_up;
  bool trickle = false;
  bool stopped = false;

  [[nodiscard]] bool promised(const CellFlowPlan& plan) const {
    for (uint32_t link = 0; link < link_up.size(); ++link) {
      if (fabric.on_path(link, plan.from, plan.to) && !link_up[link]) return false;
    }
    return true;
  }
};

class CellEndnode final : public EndnodeApp {
 public:
  CellEndnode(CellTraffic& traffic, uint32_t node, fabric::CellPort& port)
      : traffic_(traffic), node_(node), port_(port), scratch_(kVnetBytes + kCellPayloadBytesMax) {}

  int poll(Instant now) noexcept override {
    int work = port_.poll(now);
    work += receive(now);
    due_ = kNever;
    if (port_.up()) {
      for (CellFlow& flow : traffic_.flows) {
        if (flow.plan->from == node_) work += send(flow, now);
      }
    }
    port_.flush(now);
    return work;
  }
  [[nodiscard]] Instant deadline() const noexcept override { return std::min(due_, port_.deadline()); }

 private:
  int receive(Instant now) noexcept {
    const auto cells = port_.receive();
    for (const fabric::RxCell& cell : cells) {
      CellView view;
      if (decode_cell(cell.bytes, CrcCheck::kVerify, view) != CellError::kNone) {
        traffic_.ledger.violation(now, "a cell arrived damaged");
        continue;
      }
      uint32_t id = 0;
      uint64_t number = 0;
      const bool known = FlowLedger::peek(view.payload, id, number) && id < traffic_.flows.size();
      if (!known || traffic_.flows[id].plan->to != node_) {
        traffic_.ledger.violation(now, "a cell arrived at the wrong node");
      } else if (cell.vl != traffic_.flows[id].plan->vl || view.vl != cell.vl) {
        traffic_.ledger.violation(now, "a cell changed its lane");
      } else {
        traffic_.ledger.arrive(id, now, view.payload);
      }
    }
    const int work = static_cast<int>(cells.size());
    port_.release();
    return work;
  }

  int send(CellFlow& flow, Instant now) noexcept {
    int work = 0;
    for (int burst = 0; burst < 4; ++burst) {
      const bool planned = flow.sent < flow.plan->cells;
      if (traffic_.stopped || (!planned && !traffic_.trickle)) return work;
      if (flow.next_at > now) {
        due_ = std::min(due_, flow.next_at);
        return work;
      }
      const bool sent = send_one(flow, now);
      check_blocked(flow, now);
      if (!sent) {
        if (flow.blocked_since == kNever) flow.blocked_since = now;
        return work;
      }
      flow.blocked_since = kNever;
      const Duration pause = planned ? flow.plan->gap : traffic_.ledger.trickle_gap();
      flow.next_at =
          now +
          Duration(static_cast<int64_t>(traffic_.random.below(2 * static_cast<uint64_t>(pause.count()) + 1)));
      ++work;
    }
    return work;
  }

  bool send_one(CellFlow& flow, Instant now) noexcept {
    const CellFlowPlan& plan = *flow.plan;
    const uint32_t bytes =
        plan.bytes_min + static_cast<uint32_t>(traffic_.random.below(plan.bytes_max - plan.bytes_min + 1));
    const uint32_t cell_bytes = kCellHeaderBytes + bytes + kCrcBytes;
    std::byte* cell = port_.claim(plan.vl, cell_bytes);
    if (cell == nullptr) return false;
    traffic_.ledger.send(flow.flow, now, bytes, !traffic_.promised(plan), scratch_);
    const CellTemplate fixed = make_cell_template({.dest_subnet = port_.info().subnet,
                                                   .src_subnet = port_.info().subnet,
                                                   .dlid = Lid(static_cast<uint16_t>(plan.to)),
                                                   .slid = port_.info().lid,
                                                   .vl = plan.vl,
                                                   .sl = ServiceLevel(plan.vl.value()),
                                                   .dest_qpn = Qpn(5),
                                                   .src_qpn = Qpn(6)});
    uint32_t crc = compose_cell_header(cell, fixed,
                                       {.opcode = Opcode::kSend,
                                        .flags = kCellFirst | kCellLast,
                                        .psn = Psn(flow.sent),
                                        .payload_bytes = static_cast<uint16_t>(bytes)});
    crc = crc32c_copy(crc, cell + kCellHeaderBytes, scratch_.data() + kVnetBytes, bytes);
    store_be<uint32_t>(cell + kCellHeaderBytes + bytes, crc);
    port_.commit(plan.vl, cell_bytes, crc);
    ++flow.sent;
    return true;
  }

  /// If the world's only faults are nodes that stand still, only flows to or through such a node may be
  /// blocked for long.
  void check_blocked(CellFlow& flow, Instant now) noexcept {
    const WorldPlan& world = traffic_.world;
    const bool others_fault = !world.faults.empty() || !world.cuts.empty() || !world.crashes.empty();
    if (flow.blocked_since == kNever || others_fault || world.fabric.cut_through) return;
    Duration own = world.frozen(flow.plan->from, flow.blocked_since, now) +
                   world.frozen(flow.plan->to, flow.blocked_since, now);
    for (uint32_t i = 0; i < world.fabric.switches(); ++i)
      own += world.frozen(world.fabric.switch_node(i), flow.blocked_since, now);
    const Duration limit = kStandstillCost * world.fabric.switches();
    if (now - flow.blocked_since <= own + limit) return;
    traffic_.ledger.violation(
        now, fmt::format("{} was held up for {} ms by a node that stands still beside it",
                         traffic_.ledger.name(flow.flow), (now - flow.blocked_since - own) / 1ms));
    flow.blocked_since = kNever;
  }

  CellTraffic& traffic_;
  uint32_t node_;
  fabric::CellPort& port_;
  Instant due_ = kNever;
  std::vector<std::byte> scratch_;
};

class CellScenario final : public Scenario {
 public:
  explicit CellScenario(const WorldParts& parts)
      : traffic_{parts.plan,   parts.plan.fabric,
                 parts.ledger, parts.random,
                 {},           std::vector<bool>(parts.plan.fabric.links())} {
    for (const CellFlowPlan& flow : parts.plan.cell_flows) {
      const uint32_t id = parts.ledger.add_flow({.name = fmt::format("cells {} -> {}", flow.from, flow.to)});
      traffic_.flows.push_back({.plan = &flow, .flow = id});
    }
  }

  std::unique_ptr<EndnodeApp> start(uint32_t node, uint64_t /*incarnation*/, fabric::CellPort& port,
                                    Instant /*now*/) override {
    return std::make_unique<CellEndnode>(traffic_, node, port);
  }
  void crash(uint32_t /*node*/, Instant /*now*/) override {}
  void link_change(uint32_t link, bool up, bool /*switch_death*/, Instant now) override {
    traffic_.link_up[link] = up;
    for (const CellFlow& flow : traffic_.flows) {
      if (traffic_.fabric.on_path(link, flow.plan->from, flow.plan->to))
        traffic_.ledger.excuse(flow.flow, now);
    }
  }
  uint32_t step(uint32_t /*polled*/, Instant /*now*/) override { return 0; }
  [[nodiscard]] Instant deadline() const override { return kNever; }
  void check(uint32_t /*worked*/, Instant /*now*/) override {}
  [[nodiscard]] bool recovered(Instant since) const override {
    return std::all_of(traffic_.flows.begin(), traffic_.flows.end(),
                       [&](const CellFlow& flow) { return traffic_.ledger.passed_since(flow.flow, since); });
  }
  [[nodiscard]] bool finished() const override {
    return std::all_of(traffic_.flows.begin(), traffic_.flows.end(),
                       [](const CellFlow& flow) { return flow.sent >= flow.plan->cells; });
  }
  void trickle(Instant /*now*/) override { traffic_.trickle = true; }
  /// A switch may have dropped cells to or through a node that stood still, to make room for other cells.
  void stop(Instant now) override {
    traffic_.stopped = true;
    for (const CellFlow& flow : traffic_.flows) {
      if (traffic_.world.stood_still(flow.plan->from, flow.plan->to)) traffic_.ledger.excuse(flow.flow, now);
    }
  }
  [[nodiscard]] bool drained() const override {
    return std::all_of(traffic_.flows.begin(), traffic_.flows.end(),
                       [&](const CellFlow& flow) { return traffic_.ledger.outstanding(flow.flow) == 0; });
  }

 private:
  CellTraffic traffic_;
};

}  // namespace

std::unique_ptr<Scenario> make_cell_scenario(const WorldParts& parts) {
  return std::make_unique<CellScenario>(parts);
}

}  // namespace weft::sim
