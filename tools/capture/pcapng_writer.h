// tools/capture/pcapng_writer.h -- frames or cells as pcapng (draft-ietf-opsawg-pcapng): one section, a block
// for each interface, nanosecond time stamps, direction in the flags option, notes as comments.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/capture_ring.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace weft::tools {

/// What the blocks hold: Ethernet frames, cells as the RoCE v2 frames that they mean, or cells as they are
/// (messages/cell.h), which Wireshark has as DLT_USER0.
enum class CaptureContent : uint8_t { kFrames, kPackets, kCells };
[[nodiscard]] constexpr const char* content_word(CaptureContent content) noexcept {
  switch (content) {
    case CaptureContent::kFrames:
      return "frames";
    case CaptureContent::kPackets:
      return "packets";
    case CaptureContent::kCells:
      break;
  }
  return "cells";
}

class PcapngWriter {
 public:
  /// Begins the file that is open at `fd`. CapturedFrame::port is an index into `interfaces`. `keep_max`
  /// bytes of each frame are written, the rest only counted; 0: all.
  PcapngWriter(UniqueFd fd, const std::vector<std::string>& interfaces, CaptureContent content,
               uint32_t keep_max = 0);
  /// The port of the frame is one of the interfaces. It stays in memory until kBufferBytes have come, or
  /// flush(). @return false when the file cannot be written: see failure().
  bool frame(const CapturedFrame& frame);
  bool flush();
  /// errno of the first write that failed; 0: none did. Nothing is written after it.
  [[nodiscard]] int failure() const noexcept { return failure_; }

 private:
  static constexpr size_t kBufferBytes = size_t{64} << 10;
  void section();
  void interface(const std::string& name, CaptureContent content);
  void block(uint32_t type, const std::string& body);

  UniqueFd fd_;
  uint32_t keep_max_;
  std::string buffer_;
  int failure_ = 0;
};

}  // namespace weft::tools
