// tools/listen_wait.h -- waits until a server takes connections, for `weft run --wait-listen`.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/clock.h"

namespace weft::tools {

/// True when `table`, the text of /proc/net/tcp or /proc/net/tcp6, has a listening socket at that port, of
/// any address. Asking the table makes no connection: servers such as ibv_rc_pingpong take one and no more.
[[nodiscard]] bool table_has_listener(std::string_view table, uint16_t port);

/// Sleeps until a socket of this network namespace listens at the TCP port, for `patience` at most; looks
/// every 5 ms. @return whether one does
[[nodiscard]] bool wait_for_listener(uint16_t port, Duration patience);

}  // namespace weft::tools
