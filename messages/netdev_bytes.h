// messages/netdev_bytes.h -- the byte layout LAY-MSG of the split driver's messages.
//
//   0 function 16   2 version 16   4 transaction context 64   12 fields of the function
//
// docs/wire_format.md lists each function with offsets and a worked example.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "messages/netdev_model.h"

namespace weft {

inline constexpr uint32_t kNetdevHeaderBytes = 12;
/// Offset of the packet in a SendData message (PUSH-DATA-01).
inline constexpr uint32_t kSendDataHeaderBytes = 16;

/// Encoded size of the message in bytes.
[[nodiscard]] size_t netdev_bytes_size(const NetdevMessage& message) noexcept;

/// Writes the message to the start of `out`. Returns its size in bytes, or 0 when it does not fit; nothing is
/// written then.
[[nodiscard]] size_t encode_netdev_bytes(const NetdevMessage& message, std::span<std::byte> out) noexcept;

/// Writes the 16 bytes in front of a packet of `data_bytes` that is already behind them in memory.
void encode_send_data_header(uint64_t context, uint32_t data_bytes, std::byte* to) noexcept;

/// Reads one message that fills `in` exactly. `out` is set only on kNone; its spans point into `in`.
[[nodiscard]] NetdevError decode_netdev_bytes(std::span<const std::byte> in, NetdevMessage& out) noexcept;

}  // namespace weft
