// messages/netdev_capnp.h -- the driver's messages in Cap'n Proto (messages/netdev.capnp). Users of this
// header need no header of Cap'n Proto.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "messages/netdev_model.h"

namespace weft {

/// Encoder and decoder with their own aligned memory, allocated once. Owner: one thread.
class NetdevCapnp {
 public:
  /// @param message_bytes_max  longest message to encode or decode
  explicit NetdevCapnp(uint32_t message_bytes_max);
  ~NetdevCapnp();
  NetdevCapnp(const NetdevCapnp&) = delete;
  NetdevCapnp& operator=(const NetdevCapnp&) = delete;

  /// Writes the message to the start of `out`. Returns its size in bytes, or 0 when it does not fit.
  [[nodiscard]] size_t encode(const NetdevMessage& message, std::span<std::byte> out) noexcept;

  /// Copies `in` to aligned memory and reads it there, once. `out` is set only on kNone. Its spans point into
  /// the codec's copy and are valid until the next call.
  [[nodiscard]] NetdevError decode(std::span<const std::byte> in, NetdevMessage& out) noexcept;

 private:
  size_t words_;
  std::unique_ptr<uint64_t[]> encode_words_;
  std::unique_ptr<uint64_t[]> decode_words_;
};

}  // namespace weft
