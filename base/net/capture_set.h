// base/net/capture_set.h -- the captures that run in a process: each has a ring of its own and takes all
// ports of the process or one of them. The process that asked for a capture reads its ring and ends it. If
// that process dies first, its place goes to the next capture.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "base/net/capture_point.h"

namespace weft {

/// Captures that may run in one process at the same time.
inline constexpr size_t kCapturesMax = 4;

/// Which frames a capture takes, and where to.
struct CaptureRequest {
  std::string path;       // of the ring to create; names the capture
  std::string interface;  // name of one port; empty: all
  uint32_t frame_bytes_max = 0;
  uint32_t ring_bytes = 0;
  pid_t reader = 0;  // process that reads the ring
};

/// Owner: the thread that passes the frames; the ports outlive it. Allocates and makes system calls, so call
/// it for a person's request and not per frame.
class CaptureSet {
 public:
  explicit CaptureSet(std::vector<CapturePoint*> ports) : ports_(std::move(ports)) {}

  /// Creates the ring and starts to copy at the requested ports; records name a port by its index. If no port
  /// has that name or kCapturesMax captures run, fails, names the ports or captures that exist, and leaves no
  /// file.
  Status start(const CaptureRequest& request);
  /// Ends the capture into the ring `path`. Does nothing if it has ended already.
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
