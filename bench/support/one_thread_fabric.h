// bench/support/one_thread_fabric.h -- two endnodes on one switch over links in memory, all driven by the
// measuring thread. It measures only the CPU time of the parts, because no cache line moves between cores.
#pragma once

#include "base/check.h"
#include "base/rng.h"
#include "bench/support/fabric_rig.h"
#include "fabric/link/link_cell_port.h"
#include "sim/fabric/sim_fabric.h"

namespace weft::bench {

/// Owner: the measuring thread.
struct OneThreadFabric {
  explicit OneThreadFabric(uint32_t cell_payload_bytes)
      : links(config(cell_payload_bytes), random),
        middle(started(links)),
        host_port(links.endnode(0)),
        unit_port(links.endnode(1)) {
    const Instant now = Endnode::now();
    middle.poll(now);
    host_port.poll(now);
    unit_port.poll(now);
  }

  static sim::SimFabricConfig config(uint32_t cell_payload_bytes) {
    sim::SimFabricConfig out;
    out.switching.link.guid = Guid(1);
    out.switching.link.cell_payload_bytes = cell_payload_bytes;
    out.switching.ports = 2;
    out.endnode_guid = Guid(2);
    out.receiver_rereads = true;
    return out;
  }
  static fabric::Switch& started(sim::SimFabric& made) {
    WEFT_CHECK(made.start(Endnode::now()) == LinkRefusal::kNone, "plug");
    return *made.switch_at(0);
  }

  SeededRandom random{1};
  sim::SimFabric links;
  fabric::Switch& middle;
  fabric::LinkCellPort host_port;
  fabric::LinkCellPort unit_port;
};

}  // namespace weft::bench
