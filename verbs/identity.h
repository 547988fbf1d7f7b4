// verbs/identity.h -- who the device says it is: to programs through libibverbs, and below /sys/class.
#pragma once

#include <cstdint>

#include "base/command_line.h"

namespace weft::verbs {

/// "WEF", which no vendor has.
inline constexpr uint32_t kVendorId = 0x574546;
inline constexpr uint32_t kVendorPart = 1;
inline constexpr const char* kFirmware = kProgramVersion;
inline constexpr uint16_t kSubnetManagerLid = 1;

}  // namespace weft::verbs
