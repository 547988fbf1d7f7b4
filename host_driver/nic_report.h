// host_driver/nic_report.h -- the LAN NIC of the unit as people see it from the host: what `weft nic` asks of
// it and shows (PUSH-DRV-06). The unit's answers come by CfgUtil, a round trip later.
#pragma once

#include "base/result.h"
#include "control/management.h"
#include "host_driver/host_netdev.h"

namespace weft::host {

/// Passes on what `wish` names and asks the unit for everything else. Fails, changing nothing, when the
/// session is not open or a multicast address is none.
Status ask_nic(HostNetdev& half, const control::NicWish& wish);

/// What the unit has answered so far; `interface` is left empty. Fails when the session is not open: then no
/// answer will come.
Result<control::NicReport> report_nic(HostNetdev& half);

}  // namespace weft::host
