// fabric/carrier/shm_connector.h -- the endnode's side of shared-memory links (decisions 2.9): connect, send
// HELLO, check the seals of the memfd that comes back. The socket stays open. If the switch dies, the socket
// hangs up and the connector starts again.
#pragma once

#include <memory>
#include <string>

#include "base/rng.h"
#include "fabric/link/link_engine.h"
#include "fabric/link/link_handshake.h"

namespace weft::fabric {

/// Keeps a link to the switch at socket `path` up. `random` must outlive it.
[[nodiscard]] std::unique_ptr<LinkSupervisor> make_shm_connector(const std::string& path,
                                                                 const LinkConfig& config,
                                                                 RandomSource& random);

}  // namespace weft::fabric
