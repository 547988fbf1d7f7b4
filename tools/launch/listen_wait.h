// tools/launch/listen_wait.h -- waits until a server accepts connections, for `weft run --wait-listen`.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/clock.h"

namespace weft::tools {

/// True when `table`, the text of /proc/net/tcp or /proc/net/tcp6, has a listening socket at that port, at
/// any address. A trial connection would not do: servers such as ibv_rc_pingpong accept only one.
[[nodiscard]] bool table_has_listener(std::string_view table, uint16_t port);

/// Waits until a socket of this network namespace listens at the TCP port, looking every 5 ms. @return false
/// when none did within `patience`
[[nodiscard]] bool wait_for_listener(uint16_t port, Duration patience);

}  // namespace weft::tools
