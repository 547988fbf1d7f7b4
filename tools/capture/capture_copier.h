// tools/capture/capture_copier.h -- from the ring of a capture into a pcapng file, until a limit is
// reached, the node ends, or people have had enough.
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
  uint64_t frames = 0;  // 0: none
  Instant end = kNever;
  const std::atomic<bool>* interrupted = nullptr;
};

/// Owner: one thread. Writes a block for each frame that `place` wants, translated where that is wanted.
class CaptureCopier {
 public:
  /// All outlive it. `out` has been begun.
  CaptureCopier(PcapngWriter& out, const CapturePlace& place, const CopyLimits& limits,
                uint32_t cell_payload_bytes)
      : out_(out), place_(place), limits_(limits), translator_(cell_payload_bytes) {}

  /// What has come before the ring is read.
  void take_early(const std::vector<CapturedFrame>& early);
  /// Fails when the ring is damaged, or the output cannot be written for another reason than that its reader
  /// has gone.
  Status run(CaptureRing& ring, const StateDir& dir);

  [[nodiscard]] uint64_t written() const noexcept { return written_; }
  /// The node has ended, and the capture with it.
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
