// node/spec_values.h -- the values of a configuration as texts: LIDs, GUIDs, pools, endpoints, nodes
// of a switch. One parser and one printer each, for topology files and command lines alike; an ambiguous text
// is refused, and the error names the valid form.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "node/spec.h"

namespace weft::node {

[[nodiscard]] Result<Lid> parse_lid(std::string_view text);
[[nodiscard]] Result<Guid> parse_guid(std::string_view text);
[[nodiscard]] std::string guid_text(Guid guid);
/// A station's address; "auto" is none.
[[nodiscard]] Result<std::optional<MacAddress>> parse_station(std::string_view text);
[[nodiscard]] Result<LogLevel> parse_level(std::string_view text);
[[nodiscard]] std::string_view level_text(LogLevel level) noexcept;
[[nodiscard]] Result<TransferMode> parse_mode(std::string_view text);
[[nodiscard]] Result<MessageEncoding> parse_encoding(std::string_view text);
/// Words of the two above and of parse_acks(), for messages and topology files, in enumerator order.
[[nodiscard]] const std::vector<std::string>& mode_words();
[[nodiscard]] const std::vector<std::string>& encoding_words();
[[nodiscard]] Result<AckPolicy> parse_acks(std::string_view text);
[[nodiscard]] const std::vector<std::string>& ack_words();
/// Why a session of this mode cannot have this policy; empty if it can.
[[nodiscard]] std::string acks_fault(AckPolicy acks, TransferMode mode);

/// "2048x256": elements of 2048 bytes, 256 of them.
[[nodiscard]] Result<PoolSpec> parse_pool(std::string_view text);
[[nodiscard]] std::string pool_text(const PoolSpec& pool);
/// Why a node cannot have these pools; empty if it can. They must be sorted by element size.
[[nodiscard]] std::string pools_fault(const std::vector<PoolSpec>& pools);

/// "3:64": lane 3, weight 64.
[[nodiscard]] Result<LaneWeight> parse_lane_weight(std::string_view text);
[[nodiscard]] std::string lane_weight_text(const LaneWeight& entry);
/// Why switches whose links have `lanes` data lanes cannot use this order; empty if they can.
[[nodiscard]] std::string lane_order_fault(const LaneOrder& order, uint32_t lanes);

/// "tcp://ADDRESS:PORT" with a port from 1 to 65535, or "ipc://PATH" of at most kSocketPathBytesMax bytes.
[[nodiscard]] bool valid_zmq_endpoint(std::string_view endpoint);

/// "NAME=REST".
struct NamedText {
  std::string name;
  std::string rest;
};
/// `form` is the valid form, for the error.
[[nodiscard]] Result<NamedText> parse_named(std::string_view text, std::string_view form);

/// "GUID:LID:ENDPOINT", without key files.
[[nodiscard]] Result<FurtherLinkSpec> parse_further_link(std::string_view text);
[[nodiscard]] std::string further_link_text(const FurtherLinkSpec& link);
/// "NAME=GUID:LID".
[[nodiscard]] Result<SwitchNodeSpec> parse_switch_node(std::string_view text);
[[nodiscard]] std::string switch_node_text(const SwitchNodeSpec& node);
/// "NAME=GUID:LID,LID,..."; there may be no LID.
[[nodiscard]] Result<NeighbourSpec> parse_neighbour(std::string_view text);
[[nodiscard]] std::string neighbour_text(const NeighbourSpec& neighbour);

}  // namespace weft::node
