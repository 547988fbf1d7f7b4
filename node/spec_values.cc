#include "node/spec_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/names.h"
#include "base/net/ethernet.h"
#include "base/parse_number.h"
#include "base/words.h"

namespace weft::node {
namespace {

constexpr std::array kLevels{LogLevel::kDebug, LogLevel::kInfo, LogLevel::kWarn, LogLevel::kError};
constexpr std::array<std::string_view, 4> kLevelWords{"debug", "info", "warn", "error"};
constexpr std::array kModes{TransferMode::kRdma, TransferMode::kSendReceive, TransferMode::kSendDataOnly};
constexpr std::array kEncodings{MessageEncoding::kCapnp, MessageEncoding::kBytes};
constexpr std::array kAckPolicies{AckPolicy::kSelective, AckPolicy::kStrict};

/// The value whose word `text` is.
template <class Values>
Result<typename Values::value_type> parse_word(std::string_view text, const Values& values,
                                               const std::vector<std::string>& words) {
  const auto at = std::find(words.begin(), words.end(), text);
  if (at == words.end()) return Error{fmt::format("one of {}{}", joined(words), suggestion(text, words))};
  return values[static_cast<size_t>(at - words.begin())];
}

template <class Values>
std::vector<std::string> words_of(const Values& values) {
  std::vector<std::string> words;
  words.reserve(values.size());
  for (const auto value : values) words.emplace_back(to_string(value));
  return words;
}

/// "NAME=GUID:REST"; name and GUID go to `out`.
template <class Node>
Result<std::string> parse_guid_named(std::string_view text, std::string_view form, Node& out) {
  Result<NamedText> named = parse_named(text, form);
  if (!named) return named.error();
  const size_t colon = named->rest.find(':');
  if (colon == std::string::npos) return Error{fmt::format("write {}", form)};
  Result<Guid> guid = parse_guid(named->rest.substr(0, colon));
  if (!guid) return guid.error();
  out.name = named->name;
  out.guid = *guid;
  return named->rest.substr(colon + 1);
}

}  // namespace

Result<Lid> parse_lid(std::string_view text) {
  const std::optional<uint16_t> lid = parse_number<uint16_t>(text);
  if (!lid || *lid == 0 || *lid > kLidMax)
    return Error{fmt::format("a LID is a whole number from 1 to {}", kLidMax)};
  return Lid(*lid);
}

Result<Guid> parse_guid(std::string_view text) {
  const std::optional<uint64_t> guid = parse_hex<uint64_t>(text);
  if (!guid || *guid == 0) return Error{"a GUID is up to 16 hexadecimal digits, not 0"};
  return Guid(*guid);
}

std::string guid_text(Guid guid) {
  return fmt::format("{:016x}", guid.value());
}

Result<std::optional<MacAddress>> parse_station(std::string_view text) {
  if (text == "auto") return std::optional<MacAddress>{};
  const std::optional<MacAddress> mac = parse_mac(text);
  if (!mac || !is_station(*mac))
    return Error{"six hexadecimal pairs with colons, not a group address and not zero"};
  return mac;
}

Result<LogLevel> parse_level(std::string_view text) {
  return parse_word(text, kLevels, {kLevelWords.begin(), kLevelWords.end()});
}
std::string_view level_text(LogLevel level) noexcept {
  return kLevelWords[static_cast<size_t>(level)];
}

const std::vector<std::string>& mode_words() {
  static const std::vector<std::string> kWords = words_of(kModes);
  return kWords;
}
const std::vector<std::string>& encoding_words() {
  static const std::vector<std::string> kWords = words_of(kEncodings);
  return kWords;
}
Result<TransferMode> parse_mode(std::string_view text) {
  return parse_word(text, kModes, mode_words());
}
Result<MessageEncoding> parse_encoding(std::string_view text) {
  return parse_word(text, kEncodings, encoding_words());
}

Result<AckPolicy> parse_acks(std::string_view text) {
  return parse_word(text, kAckPolicies, ack_words());
}
const std::vector<std::string>& ack_words() {
  static const std::vector<std::string> kWords = words_of(kAckPolicies);
  return kWords;
}
std::string acks_fault(AckPolicy acks, TransferMode mode) {
  if (acks == AckPolicy::kSelective || mode != TransferMode::kSendReceive) return {};
  return fmt::format("no {} acknowledgements in mode {}, which has none", to_string(acks), to_string(mode));
}

Result<PoolSpec> parse_pool(std::string_view text) {
  const size_t cross = std::min(text.find('x'), text.size());
  const std::optional<uint32_t> bytes = parse_number<uint32_t>(text.substr(0, cross));
  const std::optional<uint32_t> elements =
      parse_number<uint32_t>(text.substr(std::min(cross + 1, text.size())));
  if (!bytes || !elements) return Error{"write ELEMENT_BYTESxELEMENTS, like 2048x256"};
  if (const std::string fault = own_pool_fault(*bytes, *elements, *elements); !fault.empty())
    return Error{fault};
  return PoolSpec{*bytes, *elements};
}

std::string pool_text(const PoolSpec& pool) {
  return fmt::format("{}x{}", pool.element_bytes, pool.elements);
}

std::string pools_fault(const std::vector<PoolSpec>& pools) {
  if (pools.size() > kPoolsMax) return fmt::format("at most {} pools", kPoolsMax);
  uint64_t together = 0;
  for (size_t i = 0; i < pools.size(); ++i) {
    if (i != 0 && pools[i].element_bytes <= pools[i - 1].element_bytes)
      return "list the pools from the smallest element to the largest";
    together += pools[i].elements;
    const std::string fault = own_pool_fault(pools[i].element_bytes, pools[i].elements, together);
    if (!fault.empty()) return fmt::format("'{}': {}", pool_text(pools[i]), fault);
  }
  return {};
}

Result<LaneWeight> parse_lane_weight(std::string_view text) {
  const size_t colon = std::min(text.find(':'), text.size());
  const std::optional<uint32_t> lane = parse_number<uint32_t>(text.substr(0, colon));
  const std::optional<uint32_t> weight =
      parse_number<uint32_t>(text.substr(std::min(colon + 1, text.size())));
  if (!lane || !weight) return Error{"write LANE:WEIGHT, like 3:64"};
  if (*lane >= fabric::kDataLanesMax)
    return Error{fmt::format("lane {}: data lanes are 0 to {}", *lane, fabric::kDataLanesMax - 1)};
  if (*weight < 1 || *weight > kLaneWeightMax)
    return Error{fmt::format("weight {}: choose 1 to {}, in units of 64 bytes", *weight, kLaneWeightMax)};
  return LaneWeight{*lane, *weight};
}

std::string lane_weight_text(const LaneWeight& entry) {
  return fmt::format("{}:{}", entry.lane, entry.weight);
}

std::string lane_order_fault(const LaneOrder& order, uint32_t lanes) {
  if (order.high_limit != kHighLimitNone && order.high.empty())
    return "a limit for high lanes, but no lane is high";
  std::vector<bool> served(lanes, order.low.empty());
  for (const std::vector<LaneWeight>* table : {&order.high, &order.low}) {
    if (table->size() > kLaneTableMax)
      return fmt::format("a table of lanes has at most {} entries", kLaneTableMax);
    for (const LaneWeight& entry : *table) {
      if (entry.lane >= lanes)
        return fmt::format("there is no lane {}: links have {} data lanes, from 0", entry.lane, lanes);
      served[entry.lane] = true;
    }
  }
  const auto left_out = std::find(served.begin(), served.end(), false);
  if (left_out == served.end()) return {};
  return fmt::format("lane {} stands in no table and would never send", left_out - served.begin());
}

bool valid_zmq_endpoint(std::string_view endpoint) {
  constexpr std::string_view kIpc = "ipc://";
  constexpr std::string_view kTcp = "tcp://";
  if (endpoint.starts_with(kIpc))
    return endpoint.size() > kIpc.size() && endpoint.size() <= kIpc.size() + kSocketPathBytesMax;
  if (!endpoint.starts_with(kTcp)) return false;
  const size_t colon = endpoint.rfind(':');
  const std::optional<uint16_t> port =
      parse_number<uint16_t>(endpoint.substr(std::min(colon + 1, endpoint.size())));
  return colon > kTcp.size() && port.value_or(0) != 0;
}

Result<NamedText> parse_named(std::string_view text, std::string_view form) {
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0 || equals + 1 == text.size())
    return Error{fmt::format("write {}", form)};
  NamedText out{std::string(text.substr(0, equals)), std::string(text.substr(equals + 1))};
  if (const std::string fault = name_fault(out.name, kNodeNameBytesMax, "a node"); !fault.empty())
    return Error{fault};
  return out;
}

Result<FurtherLinkSpec> parse_further_link(std::string_view text) {
  const size_t first = text.find(':');
  const size_t second = first == std::string_view::npos ? first : text.find(':', first + 1);
  if (second == std::string_view::npos || second + 1 == text.size()) return Error{"write GUID:LID:ENDPOINT"};
  Result<Guid> guid = parse_guid(text.substr(0, first));
  if (!guid) return guid.error();
  Result<Lid> lid = parse_lid(text.substr(first + 1, second - first - 1));
  if (!lid) return lid.error();
  FurtherLinkSpec out;
  out.guid = *guid;
  out.lid = *lid;
  out.endpoint = text.substr(second + 1);
  return out;
}

std::string further_link_text(const FurtherLinkSpec& link) {
  return fmt::format("{}:{}:{}", guid_text(link.guid), link.lid.value(), link.endpoint);
}

Result<SwitchNodeSpec> parse_switch_node(std::string_view text) {
  SwitchNodeSpec out;
  const Result<std::string> rest = parse_guid_named(text, "NAME=GUID:LID", out);
  if (!rest) return rest.error();
  const Result<Lid> lid = parse_lid(rest.value());
  if (!lid) return lid.error();
  out.lid = lid.value();
  return out;
}

std::string switch_node_text(const SwitchNodeSpec& node) {
  return fmt::format("{}={}:{}", node.name, guid_text(node.guid), node.lid.value());
}

Result<NeighbourSpec> parse_neighbour(std::string_view text) {
  NeighbourSpec out;
  const Result<std::string> rest = parse_guid_named(text, "NAME=GUID:LID,LID-LID,...", out);
  if (!rest) return rest.error();
  std::string_view list = rest.value();
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    const std::string_view item = list.substr(0, comma);
    const size_t dash = std::min(item.find('-'), item.size());
    const Result<Lid> first = parse_lid(item.substr(0, dash));
    if (!first) return first.error();
    const Result<Lid> last = dash == item.size() ? first : parse_lid(item.substr(dash + 1));
    if (!last) return last.error();
    if (last.value() < first.value()) return Error{fmt::format("{}: the lower LID stands first", item)};
    for (uint32_t lid = first.value().value(); lid <= last.value().value(); ++lid)
      out.beyond.push_back(Lid(static_cast<uint16_t>(lid)));
    if (comma + 1 == list.size()) return Error{"no LID stands behind the last comma"};
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return out;
}

std::string neighbour_text(const NeighbourSpec& neighbour) {
  // Three and more in a row are a range.
  std::vector<std::string> items;
  const std::vector<Lid>& lids = neighbour.beyond;
  for (size_t i = 0; i < lids.size();) {
    size_t end = i + 1;
    while (end < lids.size() && lids[end].value() == lids[end - 1].value() + 1) ++end;
    if (end - i < 3) end = i + 1;
    items.push_back(end - i == 1 ? fmt::to_string(lids[i].value())
                                 : fmt::format("{}-{}", lids[i].value(), lids[end - 1].value()));
    i = end;
  }
  return fmt::format("{}={}:{}", neighbour.name, guid_text(neighbour.guid), fmt::join(items, ","));
}

}  // namespace weft::node
