// base/time_span.h -- lengths of time as people write them: "1.5s", "20 ms".
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"

namespace weft {

/// Parses "250us", "1.5s", "20 msec": a number with ns, us, ms, s, m or h, or a longer word for it. Nothing
/// if the text has another form, or the time is negative or above a year.
[[nodiscard]] std::optional<Duration> parse_time_span(std::string_view text);
/// In the largest unit of which the span has at least one, with six significant digits: "1.5ms".
[[nodiscard]] std::string format_time_span(Duration span);

}  // namespace weft
