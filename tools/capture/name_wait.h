// tools/capture/name_wait.h -- captures of programs that have not started. All ports of the switches that
// programs may join are captured; when the program is there, what has passed its port is given back, so that
// its first cell is not lost.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/capture_ring.h"
#include "tools/capture/capture_place.h"
#include "tools/capture/recent_cells.h"
#include "tools/capture/running_capture.h"

namespace weft::tools {

/// A program that has come.
struct Arrival {
  CapturePlace place;
  std::vector<CapturedFrame> early;  // what has passed its port, oldest first
  size_t taker = 0;                  // index of the capture that goes on
};

/// Owner: one thread, which calls look() every few milliseconds.
class NameWait {
 public:
  /// Captures begin with it. Fails when no switch can be joined.
  static Result<NameWait> start(control::ControlClient& client, const StateDir& dir, const CaptureWish& wish);
  /// The program, when it is there.
  Result<std::optional<Arrival>> look(control::ControlClient& client, const StateDir& dir);
  /// The capture of the switch that the program has joined, for the caller to go on with; the others end.
  [[nodiscard]] RunningCapture take_capture(const Arrival& arrival) {
    RunningCapture out = std::move(captures_[arrival.taker]);
    captures_.clear();
    return out;
  }

 private:
  explicit NameWait(CaptureWish wish) : wish_(std::move(wish)) {}
  Status drain();

  CaptureWish wish_;
  std::vector<RunningCapture> captures_;  // one for each switch
  std::vector<RecentCells> recent_;       // likewise
};

}  // namespace weft::tools
