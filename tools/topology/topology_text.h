// tools/topology/topology_text.h -- parses addresses and endpoints of a topology file. Pure functions;
// doubtful texts are refused. Values that also occur on command lines are parsed in node/spec_values.h.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weft::tools {

/// An IPv4 or IPv6 address.
[[nodiscard]] bool valid_ip(const std::string& text);

/// An address with its prefix length: "10.9.0.1/24", "fd09::1/64".
[[nodiscard]] bool valid_prefix(const std::string& text);

/// The address of a valid prefix in canonical form: "fd09::1" for "FD09:0::1/64".
[[nodiscard]] std::string address_of(const std::string& prefix);

/// True when the address `gateway` lies in the network of one of `addresses` (prefixes), or is link-local.
[[nodiscard]] bool reaches_gateway(const std::vector<std::string>& addresses, const std::string& gateway);

/// True for "tcp://ADDRESS:PORT" with a port from 1 to 65535, and for "ipc:///PATH" with an absolute path.
[[nodiscard]] bool valid_endpoint(std::string_view endpoint);

}  // namespace weft::tools
