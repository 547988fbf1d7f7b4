// fabric/switch/lease_file.h -- the leases of a switch's spare ports in its directory, so that they outlive
// its process: a header, then a record for each LID at its place. Native byte order; the file stays on this
// machine. Nothing in it is believed without its CRC, and a file of other LIDs begins anew.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "fabric/switch/leases.h"
#include "fabric/switch/spare_ports.h"

namespace weft::fabric {

/// Opens or makes the file at `path`, which must be a regular file of our own with mode 0600. A disk that is
/// full later costs the memory of the leases that did not fit, and nothing else.
Result<std::unique_ptr<LeaseStore>> open_lease_file(const std::string& path, const SpareConfig& spare);

}  // namespace weft::fabric
