#include "messages/ipv6_frame.h"

#include <cstring>

namespace weft {

bool global_from_ipv6(std::span<const std::byte, kIpv6HeaderBytes> header, uint32_t payload_bytes,
                      GlobalHeaderWire& out) noexcept {
  GlobalHeaderWire fields;
  std::memcpy(&fields, header.data(), sizeof fields);
  if (fields.version_class_flow.get() >> 28 != 6 || fields.payload_bytes.get() != payload_bytes) return false;
  out = fields;
  return true;
}

GlobalHeaderWire ipv6_from_global(const GlobalHeaderWire& global, uint32_t payload_bytes) noexcept {
  GlobalHeaderWire fields = global;
  fields.payload_bytes.set(static_cast<uint16_t>(payload_bytes));
  return fields;
}

}  // namespace weft
