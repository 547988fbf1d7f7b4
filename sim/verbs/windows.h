// sim/verbs/windows.h -- memory windows between adapters of a world that count as processes of one machine,
// with faults of their devices (docs/window.md).
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "adapter/direct_paths.h"
#include "base/rng.h"
#include "fabric/window/memory_device.h"
#include "messages/ids.h"
#include "sim/verbs/model.h"

namespace weft::sim::verbs {

/// Owner: the world. Outlives its adapters.
class Windows {
 public:
  /// @param place_of the place of the living adapter that has this LID; kNowhere: none that shares a machine
  /// @param lid_of the only LID of the adapter at a place; 0: it has several
  /// @param wake gives the adapter at a place a turn: its peer has ended their window
  /// @param cell_bytes of the largest datagram that the slots hold; 0: they hold none
  Windows(uint32_t places, const fabric::DmaFaults& faults, uint32_t cell_bytes, RandomSource& random,
          std::function<uint32_t(Lid)> place_of, std::function<Lid(uint32_t)> lid_of,
          std::function<void(uint32_t)> wake);
  ~Windows();

  static constexpr uint32_t kNowhere = ~uint32_t{0};
  /// The ways of the adapter at `place`.
  [[nodiscard]] adapter::DirectPaths& paths_of(uint32_t place) noexcept;
  /// The adapter at `place` is ending, without orderly ends of its QPs.
  void dies(uint32_t place) noexcept;
  /// A doorbell of a window of this adapter waits.
  [[nodiscard]] bool rings(uint32_t place, Instant now) const noexcept;
  void count(Tally& tally) const;

 private:
  class Shared;
  class Side;
  class Paths;

  adapter::DirectPath* claim(uint32_t place, Lid peer) noexcept;
  adapter::DirectPath* arrived(uint32_t place, Lid& peer) noexcept;
  void release(Side& side) noexcept;
  void end(Shared& shared, size_t side) noexcept;

  fabric::DmaFaults faults_;
  fabric::OwnWindowConfig own_;
  RandomSource& random_;
  std::function<uint32_t(Lid)> place_of_;
  std::function<Lid(uint32_t)> lid_of_;
  std::function<void(uint32_t)> wake_;
  std::vector<std::unique_ptr<Paths>> paths_;
  std::vector<std::unique_ptr<Shared>> shared_;
};

}  // namespace weft::sim::verbs
