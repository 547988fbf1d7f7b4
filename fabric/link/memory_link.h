// fabric/link/memory_link.h -- a link whose two ends live in one thread, for tests and the simulator. A
// MemoryCable owns both ends. plug() runs the real handshake over encoded bytes; unplug() resets the link at
// both ends.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/rng.h"
#include "fabric/link/fault_config.h"
#include "fabric/link/link_engine.h"
#include "fabric/link/link_handshake.h"

namespace weft::fabric {

/// Sees every flit that a memory link carries, repeats included, and may change it. For tests and traces.
class FlitObserver {
 public:
  virtual ~FlitObserver() = default;
  /// `from_end` is the sender, 0 or 1.
  virtual void on_flit(uint32_t from_end, std::span<const std::byte> flit) noexcept = 0;
  /// Called once for each flit, before the other end can see it. Changes stay in the slot.
  virtual void tamper(uint32_t /*from_end*/, std::span<std::byte> /*flit*/) noexcept {}
};

struct MemoryCableConfig {
  LinkConfig ends[2];  // end 0 joins (endnode), end 1 accepts (switch)
  LinkTimers timers;
  LinkGrant grant;                // what end 1 assigns; lid kLidNone = the LID that end 0 wants
  bool receiver_rereads = false;  // true: as shared memory does; false: the sender repeats, as on a wire
  uint32_t ring_slots = 0;        // 0: by ring_geometry(); else a power of two
  Duration replug_delay = 1ms;    // time from a fault until the link comes up again
  FlitFaults faults[2];           // [i]: of flits that end i sends
  FlitObserver* observer = nullptr;
};

/// Owner: the thread of both ends.
class MemoryCable {
 public:
  /// `random` gives the nonces and drives the faults; it must outlive the cable.
  MemoryCable(const MemoryCableConfig& config, RandomSource& random);
  ~MemoryCable();
  MemoryCable(const MemoryCable&) = delete;
  MemoryCable& operator=(const MemoryCable&) = delete;

  /// Joins the ends: both are up afterwards, in a new incarnation. @return the reason if not; both then stay
  /// down.
  LinkRefusal plug(Instant now) noexcept;
  /// Sets GUID and LID of end 0 for the next plug().
  void rename(Guid guid, Lid lid) noexcept;
  /// Takes both ends down; they stay down until plug().
  void unplug() noexcept;
  [[nodiscard]] bool plugged() const noexcept;

  /// The ends; constant for the cable's life.
  [[nodiscard]] LinkEngine& end(uint32_t index) noexcept;
  /// True when flits wait that the engine of end `index` has not read yet.
  [[nodiscard]] bool input_waits(uint32_t index) const noexcept;
  /// Faults may change while the link runs.
  void set_faults(uint32_t from_end, const FlitFaults& faults) noexcept;
  /// Counts of the fault layer for flits sent by `from_end`.
  [[nodiscard]] const FaultCounts& fault_counts(uint32_t from_end) const noexcept;

 private:
  class Core;
  std::unique_ptr<Core> core_;
};

}  // namespace weft::fabric
