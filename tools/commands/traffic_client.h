// tools/commands/traffic_client.h -- one run of a host's traffic generator, seen from the client: start,
// follow, report.
#pragma once

#include <functional>
#include <string>

#include "base/result.h"
#include "control/management.h"

namespace weft::tools {

/// Starts `run` at the process with the control endpoint `control_path` and follows it to its end. `progress`
/// is called every 50 ms with the figures so far; returning false ends the run early.
Result<control::TrafficFigures> run_traffic(
    const std::string& control_path, const control::TrafficRun& run,
    const std::function<bool(const control::TrafficFigures&)>& progress);

/// True when every frame that was sent came back intact, once and in order.
[[nodiscard]] bool all_came_back(const control::TrafficFigures& figures) noexcept;
[[nodiscard]] double gbps_of(const control::TrafficFigures& figures) noexcept;
/// "frames_sent":...: the JSON fields of docs/json.md, without braces.
std::string traffic_json_fields(const control::TrafficFigures& figures);
/// A short table for people.
std::string traffic_table(const control::TrafficFigures& figures);

}  // namespace weft::tools
