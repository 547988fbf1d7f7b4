// tools/traffic_client.h -- one run of a host's generator, from the asker's side: start, follow, report.
#pragma once

#include <functional>
#include <string>

#include "base/result.h"
#include "control/management.h"

namespace weft::tools {

/// Starts `run` at the process behind `control_path` and follows it until it has finished. `progress` is
/// called a few times a second with the figures so far and ends the run early by returning false.
Result<control::TrafficFigures> run_traffic(
    const std::string& control_path, const control::TrafficRun& run,
    const std::function<bool(const control::TrafficFigures&)>& progress);

/// True when everything that was sent came back, whole, once and in order.
[[nodiscard]] bool all_came_back(const control::TrafficFigures& figures) noexcept;
[[nodiscard]] double gbps_of(const control::TrafficFigures& figures) noexcept;
/// "frames_sent":...: the fields of the demo's contract and more, without braces.
std::string traffic_json_fields(const control::TrafficFigures& figures);
/// A short table for people.
std::string traffic_table(const control::TrafficFigures& figures);

}  // namespace weft::tools
