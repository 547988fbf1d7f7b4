// sim/adapter_counters.h -- the counter sets of an adapter, for reports and for the check of counters that
// must stay zero.
#pragma once

#include "adapter/adapter.h"

namespace weft::sim {

/// Calls `visit(owner, set)` for each counter set of the adapter.
template <class Visit>
void each_counters(const adapter::ChannelAdapter& adapter, Visit visit) {
  visit("adapter", adapter.counters());
  visit("adapter", adapter.bad_cells());
  visit("adapter", adapter.access_faults());
  for (uint32_t port = 1; port <= adapter.ports().count(); ++port)
    visit("port", adapter.ports().find(static_cast<uint8_t>(port))->counters);
}

}  // namespace weft::sim
