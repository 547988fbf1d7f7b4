// messages/netdev_capnp.h -- the driver's messages in Cap'n Proto (messages/netdev.capnp). No Cap'n Proto
// header is needed to use this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "messages/netdev_model.h"

namespace weft {

/// Encoder and decoder with their own aligned memory, taken once. Owner: one thread.
class NetdevCapnp {
 public:
  /// @param message_bytes_max  longest message to encode or decode
  explicit NetdevCapnp(uint32_t message_bytes_max);
  ~NetdevCapnp();
  NetdevCapnp(const NetdevCapnp&) = delete;
  NetdevCapnp& operator=(const NetdevCapnp&) = delete;

  /// Writes the message to the start of `out`; returns its bytes, or 0 when it does not fit.
  [[nodiscard]] size_t encode(const NetdevMessage& message, std::span<std::byte> out) noexcept;

  /// Copies `in` to aligned memory and reads it there, once. `out` is set only on kNone; its spans point into
  /// the codec's copy and hold until the next call.
  [[nodiscard]] NetdevError decode(std::span<const std::byte> in, NetdevMessage& out) noexcept;

 private:
  size_t words_;
  std::unique_ptr<uint64_t[]> encode_words_;
  std::unique_ptr<uint64_t[]> decode_words_;
};

}  // namespace weft
