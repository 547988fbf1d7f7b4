// fabric/switch/leases.h -- which endnode may claim a LID of the spare ports, and with it a GUID. A switch
// that is restarted still has to know this. Otherwise the first endnode to ask would get the LID of another.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "messages/ids.h"

namespace weft::fabric {

/// A LID and its present or last endnode.
struct Lease {
  uint32_t lid = 0;  // index among the LIDs of the spare ports
  Guid guid{};
  uint64_t nonce = 0;         // of the present or last incarnation
  uint64_t nonce_before = 0;  // the identity shown with it; an endnode that missed its WELCOME shows it again
  uint64_t brought = 0;       // the identity shown at the first join, with a GUID that was new here
  Instant free_at = Instant::min();  // end of the LID's rest; kNever while the endnode is here
  std::string key;                   // name of its CURVE key, or its address; empty: a process of our user
};

/// Storage in which leases outlive the switch process. Owner: the switch's thread.
class LeaseStore {
 public:
  virtual ~LeaseStore() = default;
  /// The stored leases, at most one per LID.
  [[nodiscard]] virtual std::vector<Lease> load() = 0;
  /// Stores a lease in place of the LID's earlier one. Called when an endnode joins or leaves, never per
  /// cell.
  virtual void keep(const Lease& lease) noexcept = 0;
};

}  // namespace weft::fabric
