// fabric/carrier/shm_connector.h -- the endnode's side of shared-memory links (decisions 2.9): connect,
// HELLO, check the seals of what comes back. The socket stays open: its hang-up is the switch's death, and
// then it all begins again.
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
