// iou_driver/pcap_file.h -- writes a recording: pcap with nanoseconds, Ethernet. The file belongs to the
// user, so its content stays: a new run appends, and a file of another format is refused.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace weft::iou {

/// Longest frame it takes, Ethernet header included.
inline constexpr uint32_t kPcapFrameBytesMax = 65524;

/// The fate of buffered frames.
struct PcapWritten {
  uint64_t frames = 0;
  uint64_t bytes = 0;  // of these frames
  uint64_t lost = 0;   // frames that the file did not take
  int error = 0;       // why, as errno; 0 when none was lost
};

/// Owner: the unit's thread. Writes whole records at once, so that kill -9 leaves no partial record.
class PcapFile {
 public:
  /// Creates `path`, or opens it to go on behind its last frame. Fails, leaving the file alone, when it is
  /// not a whole recording of this kind or another process writes it; the error names the remedy.
  static Result<std::unique_ptr<PcapFile>> open(const std::string& path);
  ~PcapFile();
  PcapFile(const PcapFile&) = delete;
  PcapFile& operator=(const PcapFile&) = delete;

  /// Adds a frame given in two parts, kPcapFrameBytesMax at most. @return the frames written to make room
  PcapWritten add(Instant at, std::span<const std::byte> head, std::span<const std::byte> rest) noexcept;
  /// Writes what is buffered.
  PcapWritten flush() noexcept;

 private:
  explicit PcapFile(UniqueFd fd);
  void put(const void* bytes, size_t count) noexcept;
  void put_file_header() noexcept;
  Status check_existing(const std::string& path, uint64_t file_bytes) const;

  UniqueFd fd_;
  bool regular_ = false;
  std::vector<std::byte> buffer_;  // whole records
  size_t used_ = 0;
  uint64_t frames_ = 0;   // in the buffer
  uint64_t bytes_ = 0;    // of these frames
  uint64_t written_ = 0;  // bytes in the file
};

/// Fails when both paths lead to one file.
Status check_different_files(const std::string& in, const std::string& out);

}  // namespace weft::iou
