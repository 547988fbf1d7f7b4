// tools/topology_text.h -- the texts of a topology file that are more than words: addresses, endpoints. Pure
// functions; every text is refused rather than guessed at. What a command line has, too, stands in
// node/spec_values.h.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weft::tools {

/// An IPv4 or IPv6 address.
[[nodiscard]] bool valid_ip(const std::string& text);

/// An address with its prefix length: "10.9.0.1/24", "fd09::1/64".
[[nodiscard]] bool valid_prefix(const std::string& text);

/// The address of a valid prefix in one form, whatever the text's: "fd09::1" of "FD09:0::1/64".
[[nodiscard]] std::string address_of(const std::string& prefix);

/// True when the address `gateway` lies in the network of one of `addresses` (prefixes), or is link-local.
[[nodiscard]] bool reaches_gateway(const std::vector<std::string>& addresses, const std::string& gateway);

/// "tcp://ADDRESS:PORT" with a port from 1 to 65535, or "ipc:///PATH" with a path from the root on.
[[nodiscard]] bool valid_endpoint(std::string_view endpoint);

}  // namespace weft::tools
