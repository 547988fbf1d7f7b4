// host_driver/traffic_control.h -- `weft traffic` at a host: runs of its generators, as the control endpoint
// is asked for them.
#pragma once

#include <vector>

#include "base/result.h"
#include "control/management.h"
#include "host_driver/gen_port.h"

namespace weft::host {

/// Owner: the host's thread. The generators outlive it.
class TrafficControl {
 public:
  /// In the order in which --port counts.
  explicit TrafficControl(std::vector<GenPort*> generators) : generators_(std::move(generators)) {}

  /// Fails while a run of that generator is on, without such a generator, or when the wish makes no sense.
  Status start(const control::TrafficRun& run);
  /// Of the generator that was started last. Each call keeps the run alive: a run without a call for five
  /// seconds has lost its client and ends.
  Result<control::TrafficFigures> stop();
  Result<control::TrafficFigures> report();

 private:
  std::vector<GenPort*> generators_;
  GenPort* last_ = nullptr;
};

/// The wish as the generator takes it.
[[nodiscard]] TrafficSpec traffic_spec(const control::TrafficRun& run);

}  // namespace weft::host
