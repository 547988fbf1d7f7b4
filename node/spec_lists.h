// node/spec_lists.h -- the lists of structs of a spec as its command line has them: one list per option. Each
// is split before writing and joined after reading. Internal to the codec (node/spec_codec.cc).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "node/spec.h"
#include "node/spec_values.h"

namespace weft::node {

/// The ports of a host as one list per option; entry i belongs to unit i.
struct PortLists {
  std::vector<Lid> units;
  std::vector<OsName> os;
  std::vector<int> fds;
  std::vector<std::optional<MacAddress>> macs;
  std::vector<uint32_t> mtus;
  std::vector<bool> promiscuous;
  std::vector<uint32_t> via;
};

/// The further links of a node as one list per option.
struct LinkLists {
  std::vector<FurtherLinkSpec> links;  // without their key files
  std::vector<std::string> secrets;
  std::vector<std::string> servers;
};

/// The endpoints and keys of neighbours as one list per option.
struct NeighbourLists {
  std::vector<NamedText> joins;
  std::vector<NamedText> keys;
};

[[nodiscard]] PortLists split(const std::vector<HostPortSpec>& ports);
[[nodiscard]] LinkLists split(const std::vector<FurtherLinkSpec>& links);
[[nodiscard]] NeighbourLists split(const std::vector<NeighbourSpec>& neighbours);

/// The inverse. Return the error if the lists do not fit each other, in the words of the options; empty if
/// they do.
[[nodiscard]] std::string join(const PortLists& lists, std::vector<HostPortSpec>& ports);
[[nodiscard]] std::string join(const LinkLists& lists, std::vector<FurtherLinkSpec>& links);
[[nodiscard]] std::string join(const NeighbourLists& lists, std::vector<NeighbourSpec>& neighbours);

}  // namespace weft::node
