// tools/capture/running_capture.h -- a capture made by a process of the fabric: started through its control
// endpoint and read from the ring that the process writes.
#pragma once

#include <memory>
#include <string>

#include "base/net/capture_ring.h"
#include "control/control_client.h"
#include "tools/launch/state_dir.h"

namespace weft::tools {

/// Ring size for captures of cells: two cores fill it in one or two milliseconds.
inline constexpr uint32_t kCellRingBytes = 32U << 20;

/// Parameters of a capture.
struct CaptureOrder {
  std::string taker{};       // name of the process that copies the frames
  std::string interface {};  // interface of the taker; empty: all
  uint32_t keep = 0;         // bytes of each frame that are kept; 0: all
  uint32_t ring_bytes = 0;
};

/// Stops the capture when destroyed. The client must outlive it.
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
  std::string control_;  // path of the taker's control endpoint
  std::string path_;     // path of the ring; it also names the capture
  std::unique_ptr<CaptureRing> ring_;
};

}  // namespace weft::tools
