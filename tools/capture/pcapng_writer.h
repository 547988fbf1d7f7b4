// tools/capture/pcapng_writer.h -- writes frames or cells as pcapng (draft-ietf-opsawg-pcapng): one section,
// one block per interface, nanosecond time stamps, the direction in the flags option, notes as comments.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/net/capture_ring.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace weft::tools {

/// Content of the packet blocks: Ethernet frames, cells translated to RoCE v2 frames, or untranslated cells
/// (messages/cell.h), for which Wireshark uses DLT_USER0.
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
  /// Starts the file that is open at `fd`. CapturedFrame::port is an index into `interfaces`. At most
  /// `keep_max` bytes of each frame are written; 0: all. The length of the whole frame is always recorded.
  PcapngWriter(UniqueFd fd, const std::vector<std::string>& interfaces, CaptureContent content,
               uint32_t keep_max = 0);
  /// Adds a frame. It is written when kBufferBytes have gathered or at flush(). @return false when the file
  /// cannot be written: see failure()
  bool frame(const CapturedFrame& frame);
  bool flush();
  /// errno of the first write that failed; 0: none did. After a failure nothing more is written.
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
