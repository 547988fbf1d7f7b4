// tools/capture/running_capture.h -- a capture that a process of the fabric takes for us: begun over its
// control endpoint, read from the ring that it writes.
#pragma once

#include <memory>
#include <string>

#include "base/capture_ring.h"
#include "control/control_client.h"
#include "tools/state_dir.h"

namespace weft::tools {

/// Of captures of cells, which come faster than frames: what two cores send in a millisecond or two.
inline constexpr uint32_t kCellRingBytes = 32U << 20;

/// What to ask for.
struct CaptureOrder {
  std::string taker{};       // the process that takes the copies
  std::string interface {};  // of the taker; empty: all
  uint32_t keep = 0;         // bytes of each frame; 0: all
  uint32_t ring_bytes = 0;
};

/// Ends with the object. The client outlives it.
class RunningCapture {
 public:
  static Result<RunningCapture> start(control::ControlClient& client, const StateDir& dir,
                                      const CaptureOrder& order);
  RunningCapture(RunningCapture&&) noexcept = default;
  RunningCapture& operator=(RunningCapture&&) = delete;
  ~RunningCapture();

  [[nodiscard]] CaptureRing& ring() noexcept { return *ring_; }
  [[nodiscard]] const std::string& taker() const noexcept { return taker_; }

 private:
  RunningCapture(control::ControlClient& client, std::string taker, std::string control, std::string path,
                 CaptureRing ring);
  control::ControlClient* client_;
  std::string taker_;
  std::string control_;  // its endpoint
  std::string path_;     // of the ring, which names the capture
  std::unique_ptr<CaptureRing> ring_;
};

}  // namespace weft::tools
