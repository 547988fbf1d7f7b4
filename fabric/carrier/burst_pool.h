// fabric/carrier/burst_pool.h -- buffers in which a ZeroMQ link composes its bursts. The library sends them
// without a copy. A buffer comes back when the last reference to its message is dropped, by any thread. The
// memory lives until then, even if the link has ended.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "fabric/carrier/zmq_socket.h"

namespace weft::fabric {

/// Owner: the link's thread. No call blocks. Only the constructor allocates buffers.
class BurstPool {
 public:
  BurstPool(uint32_t buffers, size_t buffer_bytes);

  /// A free buffer of `buffer_bytes`. Buffers that came back last are preferred, because they are likely to
  /// be in the cache. Null if all buffers are lent. The caller must lend the buffer in the end.
  [[nodiscard]] std::byte* take() noexcept;
  /// Makes `out` a message of the first `bytes` of a taken buffer; the buffer then belongs to the message.
  /// False without memory: the buffer still belongs to the caller.
  [[nodiscard]] bool lend(std::byte* buffer, size_t bytes, ZmqMessage& out) noexcept;

 private:
  struct Store;
  struct Buffer;
  static void come_back(void* data, void* buffer) noexcept;

  std::shared_ptr<Store> store_;
};

}  // namespace weft::fabric
