// fabric/carrier/burst_pool.h -- buffers in which a ZeroMQ link composes its bursts and from which the
// library sends them as they are. A buffer comes back when the last reference to its message is gone,
// whichever thread drops it; so the memory lives until then, even when the link has ended.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "fabric/carrier/zmq_socket.h"

namespace weft::fabric {

/// Owner: the link's thread. No call blocks; none but the constructor allocates buffers.
class BurstPool {
 public:
  BurstPool(uint32_t buffers, size_t buffer_bytes);

  /// A free buffer of `buffer_bytes`, one that was used lately if possible: it is likely to be in the cache.
  /// Null when all are on the way. The caller lends it in the end.
  [[nodiscard]] std::byte* take() noexcept;
  /// Makes `out` a message of the first `bytes` of a taken buffer, which then belongs to the message. False
  /// without memory: the buffer is still the caller's.
  [[nodiscard]] bool lend(std::byte* buffer, size_t bytes, ZmqMessage& out) noexcept;

 private:
  struct Store;
  struct Buffer;
  static void come_back(void* data, void* buffer) noexcept;

  std::shared_ptr<Store> store_;
};

}  // namespace weft::fabric
