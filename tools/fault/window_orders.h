// tools/fault/window_orders.h -- orders of faults to the memory windows of running programs. docs/faults.md,
// "Memory windows".
#pragma once

#include <cstdint>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "messages/window_order.h"

namespace weft::tools {

class StateDir;

/// Path of the socket at which the program with this LID meets its peers; empty: it has no memory windows.
[[nodiscard]] std::string window_door_of(const StateDir& dir, uint16_t lid);
/// Sends an order and waits for the answer for `limit`. An error when the program does not answer, or refuses
/// the order.
Result<WindowOrderReply> order_windows(const std::string& door, const WindowOrder& order, Duration limit);

}  // namespace weft::tools
