// sim/verbs/port_end.h -- one port of an adapter of a verbs world, with the faults above its link.
#pragma once

#include <memory>

#include "fabric/link/faulty_cell_port.h"
#include "fabric/link/link_cell_port.h"
#include "fabric/link/memory_link.h"
#include "sim/tampered_port.h"
#include "sim/verbs/model.h"

namespace weft::sim::verbs {

/// One port of an adapter on its link, with the faults above the link.
struct PortEnd {
  fabric::MemoryCable* cable = nullptr;
  std::unique_ptr<fabric::LinkCellPort> port;
  std::unique_ptr<fabric::FaultyCellPort> faulty;
  std::unique_ptr<TamperedPort> tampered;
};

inline void count_faults(const PortEnd& end, Tally& tally) {
  if (end.faulty == nullptr) return;
  const fabric::FaultCounts& counts = end.faulty->counts();
  tally("cells lost", counts.dropped);
  tally("cells damaged", counts.corrupted);
  tally("cells doubled", counts.duplicated);
  tally("cells swapped", counts.reordered);
  tally("cells late", counts.delayed);
}

}  // namespace weft::sim::verbs
