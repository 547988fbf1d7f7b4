// base/net/segmenter.h -- cuts a GSO frame (TCP over IPv4 or IPv6, UDP) into frames that any port takes, as a
// NIC does. Used if a port cannot segment, or if a frame is longer than the other side's elements (decisions
// 2.18, 2.21).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/net/ethernet.h"
#include "base/net/vnet_header.h"

namespace weft {

/// Largest frame it takes, vnet header included.
inline constexpr uint32_t kSegmenterBytesMax = 65536 + 64;

/// Holds one frame at a time in memory of its own, taken at construction.
class Segmenter {
 public:
  Segmenter();

  /// Copies a frame whose vnet header has passed check_vnet(). A frame without GSO becomes one segment with
  /// its checksum filled in. False, holding nothing, when the frame is too long, its headers contradict each
  /// other, or it would become more than kGsoPiecesMax.
  [[nodiscard]] bool start(std::span<const std::byte> head, std::span<const std::byte> rest) noexcept;
  /// True while there is a segment left.
  [[nodiscard]] bool active() const noexcept { return active_; }
  /// Length of the next segment, vnet header included.
  [[nodiscard]] uint32_t next_bytes() const noexcept;
  /// Writes the next segment with an empty vnet header; `out` holds next_bytes() at least. Returns the
  /// length.
  uint32_t next(std::span<std::byte> out) noexcept;
  /// Discards the remaining segments.
  void cancel() noexcept { active_ = false; }

 private:
  void write_headers(std::byte* frame, uint32_t payload_bytes) const noexcept;
  void write_transport(std::byte* frame, uint32_t payload_bytes, bool last) const noexcept;

  std::vector<std::byte> frame_;  // the Ethernet frame
  uint32_t bytes_ = 0;
  VnetHeader vnet_;
  FrameLayout layout_;
  uint32_t header_bytes_ = 0;  // up to the transport payload
  uint32_t offset_ = 0;        // payload already written
  uint32_t index_ = 0;         // of the next segment
  bool active_ = false;
};

}  // namespace weft
