// fabric/carrier/shm_carrier.h -- a carrier over two rings in a sealed memfd, with the Unix socket of the
// handshake for wake-ups and as proof of life. docs/shared_memory.md has the layout.
#pragma once

#include <memory>

#include "base/guarded_fd.h"
#include "base/shared_region.h"
#include "fabric/link/carrier.h"
#include "fabric/link/link_handshake.h"

namespace weft::fabric {

/// Bytes of the region of one link.
[[nodiscard]] size_t shm_region_bytes(RingGeometry shape) noexcept;

/// Resources of one end of a shared-memory link.
struct ShmParts {
  SharedRegion region;
  GuardedFd socket;  // connected to the peer; non-blocking
};

/// Descriptors that come with WELCOME: the memfd. It is the only open file that both sides share. Neither
/// side reads or writes it as a file.
inline constexpr size_t kShmWelcomeFds = 1;

enum class ShmSide : uint8_t { kSwitch, kEndnode };

/// The switch uses ring 0 to send, the endnode ring 1. `parts.region` has shm_region_bytes(shape) bytes.
[[nodiscard]] std::unique_ptr<Carrier> make_shm_carrier(ShmParts parts, RingGeometry shape, ShmSide side);

}  // namespace weft::fabric
