// tools/topology_text.h -- the texts of a topology file that are more than words: names, addresses,
// endpoints. Pure functions; every text is refused rather than guessed at.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace weft::tools {

/// 1 to `bytes_max` letters, digits, '-', '_' and '.', of which the first is no '-' and no '.'.
[[nodiscard]] bool valid_name(std::string_view name, size_t bytes_max);

/// An IPv4 or IPv6 address.
[[nodiscard]] bool valid_ip(const std::string& text);

/// An address with its prefix length: "10.9.0.1/24", "fd09::1/64".
[[nodiscard]] bool valid_prefix(const std::string& text);

/// True when the address `gateway` lies in the network of one of `addresses` (prefixes), or is link-local.
[[nodiscard]] bool reaches_gateway(const std::vector<std::string>& addresses, const std::string& gateway);

/// "tcp://ADDRESS:PORT" with a port from 1 to 65535, or "ipc:///PATH" of at most 93 bytes.
[[nodiscard]] bool valid_endpoint(std::string_view endpoint);

}  // namespace weft::tools
