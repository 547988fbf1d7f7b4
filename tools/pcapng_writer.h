// tools/pcapng_writer.h -- Ethernet frames into a pcapng file (draft-ietf-opsawg-pcapng): one section, one
// interface, nanosecond time stamps, direction in the flags option.
#pragma once

#include <fstream>
#include <string>

#include "base/capture_ring.h"

namespace weft {

class PcapngWriter {
 public:
  PcapngWriter(const std::string& path, const std::string& interface_name);
  [[nodiscard]] bool good() const { return out_.good(); }
  /// False when the file cannot be written any more.
  bool frame(const CapturedFrame& frame);
  void flush() { out_.flush(); }

 private:
  void block(uint32_t type, const std::string& body);

  std::ofstream out_;
};

}  // namespace weft
