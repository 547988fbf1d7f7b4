// base/net/capture_point.h -- a place that frames or cells pass and where captures may take a copy of each.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/net/capture_ring.h"

namespace weft {

/// Owner: the thread that passes the frames.
class CapturePoint {
 public:
  /// `name` is shown to people. `running`, if not null, counts the captures of all places that share it, and
  /// outlives them.
  explicit CapturePoint(std::string name, uint32_t* running = nullptr)
      : name_(std::move(name)), running_(running) {}

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  /// Also copies every frame or cell that passes into `ring`, marked with `port`. `bytes_max` 0 keeps the
  /// whole frame. Allocates, so call it for a person's request and not per frame.
  void start_capture(std::shared_ptr<CaptureRing> ring, uint32_t port, uint32_t bytes_max);
  void stop_capture(const CaptureRing& ring) noexcept;
  [[nodiscard]] bool captured() const noexcept { return !copies_.empty(); }
  /// Writes a copy of `head` + `rest` into each ring, with the note of this place.
  void copy(FrameDirection direction, std::span<const std::byte> head, std::span<const std::byte> rest,
            std::string_view note = {}) noexcept;

 private:
  struct Copy {
    std::shared_ptr<CaptureRing> ring;
    uint32_t port;
    uint32_t keep_max;
  };
  std::string name_;
  uint32_t* running_;
  std::vector<Copy> copies_;
};

}  // namespace weft
