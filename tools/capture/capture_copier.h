// tools/capture/capture_copier.h -- copies the ring of a capture into a pcapng file until a limit is reached,
// the node ends, or the user interrupts.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "tools/capture/capture_place.h"
#include "tools/capture/pcapng_writer.h"
#include "tools/capture/roce_translator.h"

namespace weft::tools {

struct CopyLimits {
  uint64_t frames = 0;  // 0: no limit
  Instant end = kNever;
  const std::atomic<bool>* interrupted = nullptr;
};

/// Owner: one thread. Writes a block for each frame that belongs to `place`; cells are translated if
/// `place.content` is kPackets.
class CaptureCopier {
 public:
  /// All arguments must outlive the copier. `out` has already written the start of the file.
  CaptureCopier(PcapngWriter& out, const CapturePlace& place, const CopyLimits& limits,
                uint32_t cell_payload_bytes)
      : out_(out), place_(place), limits_(limits), translator_(cell_payload_bytes) {}

  /// Writes frames that passed before the ring is read.
  void take_early(const std::vector<CapturedFrame>& early);
  /// Fails when the ring is damaged or the output cannot be written. A reader of the output that ends is no
  /// failure.
  Status run(CaptureRing& ring, const StateDir& dir);

  [[nodiscard]] uint64_t written() const noexcept { return written_; }
  /// True when the capture ended because the node has ended.
  [[nodiscard]] bool node_ended() const noexcept { return node_ended_; }

 private:
  [[nodiscard]] bool enough() const noexcept {
    return (limits_.frames != 0 && written_ >= limits_.frames) || out_.failure() != 0;
  }
  void take(CapturedFrame& frame);
  void write(const CapturedFrame& frame);
  void write_ready();
  [[nodiscard]] bool rest(const StateDir& dir);
  void say_that_we_wait(Instant now);
  [[nodiscard]] Status output_state() const;

  PcapngWriter& out_;
  const CapturePlace& place_;
  const CopyLimits& limits_;
  RoceTranslator translator_;
  std::vector<CapturedFrame> ready_;
  MonotonicClock clock_;
  Instant silent_at_ = kNever;
  Instant life_check_{};
  uint64_t written_ = 0;
  bool node_ended_ = false;
};

}  // namespace weft::tools
