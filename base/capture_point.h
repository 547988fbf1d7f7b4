// base/capture_point.h -- a place that frames or cells pass and where captures may take a copy of each.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/capture_ring.h"

namespace weft {

/// Owner: the thread that passes the frames.
class CapturePoint {
 public:
  /// `name` is what people call the place. `running`, if any, counts the captures of several places and
  /// outlives them.
  explicit CapturePoint(std::string name, uint32_t* running = nullptr)
      : name_(std::move(name)), running_(running) {}

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  /// Copies what passes into `ring` as of `port`, beside the captures that run. `bytes_max` 0 keeps all of
  /// it. Allocates: for people's requests.
  void start_capture(std::shared_ptr<CaptureRing> ring, uint32_t port, uint32_t bytes_max);
  void stop_capture(const CaptureRing& ring) noexcept;
  [[nodiscard]] bool captured() const noexcept { return !copies_.empty(); }
  /// Leaves a copy of `head` + `rest` in each ring, with what there is to say of it.
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
