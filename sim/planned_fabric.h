// sim/planned_fabric.h -- the fabric of a simulated world as its plan describes it, and its switches as nodes
// that take turns.
#pragma once

#include "sim/fabric/sim_fabric.h"
#include "sim/plan/world_plan.h"
#include "sim/turns.h"

namespace weft::sim {

/// `observer` must outlive the fabric.
[[nodiscard]] inline SimFabricConfig fabric_of(const FabricPlan& plan, FabricObserver& observer) {
  SimFabricConfig config;
  config.switching.link.guid = Guid(0x5745'4654'5357'0000ULL);
  config.switching.link.cell_payload_bytes = plan.cell_payload_bytes;
  config.switching.link.flit_payload_bytes = plan.flit_payload_bytes;
  config.switching.link.lanes = plan.lanes;
  config.switching.link.credits_per_lane = plan.credits_per_lane;
  config.switching.link.cut_through = plan.cut_through;
  config.switching.ports = plan.links();
  config.switching.links_awake = 0;  // every idle link sleeps
  config.endnodes = plan.endnodes;
  config.far = plan.far_nodes >> 1;
  config.trunks = plan.switches() - 1;
  config.receiver_rereads = plan.receiver_rereads;
  config.observer = &observer;
  return config;
}

class SimSwitch final : public SimNode {
 public:
  SimSwitch(SimFabric& fabric, uint32_t index) : fabric_(fabric), index_(index) {}
  [[nodiscard]] bool alive() const noexcept override { return fabric_.switch_at(index_) != nullptr; }
  int poll(Instant now) noexcept override { return fabric_.switch_at(index_)->poll(now); }
  [[nodiscard]] Instant deadline() const noexcept override { return fabric_.switch_at(index_)->deadline(); }
  [[nodiscard]] bool disturbed() const noexcept override { return fabric_.switch_disturbed(index_); }

 private:
  SimFabric& fabric_;
  uint32_t index_;
};

}  // namespace weft::sim
