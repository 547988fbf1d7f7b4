// host_driver/nic_report.h -- the requests and reports of `weft nic` about the unit's LAN NIC (PUSH-DRV-06).
// The unit answers by CfgUtil, one round trip later.
#pragma once

#include "base/result.h"
#include "control/management.h"
#include "host_driver/host_netdev.h"

namespace weft::host {

/// Sends the settings in `wish` and requests everything else from the unit. Fails, changing nothing, if the
/// session is not open or a multicast address is invalid.
Status ask_nic(HostNetdev& half, const control::NicWish& wish);

/// The unit's answers so far; `interface` is left empty. Fails if the session is not open, because no answer
/// can come.
Result<control::NicReport> report_nic(HostNetdev& half);

}  // namespace weft::host
