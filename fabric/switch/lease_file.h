// fabric/switch/lease_file.h -- the leases of a switch's spare ports in a file, so that they outlive the
// process: a header, then one record per LID, at a place computed from the LID. Native byte order; the file
// stays on this machine. A record counts only with a correct CRC. A file for other LIDs is cleared.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "fabric/switch/leases.h"
#include "fabric/switch/spare_ports.h"

namespace weft::fabric {

/// Opens or makes the file at `path`, which must be a regular file of our own with mode 0600. If the disk is
/// full later, only the leases that did not fit are lost.
Result<std::unique_ptr<LeaseStore>> open_lease_file(const std::string& path, const SpareConfig& spare);

}  // namespace weft::fabric
