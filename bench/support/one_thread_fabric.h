// bench/support/one_thread_fabric.h -- two endnodes on one switch over links in memory, all driven by the
// measuring thread. It measures only the CPU time of the parts, because no cache line moves between cores.
#pragma once

#include <memory>

#include "base/check.h"
#include "base/rng.h"
#include "bench/support/fabric_rig.h"
#include "fabric/link/memory_link.h"
#include "fabric/switch/switch.h"

namespace weft::bench {

/// Owner: the measuring thread.
struct OneThreadFabric {
  explicit OneThreadFabric(uint32_t cell_payload_bytes)
      : host_cable(cable_config(cell_payload_bytes, kHostLid), random),
        unit_cable(cable_config(cell_payload_bytes, kUnitLid), random),
        middle(switch_config(cell_payload_bytes)),
        host_port(host_cable.end(0)),
        unit_port(unit_cable.end(0)) {
    const Instant now = Endnode::now();
    WEFT_CHECK(host_cable.plug(now) == LinkRefusal::kNone && unit_cable.plug(now) == LinkRefusal::kNone,
               "plug");
    middle.attach(1, host_cable.end(1));
    middle.attach(2, unit_cable.end(1));
    middle.forwarding().set(kHostLid, 1);
    middle.forwarding().set(kUnitLid, 2);
    middle.poll(now);
    host_port.poll(now);
    unit_port.poll(now);
  }

  static fabric::MemoryCableConfig cable_config(uint32_t cell_payload_bytes, Lid lid) {
    fabric::MemoryCableConfig config;
    for (fabric::LinkConfig& end : config.ends) end.cell_payload_bytes = cell_payload_bytes;
    config.ends[0].guid = Guid(lid.value() + 1U);
    config.ends[0].lid = lid;
    config.ends[1].guid = Guid(1);
    config.ends[1].is_switch = true;
    config.receiver_rereads = true;
    return config;
  }
  static fabric::SwitchConfig switch_config(uint32_t cell_payload_bytes) {
    fabric::SwitchConfig config;
    config.link = cable_config(cell_payload_bytes, kLidNone).ends[1];
    config.ports = 2;
    return config;
  }

  SeededRandom random{1};
  fabric::MemoryCable host_cable;
  fabric::MemoryCable unit_cable;
  fabric::Switch middle;
  fabric::LinkCellPort host_port;
  fabric::LinkCellPort unit_port;
};

}  // namespace weft::bench
