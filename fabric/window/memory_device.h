// fabric/window/memory_device.h -- both ends of a memory window in one process, for tests and the simulator:
// virtual time and faults from a seed. docs/window.md.
#pragma once

#include <array>
#include <memory>

#include "base/rng.h"
#include "fabric/window/device.h"

namespace weft::fabric {

/// Faults of requests and notifications; all zero: none, and a request completes within flush().
struct DmaFaults {
  uint32_t fail_ppm = 0;  // moves a part of its bytes, or none, and fails. Words of eight bytes: none or all
  uint32_t late_ppm = 0;  // bytes and completion come later, in two halves, behind later requests
  Duration late_min{};    // of the completion and of a late notification
  Duration late_max{};
  uint32_t merge_ppm = 0;  // a notification waits late_min..late_max, and those behind it come with it
};

struct DmaFaultCounts {
  uint64_t requests = 0;
  uint64_t failed = 0;
  uint64_t late = 0;
  uint64_t merged = 0;  // notifications that arrived with an earlier one
};

struct MemoryWindowConfig {
  std::array<size_t, 2> window_bytes{65'536, 65'536};  // per side, a multiple of 64
  uint32_t requests = 64;
  bool memory_space = true;
  bool mapped = false;  // both ends offer mapped_peer()
};

/// Owner: one thread, which also calls both ends.
class MemoryWindow {
 public:
  /// `random` outlives the window.
  MemoryWindow(const MemoryWindowConfig& config, RandomSource& random);
  ~MemoryWindow();

  /// 0 or 1; lives as long as the window.
  [[nodiscard]] DmaDevice& end(size_t side) noexcept;
  /// What the other end reaches in the memory space; null, as at first: nothing. Outlives the window.
  void set_owner_memory(size_t side, OwnerMemory* memory) noexcept;
  /// Of requests that this side posts, and notifications that it sends, from now on.
  void set_faults(size_t side, const DmaFaults& faults) noexcept;
  [[nodiscard]] const DmaFaultCounts& counts(size_t side) const noexcept;
  /// The process behind this side ends now. Its requests under way move nothing more, those of the other
  /// side fail.
  void kill(size_t side) noexcept;

 private:
  class End;
  std::array<std::unique_ptr<End>, 2> ends_;
};

}  // namespace weft::fabric
