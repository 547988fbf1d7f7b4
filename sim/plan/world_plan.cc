#include "sim/plan/world_plan.h"

#include <algorithm>

#include "fabric/link/link_engine.h"
#include "messages/cell.h"

namespace weft::sim {

using namespace std::chrono_literals;

Instant WorldPlan::faults_end() const noexcept {
  Instant end{};
  for (const FaultWindow& window : faults) end = std::max(end, window.end);
  for (const CutWindow& cut : cuts) end = std::max(end, cut.end);
  for (const Crash& crash : crashes) end = std::max(end, crash.back_at);
  for (const Freeze& freeze : freezes) end = std::max(end, freeze.until);
  return end;
}

bool WorldPlan::stood_still(uint32_t from, uint32_t to) const noexcept {
  constexpr Duration kLeast = fabric::kOutputStandstill * 4 / 5;  // several in a row add up
  const bool frozen_there = std::any_of(freezes.begin(), freezes.end(), [&](const Freeze& freeze) {
    return freeze.until - freeze.at >= kLeast && (freeze.node == to || fabric.is_switch(freeze.node));
  });
  return frozen_there || std::any_of(faults.begin(), faults.end(), [&](const FaultWindow& window) {
           return window.rates.cut && window.end - window.begin >= kLeast &&
                  fabric.on_path(window.link, from, to);
         });
}

Duration WorldPlan::frozen(uint32_t node, Instant from, Instant to) const noexcept {
  Duration sum{};
  for (const Freeze& freeze : freezes) {
    if (freeze.node == node)
      sum += std::max(Duration{}, std::min(freeze.until, to) - std::max(freeze.at, from));
  }
  return sum;
}

Duration WorldPlan::hindered(uint32_t node, uint32_t other, Instant from, Instant to) const noexcept {
  Duration sum{};
  const auto add = [&](Instant begin, Instant end) {
    sum += std::max(Duration{}, std::min(end, to) - std::max(begin, from));
  };
  // A frozen node blocks the lanes of all its senders.
  for (const Freeze& freeze : freezes) add(freeze.at, freeze.until);
  for (const FaultWindow& window : faults) {
    // The link notices its recovery only at its next probe, which may be lost.
    if (window.rates.cut) add(window.begin, window.end + 2 * fabric::LinkTimers{}.probe_max);
  }
  for (const CutWindow& cut : cuts) {
    if (fabric.on_path(cut.link, node, other)) add(cut.begin, cut.end);
  }
  if (fabric.switch_of(node) == fabric.switch_of(other)) return sum;
  for (const Crash& crash : crashes) {
    if (fabric.is_switch(crash.node)) add(crash.at, crash.back_at);
  }
  return sum;
}

namespace {

uint64_t flits_of(const FabricPlan& fabric, uint64_t bytes) {
  const uint64_t cells = bytes / fabric.cell_payload_bytes + 1;
  if (fabric.flit_payload_bytes == 0) return cells;
  return (bytes + cells * (kCellHeaderBytes + kCrcBytes)) / fabric.flit_payload_bytes + cells;
}

}  // namespace

uint64_t WorldPlan::flits() const noexcept {
  const uint64_t hops = fabric.switches() + 1;
  uint64_t sum = 0;
  for (const CellFlowPlan& flow : cell_flows) {
    sum += flow.cells * hops * flits_of(fabric, (flow.bytes_min + flow.bytes_max) / 2);
  }
  for (const RawPairPlan& pair : raw_pairs) {
    const uint64_t messages = uint64_t{pair.messages[0]} + pair.messages[1];
    sum += messages * hops * flits_of(fabric, (pair.bytes_min + pair.bytes_max) / 2);
  }
  for (const SessionPlan& session : sessions) {
    const uint64_t frames = uint64_t{session.frames[0]} + session.frames[1];
    sum += frames * hops * flits_of(fabric, (session.bytes_min + session.bytes_max) / 2);
  }
  return sum;
}

}  // namespace weft::sim
