#include "messages/global_header.h"

namespace weft {
namespace {

constexpr uint64_t kPrefix = 0xfd57'4546'5400'0000;  // "WEFT" after fd; the last 16 bits are the subnet

}  // namespace

Gid make_gid(SubnetId subnet, Guid guid) noexcept {
  Gid gid;
  store_be(gid.data(), kPrefix | subnet.value());
  store_be(gid.data() + 8, guid.value());
  return gid;
}

SubnetId subnet_of(const Gid& gid) noexcept {
  return SubnetId(load_be<uint16_t>(gid.data() + 6));
}

GlobalHeaderWire make_global_header(const Gid& source, const Gid& destination) noexcept {
  GlobalHeaderWire header{};
  header.version_class_flow.set(6U << 28);
  header.next_header = kGlobalNextHeader;
  header.hop_limit = kHopLimitDefault;
  header.source = source;
  header.destination = destination;
  return header;
}

}  // namespace weft
