// base/net/capture_ring.h -- captured frames in a file that both ends map: the driver half writes, `weft
// capture` reads and makes pcapng of it. A slow or dead reader never delays the writer: frames that find the
// ring full are dropped and counted.
//
//   0 magic "WEFTCAPT" . 8 version u32 . 12 capacity u32 (power of two)     128 written u64     256 read u64
//   384 dropped u64     4096 data: records, each 8-aligned, wrapping at capacity
//   record: bytes kept u32 . bytes of the frame u32 . nanoseconds since 1970 u64 . direction u32 . port u32 .
//   bytes of the note u32 . zero u32 . data . note
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace weft {

inline constexpr uint32_t kCaptureRingBytesDefault = 8U << 20;
inline constexpr uint32_t kCaptureRingBytesMin = 256U << 10;
inline constexpr uint32_t kCaptureRingBytesMax = 1U << 30;
/// Longest note on one frame, in bytes.
inline constexpr uint32_t kCaptureNoteBytesMax = 256;

/// As seen from the driver half.
enum class FrameDirection : uint32_t { kIn, kOut };  // in: read from the OS or LAN; out: written to it

struct CapturedFrame {
  uint64_t time_ns = 0;  // since 1970
  FrameDirection direction = FrameDirection::kIn;
  uint32_t port = 0;            // of the process, from 0
  uint32_t frame_bytes = 0;     // length before cutting to `bytes_max`
  std::vector<std::byte> data;  // the captured bytes
  std::string note;             // from the place that captured it; mostly empty
};

/// One end of a ring. The two cursors are free-running; each is written by one side only. The reader trusts
/// nothing it reads: an invalid record ends the capture with an error. A wrong read cursor can only make the
/// writer drop frames.
class CaptureRing {
 public:
  /// Writer. Creates or replaces `path`, mode 0600. `ring_bytes` 0 is the default; else rounded up to a power
  /// of two within the limits above.
  static Result<CaptureRing> create(const std::string& path, uint32_t ring_bytes);
  /// Reader.
  static Result<CaptureRing> open(const std::string& path);
  CaptureRing(CaptureRing&& other) noexcept;
  CaptureRing& operator=(CaptureRing&& other) noexcept;
  ~CaptureRing();

  /// Writer: copies at most `keep_max` bytes of the frame `head` + `rest` that passed `port`, and the first
  /// kCaptureNoteBytesMax bytes of `note`. Never blocks.
  void write(uint32_t port, FrameDirection direction, std::span<const std::byte> head,
             std::span<const std::byte> rest, uint32_t keep_max, std::string_view note = {}) noexcept;

  enum class ReadResult : uint8_t { kFrame, kEmpty, kBroken };
  [[nodiscard]] ReadResult read(CapturedFrame& out);
  [[nodiscard]] uint64_t dropped() const noexcept;

 private:
  CaptureRing() = default;
  static Result<CaptureRing> map(int fd, const std::string& path, size_t bytes);
  void put(uint64_t at, const void* from, size_t bytes) noexcept;
  void get(uint64_t at, void* to, size_t bytes) const noexcept;
  [[nodiscard]] std::atomic<uint64_t>& word(size_t offset) const noexcept;

  std::byte* base_ = nullptr;
  size_t mapped_bytes_ = 0;
  uint64_t capacity_ = 0;
  uint64_t cursor_ = 0;  // our own, kept outside the mapping
};

}  // namespace weft
