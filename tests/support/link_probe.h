// tests/support/link_probe.h -- what a test sees of, and does to, a link whose carrier it did not make: flits
// as they were sent, faults on their way, and whether any is still under way. Shared memory and ZeroMQ links
// get the same eyes as MemoryCable has built in.
#pragma once

#include <array>
#include <memory>

#include "base/rng.h"
#include "fabric/link/faulty_carrier.h"
#include "fabric/link/link_engine.h"
#include "fabric/link/memory_link.h"

namespace weft::test {

class CarrierProbe;

/// Both ends of one link; end 0 is the endnode's. Outlives the engines it is given to.
class LinkProbe {
 public:
  /// @param slot_bytes  of the largest flit with its header
  LinkProbe(fabric::FlitObserver& observer, RandomSource& random, uint32_t slot_bytes);
  ~LinkProbe();

  /// From now on the carriers of `engine` pass through here.
  void watch(uint32_t end, fabric::LinkEngine& engine);
  void set_faults(uint32_t from_end, const fabric::FlitFaults& faults) noexcept {
    faults_[from_end] = faults;
  }
  [[nodiscard]] const fabric::FaultCounts& fault_counts(uint32_t from_end) const noexcept {
    return counts_[from_end];
  }
  /// Takes in what has arrived. @return true when everything published at one end is at the other.
  [[nodiscard]] bool settled();

 private:
  friend class CarrierProbe;
  class End final : public fabric::CarrierWrapper {
   public:
    std::unique_ptr<fabric::Carrier> wrap(std::unique_ptr<fabric::Carrier> carrier) override;
    LinkProbe* link = nullptr;
    uint32_t index = 0;
    CarrierProbe* probe = nullptr;  // of the carrier in use
    uint64_t published = 0;         // slots handed to the carrier since it was made, repeats included
    uint64_t arrived = 0;
  };

  fabric::FlitObserver& observer_;
  RandomSource& random_;
  uint32_t slot_bytes_;
  std::array<fabric::FlitFaults, 2> faults_{};
  std::array<fabric::FaultCounts, 2> counts_{};
  std::array<End, 2> ends_;
};

}  // namespace weft::test
