// adapter/event_log.h -- writes asynchronous events to the log, one line each, rate-limited.
#pragma once

#include <string_view>

#include "adapter/events.h"

namespace weft::adapter {

/// Logs what wants an operator's eye: ports down, QPs and CQs that failed. `name` is the adapter's, e.g.
/// "hca".
void log_event(std::string_view name, const AsyncEvent& event);

}  // namespace weft::adapter
