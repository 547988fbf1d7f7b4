// tools/pcapng_writer.h -- frames or cells into a pcapng file (draft-ietf-opsawg-pcapng): one section, a
// block for each interface, nanosecond time stamps, direction in the flags option.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "base/capture_ring.h"

namespace weft::tools {

/// What the blocks hold: Ethernet frames, or cells of the fabric (messages/cell.h), which Wireshark has as
/// DLT_USER0.
enum class CaptureContent : uint8_t { kFrames, kCells };
[[nodiscard]] constexpr const char* content_word(CaptureContent content) noexcept {
  return content == CaptureContent::kFrames ? "frames" : "cells";
}

class PcapngWriter {
 public:
  /// Creates `path`. CapturedFrame::port is an index into `interfaces`.
  PcapngWriter(const std::string& path, const std::vector<std::string>& interfaces, CaptureContent content);
  [[nodiscard]] bool good() const { return out_.good(); }
  /// False when the file cannot be written any more. The port of the frame is one of the interfaces.
  bool frame(const CapturedFrame& frame);
  void flush() { out_.flush(); }

 private:
  void section();
  void interface(const std::string& name, CaptureContent content);
  void block(uint32_t type, const std::string& body);

  std::ofstream out_;
};

}  // namespace weft::tools
