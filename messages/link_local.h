// messages/link_local.h -- the Gid that a port has without configuration: its GUID behind the link-local
// prefix, as in InfiniBand (fe80::GUID).
#pragma once

#include <cstdint>

#include "base/endian.h"
#include "messages/global_header.h"

namespace weft {

inline constexpr uint64_t kLinkLocalPrefix = 0xFE80'0000'0000'0000;

[[nodiscard]] inline Gid link_local_gid(Guid guid) noexcept {
  Gid out;
  store_be(out.data(), kLinkLocalPrefix);
  store_be(&out[8], guid.value());
  return out;
}
[[nodiscard]] inline bool is_link_local(const Gid& gid) noexcept {
  return load_be<uint64_t>(gid.data()) == kLinkLocalPrefix;
}

}  // namespace weft
