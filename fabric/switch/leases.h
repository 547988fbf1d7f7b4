// fabric/switch/leases.h -- which endnode may claim a LID of the spare ports, and with it a GUID. A switch
// that is started anew still has to know that, or the first to ask would get what is another's.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "messages/ids.h"

namespace weft::fabric {

/// A LID, and the endnode that has it or had it last.
struct Lease {
  uint32_t lid = 0;  // index among the LIDs of the spare ports
  Guid guid{};
  uint64_t nonce = 0;                // of the incarnation now, or the last one
  uint64_t nonce_before = 0;         // shown with it: an endnode that missed its WELCOME shows this again
  uint64_t brought = 0;              // shown first, with a GUID that was new here
  Instant free_at = Instant::min();  // end of its rest; kNever while the endnode is here
  std::string key;                   // of its CURVE key, or where it came from; empty: a process of our user
};

/// Where leases outlive the switch process. Owner: the switch's thread.
class LeaseStore {
 public:
  virtual ~LeaseStore() = default;
  /// What was kept, each LID once.
  [[nodiscard]] virtual std::vector<Lease> load() = 0;
  /// Keeps it instead of what the LID had. Called when an endnode joins and leaves, never for a cell.
  virtual void keep(const Lease& lease) noexcept = 0;
};

}  // namespace weft::fabric
