// host_driver/traffic_control.h -- `weft traffic` at a host: starts and stops runs of its generators on
// request of the control endpoint.
#pragma once

#include <vector>

#include "base/result.h"
#include "control/management.h"
#include "host_driver/gen_port.h"

namespace weft::host {

/// Owner: the host's thread. The generators outlive it.
class TrafficControl {
 public:
  /// In the order that --port counts.
  explicit TrafficControl(std::vector<GenPort*> generators) : generators_(std::move(generators)) {}

  /// Fails if that generator is running or does not exist, or if the run's values are invalid.
  Status start(const control::TrafficRun& run);
  /// These act on the generator that was started last. Each call keeps the run alive: a run without a call
  /// for five seconds has lost its client and ends.
  Result<control::TrafficFigures> stop();
  Result<control::TrafficFigures> report();

 private:
  std::vector<GenPort*> generators_;
  GenPort* last_ = nullptr;
};

/// Translates a control message into the generator's spec.
[[nodiscard]] TrafficSpec traffic_spec(const control::TrafficRun& run);

}  // namespace weft::host
