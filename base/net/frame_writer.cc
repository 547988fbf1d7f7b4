#include "base/net/frame_writer.h"

#include <algorithm>
#include <cstring>

#include "base/net/ethernet.h"

namespace weft {

bool copy_head(std::span<const std::byte> element, FrameHead& out) noexcept {
  if (element.size() < kVnetBytes + kEthernetHeaderBytes) return false;
  out.size = static_cast<uint32_t>(std::min<size_t>(element.size(), kFrameHeadBytes));
  out.frame_bytes = static_cast<uint32_t>(element.size()) - kVnetBytes;
  std::memcpy(out.bytes.data(), element.data(), out.size);
  out.vnet = load_vnet(out.bytes.data());
  out.destination = destination_of(out.bytes.data() + kVnetBytes);
  out.source = source_of(out.bytes.data() + kVnetBytes);
  return true;
}

FrameWriter::FrameWriter(FramePort& port) : port_(port), piece_(kSegmenterBytesMax) {}

FrameIo FrameWriter::write(const FrameHead& head, std::span<const std::byte> rest) noexcept {
  if (holding() && !flush()) return FrameIo::kBusy;
  Offload needed = Offload::kNone;
  if (head.vnet.flags != 0 || head.vnet.gso_type != 0) {
    FrameLayout layout;
    (void)parse_frame(head.frame(), layout);
    needed = offloads_needed(head.vnet, layout.ip_version);
    if (cut_of(head.vnet, head.frame(), head.frame_bytes).pieces > kGsoPiecesMax) {
      counters_.add(WriterCounter::kTooManySegments);
      return FrameIo::kDropped;
    }
  }
  const FramePortInfo& info = port_.info();
  const bool too_long = head.vnet.gso_type != 0 && head.frame_bytes > info.frame_bytes_max;
  if (is_subset(needed, info.offloads) && !too_long) [[likely]]
    return port_.write_frame(head.span(), rest);
  if (!segmenter_.start(head.span(), rest)) {
    counters_.add(WriterCounter::kNotSegmentable);
    return FrameIo::kDropped;
  }
  counters_.add(head.vnet.gso_type != 0 ? WriterCounter::kSegmented : WriterCounter::kChecksumsFilled);
  flush();
  return FrameIo::kOk;
}

bool FrameWriter::flush() noexcept {
  for (uint32_t written = 0; holding(); ++written) {
    if (written == kPiecesPerFlush) return false;
    if (piece_bytes_ == 0) piece_bytes_ = segmenter_.next(piece_);
    if (piece_bytes_ == 0) {  // impossible: piece_ holds the longest segment
      segmenter_.cancel();
      return true;
    }
    const std::span<const std::byte> piece(piece_.data(), piece_bytes_);
    const size_t head = std::min<size_t>(piece.size(), kFrameHeadBytes);
    const FrameIo io = port_.write_frame(piece.first(head), piece.subspan(head));
    if (io == FrameIo::kBusy) return false;
    counters_.add(io == FrameIo::kOk ? WriterCounter::kSegmentsWritten : WriterCounter::kSegmentsDropped);
    piece_bytes_ = 0;
  }
  return true;
}

}  // namespace weft
