// base/capture_set.h -- the captures that run in a process: each has a ring of its own and takes all ports of
// the process or one of them. The process that asked for a capture reads its ring and ends it. If that
// process dies first, its place goes to the next capture.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "base/capture_point.h"

namespace weft {

/// Captures of one process at a time.
inline constexpr size_t kCapturesMax = 4;

/// What a capture is to take.
struct CaptureRequest {
  std::string path;       // of the ring to create; names the capture
  std::string interface;  // name of one port; empty: all
  uint32_t frame_bytes_max = 0;
  uint32_t ring_bytes = 0;
  pid_t reader = 0;  // process that reads the ring
};

/// Owner: the thread that passes the frames; the ports outlive it. Allocates and makes system calls: for
/// people's requests.
class CaptureSet {
 public:
  explicit CaptureSet(std::vector<CapturePoint*> ports) : ports_(std::move(ports)) {}

  /// Creates the ring and starts to copy at the ports asked for, each under its index among the ports. Fails,
  /// saying which there are, when no port has that name or kCapturesMax captures run; then leaves no file.
  Status start(const CaptureRequest& request);
  /// Ends the capture into the ring `path`; one that has ended is no error.
  void stop(const std::string& path) noexcept;

 private:
  struct Capture {
    std::string path;
    pid_t reader;
    std::shared_ptr<CaptureRing> ring;
  };
  [[nodiscard]] std::string readers() const;
  void forget_the_dead();
  void detach(const Capture& capture) noexcept;

  std::vector<CapturePoint*> ports_;
  std::vector<Capture> captures_;
};

}  // namespace weft
