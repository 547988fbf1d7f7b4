// base/net/frame_writer.h -- the last step of a frame that came over the fabric: its first bytes are copied
// once into private memory, checked there, and written together with the rest that stays in the pool element.
// A hostile peer may rewrite the element at any time; nothing that was checked is read from it again
// (decisions 2.16, section 4).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/net/frame_port.h"
#include "base/net/segmenter.h"
#include "base/net/vnet_header.h"

namespace weft {

/// Bytes copied before they are checked: enough for the vnet header, Ethernet, tags, IP and most of TCP.
inline constexpr uint32_t kFrameHeadBytes = 128;

/// Private copy of the first bytes of a frame, and the headers read from it.
struct FrameHead {
  std::array<std::byte, kFrameHeadBytes> bytes;
  uint32_t size = 0;         // of `bytes` in use, vnet header included
  uint32_t frame_bytes = 0;  // whole frame without vnet header
  VnetHeader vnet;
  MacAddress destination{};
  MacAddress source{};
  [[nodiscard]] std::span<const std::byte> span() const noexcept { return {bytes.data(), size}; }
  [[nodiscard]] std::span<const std::byte> frame() const noexcept { return span().subspan(kVnetBytes); }
};

/// Copies and parses the head of `element`. False if it is shorter than vnet and Ethernet header.
[[nodiscard]] bool copy_head(std::span<const std::byte> element, FrameHead& out) noexcept;

/// Most pieces written per call, so that other work gets its turn; a 64 KiB frame in pieces of 1448 bytes has
/// 46.
inline constexpr uint32_t kPiecesPerFlush = 64;

enum class WriterCounter : uint8_t {
  kSegmented,  // frames cut into segments because the port could not take them whole
  kSegmentsWritten,
  kChecksumsFilled,  // frames whose checksum the port could not fill in
  kSegmentsDropped,  // the port refused a piece
  kNotSegmentable,   // headers that contradict each other
  kTooManySegments,  // more than kGsoPiecesMax
  kCount,
};
[[nodiscard]] constexpr CounterNames<WriterCounter> counter_labels(WriterCounter /*of*/) noexcept {
  return {"segmented",        "segments_written", "checksums_filled",
          "segments_dropped", "not_segmentable",  "too_many_segments"};
}

/// Writes frames to one port, and does in software the offloads that the port lacks. Owner: the thread of the
/// port.
class FrameWriter {
 public:
  explicit FrameWriter(FramePort& port);

  /// Writes one frame whose vnet header passed check_vnet(). kBusy: nothing was taken, or pieces of an
  /// earlier frame are still to be written. A segmented frame counts as written once this object holds its
  /// pieces.
  [[nodiscard]] FrameIo write(const FrameHead& head, std::span<const std::byte> rest) noexcept;
  /// Tries to write held pieces, kPiecesPerFlush at most; true when none is left.
  bool flush() noexcept;
  [[nodiscard]] bool holding() const noexcept { return segmenter_.active() || piece_bytes_ != 0; }
  [[nodiscard]] CounterSet<WriterCounter>& counters() noexcept { return counters_; }

 private:
  FramePort& port_;
  Segmenter segmenter_;
  std::vector<std::byte> piece_;
  uint32_t piece_bytes_ = 0;  // length of a piece that the port was too busy to take; 0: none
  CounterSet<WriterCounter> counters_;
};

}  // namespace weft
