// verbs/process/identity.h -- identity of the device as programs see it through libibverbs and below
// /sys/class.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

#include "base/command_line.h"

namespace weft::verbs {

/// "WEF". No vendor has this identifier.
inline constexpr uint32_t kVendorId = 0x574546;
inline constexpr uint32_t kVendorPart = 1;
inline constexpr const char* kFirmware = kProgramVersion;
inline constexpr uint16_t kSubnetManagerLid = 1;

/// Capability flags of a port.
[[nodiscard]] constexpr uint32_t port_capabilities(bool roce) noexcept {
  return IBV_PORT_CM_SUP | IBV_PORT_SYS_IMAGE_GUID_SUP | (roce ? uint32_t{IBV_PORT_IP_BASED_GIDS} : 0U);
}

}  // namespace weft::verbs
