#include "sim/verbs/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "sim/plan/plan_draw.h"

namespace weft::sim::verbs {
namespace {

using namespace std::chrono_literals;

constexpr uint32_t kAdaptersMax = 8;
constexpr uint32_t kPortsMax = 10;
constexpr uint32_t kPercent = 10'000;  // in ppm

void draw_fabric(PlanDraw& draw, Plan& plan) {
  plan.adapters = 2 + draw.below(draw.chance(3) ? kAdaptersMax - 1 : 3);
  for (uint32_t adapter = 0; adapter < plan.adapters; ++adapter) {
    const bool second = draw.chance(4) && plan.adapter_of.size() + (plan.adapters - adapter) < kPortsMax;
    for (uint32_t port = 0; port < (second ? 2U : 1U); ++port) plan.adapter_of.push_back(adapter);
  }
  FabricPlan& fabric = plan.fabric;
  fabric.endnodes = static_cast<uint32_t>(plan.adapter_of.size());
  fabric.cell_payload_bytes = draw.pick(std::array{256U, 256U, 1024U, 1024U, 4096U});
  fabric.lanes = draw.pick(std::array{1U, 2U, 4U});
  fabric.credits_per_lane = draw.pick(std::array{2U, 8U, 32U, 64U});
  fabric.receiver_rereads = draw.chance(2);
  if (draw.chance(4)) fabric.far_nodes = draw.below(uint64_t{1} << (fabric.endnodes + 1)) & ~1U;
}

/// One world in three loses no cells; the others lose up to 5 or 30 % above the links, and most of them also
/// duplicate, reorder and delay.
void draw_faults(PlanDraw& draw, Plan& plan) {
  constexpr std::array kLoss{0U, 0U, 1U, 5U, 5U, 30U};
  fabric::CellFaults& cells = plan.cell_faults;
  cells.drop_ppm = draw.pick(kLoss) * kPercent;
  if (cells.drop_ppm != 0 || draw.chance(4)) {
    if (draw.chance(2)) cells.duplicate_ppm = draw.pick(std::array{1U, 5U, 30U}) * kPercent;
    if (draw.chance(2)) cells.reorder_ppm = draw.pick(std::array{1U, 5U, 30U}) * kPercent;
    if (draw.chance(2)) cells.corrupt_ppm = draw.pick(std::array{1U, 5U}) * kPercent;
    if (draw.chance(3)) {
      cells.delay_ppm = draw.pick(std::array{1U, 5U}) * kPercent;
      cells.delay_min = 1us;
      cells.delay_max = draw.between(10us, 500us);
    }
  }
  if (draw.chance(4)) {
    plan.flit_faults.drop_ppm = draw.below(2 * kPercent);
    plan.flit_faults.corrupt_ppm = draw.below(2 * kPercent);
    plan.flit_faults.duplicate_ppm = draw.below(2 * kPercent);
  }
}

/// Gives the ports to the adapters anew: two to those for which `two` says so.
template <class Two>
void draw_ports(Plan& plan, Two two) {
  plan.adapter_of.clear();
  for (uint32_t adapter = 0; adapter < plan.adapters; ++adapter) {
    const bool second = two() && plan.adapter_of.size() + (plan.adapters - adapter) < kPortsMax;
    for (uint32_t port = 0; port < (second ? 2U : 1U); ++port) plan.adapter_of.push_back(adapter);
  }
  plan.fabric.endnodes = static_cast<uint32_t>(plan.adapter_of.size());
  plan.fabric.far_nodes &= (uint32_t{1} << (plan.fabric.endnodes + 1)) - 1;
}

/// Disturbances of the fabric are drawn from their own stream. Every second plan has none.
void draw_unsteady(PlanDraw draw, Plan& plan) {
  const uint32_t what = draw.chance(2) ? 0 : draw.below(15) + 1;
  constexpr uint32_t kCalls = 60'000;  // ppm
  if ((what & 1) != 0) plan.cut_ppm = draw.between(2'000, kCalls);
  if ((what & 2) != 0) plan.migration_ppm = draw.between(kCalls / 2, 2 * kCalls);
  if ((what & 4) != 0) plan.life_ppm = draw.between(2'000, kCalls);
  if ((what & 8) != 0) plan.partition_ppm = draw.between(2'000, kCalls);
  if (plan.migration_ppm != 0) draw_ports(plan, [&] { return draw.chance(2); });
  if (plan.life_ppm == 0) return;
  for (uint32_t adapter = 2; adapter < plan.adapters; ++adapter)
    if (draw.chance(3)) plan.vacant |= 1U << adapter;
}

/// Few calls and fast links, because the long messages take the time.
void draw_long(PlanDraw& draw, Plan& plan) {
  if (!draw.chance(24)) return;
  plan.long_bytes_max = draw.pick(std::array{1U, 1U, 1U, 1U, 1U, 1U, 4U, 4U, 4U, 4U, 16U, 64U}) << 20;
  plan.operations = draw.between(30, 60);
  plan.fabric.cell_payload_bytes = 4096;
  plan.fabric.credits_per_lane = 64;
  plan.cell_faults.drop_ppm = std::min(plan.cell_faults.drop_ppm, 5 * kPercent);
}

/// One steady world in two has adapters on one machine.
void draw_windows(PlanDraw draw, Plan& plan) {
  if (plan.unsteady() || !draw.chance(2)) return;
  plan.direct = draw.chance(2) ? (1U << plan.adapters) - 1 : draw.below(1U << plan.adapters);
  if (draw.chance(2)) {
    plan.dma_faults.late_ppm = draw.between(10'000, 300'000);
    plan.dma_faults.late_max = draw.between(1us, 50us);
    plan.dma_faults.merge_ppm = draw.between(10'000, 300'000);
  }
  if (draw.chance(4)) plan.dma_faults.fail_ppm = draw.between(1'000, 20'000);
}

/// One world in three of those in which programs leave the paths of their QPs alone.
void draw_ways(PlanDraw draw, Plan& plan) {
  if (plan.migration_ppm != 0 || plan.rename_ppm != 0 || plan.direct != 0 || !draw.chance(3)) return;
  plan.finds_ways = true;
  draw_ports(plan, [&] { return !draw.chance(4); });
  plan.cut_ppm = draw.between(5'000, 30'000);
  if (draw.chance(2)) return;
  plan.cell_faults = {};  // the model knows more about worlds without losses
  plan.flit_faults = {};
}

}  // namespace

bool Plan::loses() const noexcept {
  return loses_cells() || unsteady() || window_datagrams;
}
bool Plan::loses_cells() const noexcept {
  return cell_faults.drop_ppm != 0 || cell_faults.corrupt_ppm != 0 || reorders();
}
bool Plan::doubles() const noexcept {
  return cell_faults.duplicate_ppm != 0;
}
bool Plan::reorders() const noexcept {
  return cell_faults.reorder_ppm != 0 || cell_faults.delay_ppm != 0;
}

Plan make_plan(uint64_t seed) {
  PlanDraw draw(seed ^ 0x7665'7262'7300ULL);
  Plan plan;
  plan.seed = seed;
  draw_fabric(draw, plan);
  draw_faults(draw, plan);
  plan.step_min = 100ns;
  plan.step_max = draw.between(200ns, 3000ns);
  plan.skip_ppm = draw.chance(3) ? draw.below(200'000) : 0;
  plan.operations = draw.between(100, 500);
  plan.gap = draw.chance(2) ? draw.between(0ns, 5us) : draw.between(5us, 100us);
  plan.wrong_ppm = draw.chance(3) ? 0 : draw.below(30'000);
  plan.upheaval_ppm = draw.chance(3) ? 0 : draw.below(60'000);
  plan.bytes_max = draw.pick(std::array{64U, 512U, 4096U, 4096U, 20'000U});
  draw_long(draw, plan);
  draw_unsteady(PlanDraw(seed ^ 0x756e'7374'6561ULL), plan);
  PlanDraw renames(seed ^ 0x7265'6e61'6d65ULL);
  if (renames.chance(5)) plan.rename_ppm = renames.between(2'000, 30'000);
  PlanDraw crashes(seed ^ 0x6372'6173'6865ULL);
  if (crashes.chance(5)) plan.crash_ppm = crashes.between(2'000, 15'000);
  draw_windows(PlanDraw(seed ^ 0x7769'6e64'6f77ULL), plan);
  PlanDraw datagrams(seed ^ 0x6461'7461'6772ULL);
  plan.window_datagrams = plan.direct != 0 && datagrams.chance(2);
  draw_ways(PlanDraw(seed ^ 0x7761'7973ULL), plan);
  return plan;
}

std::string describe(const Plan& plan) {
  const auto percent = [](uint32_t ppm) { return static_cast<double>(ppm) / kPercent; };
  const fabric::CellFaults& cells = plan.cell_faults;
  return fmt::format(
      "verbs seed {}: {} adapters, {} ports, {} switches, cells of {} bytes, {} lanes of {} credits\n"
      "  cells lost {} %, doubled {} %, swapped {} %, damaged {} %, late {} %; {} calls, messages up to {} "
      "bytes, some up to {}\n"
      "  of a million calls {} cut links, {} change partitions, {} migrate, {} end or begin nodes, "
      "{} give ports other names, {} end switches{}\n",
      plan.seed, plan.adapters, plan.fabric.endnodes, plan.fabric.switches(), plan.fabric.cell_payload_bytes,
      plan.fabric.lanes, plan.fabric.credits_per_lane, percent(cells.drop_ppm), percent(cells.duplicate_ppm),
      percent(cells.reorder_ppm), percent(cells.corrupt_ppm), percent(cells.delay_ppm), plan.operations,
      plan.bytes_max, std::max(plan.bytes_max, plan.long_bytes_max), plan.cut_ppm, plan.partition_ppm,
      plan.migration_ppm, plan.life_ppm, plan.rename_ppm, plan.crash_ppm,
      plan.finds_ways         ? "; QPs find other ways"
      : plan.window_datagrams ? "; UD takes windows"
                              : "");
}

}  // namespace weft::sim::verbs
