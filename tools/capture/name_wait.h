// tools/capture/name_wait.h -- captures of programs that have not started. Captures all ports that programs
// may join. Once the program has joined, the cells that have already passed its port are returned, so that
// its first cell is not lost.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/net/capture_ring.h"
#include "tools/capture/capture_place.h"
#include "tools/capture/recent_cells.h"
#include "tools/capture/running_capture.h"

namespace weft::tools {

/// A program that has joined.
struct Arrival {
  CapturePlace place;
  std::vector<CapturedFrame> early;  // cells that have passed its port, oldest first
  size_t taker = 0;                  // index of the capture to continue with
};

/// Owner: one thread, which calls look() every few milliseconds.
class NameWait {
 public:
  /// Starts the captures. Fails when the fabric has no switch with spare ports.
  static Result<NameWait> start(control::ControlClient& client, const StateDir& dir, const CaptureWish& wish);
  /// The program, or nothing as long as it has not joined.
  Result<std::optional<Arrival>> look(control::ControlClient& client, const StateDir& dir);
  /// Returns the capture of the switch that the program has joined; the other captures end.
  [[nodiscard]] RunningCapture take_capture(const Arrival& arrival) {
    RunningCapture out = std::move(captures_[arrival.taker]);
    captures_.clear();
    return out;
  }

 private:
  explicit NameWait(CaptureWish wish) : wish_(std::move(wish)) {}
  Status drain();

  CaptureWish wish_;
  std::vector<RunningCapture> captures_;  // one for each switch with spare ports
  std::vector<RecentCells> recent_;       // one for each capture
};

}  // namespace weft::tools
