#include "tools/fault/fault_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "base/parse_number.h"
#include "base/time_span.h"
#include "base/words.h"
#include "messages/ids.h"
#include "messages/opcode.h"
#include "tools/topology/topology_section.h"

namespace weft::tools {
namespace {

using namespace std::chrono_literals;

/// Faults that `weft` itself applies to a node's process.
constexpr std::array<std::string_view, 2> kProcessFaults{"freeze", "kill"};
using Unit = std::pair<std::string_view, double>;
constexpr std::array<Unit, 5> kBitUnits{{{"", 1.0}, {"k", 1e3}, {"m", 1e6}, {"g", 1e9}, {"t", 1e12}}};
constexpr double kBitRateMax = 1e15;

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  return out;
}

/// The two times to the left and right of `between`; nothing if the text has another form.
std::optional<std::pair<Duration, Duration>> two_times(const std::string& text, std::string_view between) {
  const size_t at = text.find(between);
  if (at == std::string::npos) return {};
  const std::optional<Duration> first = parse_time_span(text.substr(0, at));
  const std::optional<Duration> second = parse_time_span(text.substr(at + between.size()));
  if (!first || !second) return {};
  return std::pair{*first, *second};
}

Status take_delay(const std::string& value, FaultRule& rule) {
  const std::optional<Duration> one = parse_time_span(value);
  const auto range = one ? std::pair{*one, *one} : two_times(value, "..").value_or(std::pair{0ns, 0ns});
  if (range.second <= 0ns || range.first > range.second)
    return Error{fmt::format("delay needs a time like 2ms, or two like 1ms..5ms, not '{}'", value)};
  rule.delay_min = range.first;
  rule.delay_max = range.second;
  return {};
}

Status take_rate(const std::string& value, FaultRule& rule) {
  const std::optional<uint32_t> cells = parse_number<uint32_t>(value);
  const std::optional<uint64_t> bits = parse_bit_rate(value);
  if (cells.value_or(0) == 0 && !bits)
    return Error{fmt::format(
        "rate needs bits per second like 10Gbit or 500Mbit/s, or a number of cells per second, not '{}'",
        value)};
  if (bits) rule.bits_per_second = *bits;
  if (!bits) rule.cells_per_second = *cells;
  return {};
}

Status take_flap(const std::string& value, FaultRule& rule) {
  const auto times = two_times(value, "/");
  if (!times || times->first <= 0ns || times->second <= 0ns)
    return Error{fmt::format("flap needs two times, up and down, like 1s/200ms, not '{}'", value)};
  rule.up = times->first;
  rule.down = times->second;
  return {};
}

/// Takes the chance as value, as in `weft fault NODE drop 1%`.
Status take_chance(const FaultOrder& order, FaultRule& rule) {
  if (order.value.empty()) return {};
  const std::optional<uint32_t> parts = parse_percent(order.value);
  if (!parts || !order.chance.empty())
    return Error{fmt::format("{} takes one chance like 1%, not '{}'", order.kind, order.value)};
  rule.chance_ppm = *parts;
  return {};
}

Status take_nothing(const FaultOrder& order) {
  if (order.value.empty()) return {};
  return Error{fmt::format("{} takes no value, not '{}'", order.kind, order.value)};
}

Status take_value(const FaultOrder& order, FaultRule& rule) {
  switch (info_of(rule.kind).value) {
    case FaultValue::kNone:
      return take_nothing(order);
    case FaultValue::kChance:
      return take_chance(order, rule);
    case FaultValue::kDelay:
      return take_delay(order.value, rule);
    case FaultValue::kRate:
      return take_rate(order.value, rule);
    case FaultValue::kFlap:
      return take_flap(order.value, rule);
  }
  return {};
}

Status take_lanes(const FaultOrder& order, FaultRule& rule) {
  if (order.lanes.empty()) return {};
  rule.lanes = 0;
  for (const std::string& word : order.lanes) {
    const std::optional<uint32_t> lane = parse_number<uint32_t>(word);
    if (!lane || *lane >= kVlCount)
      return Error{fmt::format("a lane is a number 0..{}, not '{}'", kVlCount - 1, word)};
    rule.lanes |= 1U << *lane;
  }
  return {};
}

Status take_opcode(const FaultOrder& order, FaultRule& rule) {
  if (order.opcode.empty()) return {};
  std::vector<std::string> known;
  for (const OpcodeInfo& info : kOpcodes) {
    if (info.name == order.opcode) {
      rule.opcode = static_cast<uint8_t>(info.opcode);
      return {};
    }
    known.emplace_back(info.name);
  }
  return Error{fmt::format("no operation is called '{}'{}", order.opcode, choices(order.opcode, known))};
}

Status take_chance_option(const FaultOrder& order, FaultRule& rule) {
  if (order.chance.empty()) return {};
  const std::optional<uint32_t> parts = parse_percent(order.chance);
  if (!parts)
    return Error{fmt::format("a chance is above 0% and up to 100%, like 0.5%, not '{}'", order.chance)};
  rule.chance_ppm = *parts;
  return {};
}

Status take_direction(const FaultOrder& order, FaultRule& rule) {
  if (order.direction.empty()) return {};
  const std::optional<FaultDirection> direction = fault_direction(order.direction);
  if (!direction) return Error{fmt::format("a direction is both, from or to, not '{}'", order.direction)};
  rule.direction = *direction;
  return {};
}

Status take_lasts(const FaultOrder& order, FaultRule& rule) {
  if (order.lasts.empty()) return {};
  const std::optional<Duration> lasts = parse_time_span(order.lasts);
  if (!lasts || *lasts == 0ns)
    return Error{fmt::format("a fault lasts for a time like 5s, not '{}'", order.lasts)};
  rule.lasts = *lasts;
  return {};
}

}  // namespace

std::optional<uint64_t> parse_bit_rate(const std::string& text) {
  const auto number = leading_number(text);
  if (!number || !(number->first > 0)) return {};
  const std::string word = lower(number->second);
  for (const auto& [letter, factor] : kBitUnits) {
    for (const char* ending : {"bit", "bit/s", "bits/s", "bps", "b/s"}) {
      if (word != std::string(letter) + ending) continue;
      const double bits = number->first * factor;
      if (bits < 1 || bits > kBitRateMax) return {};
      return static_cast<uint64_t>(bits);
    }
  }
  return {};
}

std::string format_bit_rate(uint64_t bits_per_second) {
  constexpr std::array<std::string_view, kBitUnits.size()> kLetters{"", "k", "M", "G", "T"};
  size_t i = kBitUnits.size() - 1;
  while (i > 0 && static_cast<double>(bits_per_second) < kBitUnits[i].second) --i;
  return fmt::format("{:g} {}bit/s", static_cast<double>(bits_per_second) / kBitUnits[i].second, kLetters[i]);
}

std::optional<uint32_t> parse_percent(const std::string& text) {
  const auto number = leading_number(text);
  if (!number || number->second != "%" || !(number->first > 0) || number->first > 100) return {};
  const auto parts = static_cast<uint32_t>(std::lround(number->first * 10'000));
  if (parts == 0) return {};
  return parts;
}

bool strikes_process(const FaultOrder& order) {
  return std::find(kProcessFaults.begin(), kProcessFaults.end(), order.kind) != kProcessFaults.end();
}

Result<FaultRule> fault_rule(const FaultOrder& order) {
  FaultRule rule;
  const std::optional<FaultKind> kind = fault_kind(order.kind);
  if (!kind) {
    std::vector<std::string> known;
    for (const FaultKindInfo& row : kFaultKinds) known.emplace_back(row.name);
    known.insert(known.end(), kProcessFaults.begin(), kProcessFaults.end());
    return Error{fmt::format("no fault is called '{}'{}", order.kind, choices(order.kind, known))};
  }
  rule.kind = *kind;
  rule.every = order.every;
  rule.limit = order.limit;
  rule.seed = order.seed;
  for (const auto take :
       {take_chance_option, take_direction, take_lasts, take_value, take_lanes, take_opcode})
    if (Status taken = take(order, rule); !taken) return taken.error();
  return rule;
}

Status check_order(const FaultOrder& order) {
  FaultRule unused;
  if (strikes_process(order)) {
    for (const auto take : {take_chance_option, take_direction, take_lasts, take_lanes, take_opcode})
      if (Status taken = take(order, unused); !taken) return taken;
    return take_nothing(order);
  }
  const Result<FaultRule> rule = fault_rule(order);
  return rule.ok() ? Status{} : Status{rule.error()};
}

std::string describe_fault(const FaultRule& rule) {
  std::string text(to_string(rule.kind));
  const auto span = format_time_span;
  if (rule.kind == FaultKind::kDelay)
    text += rule.delay_min == rule.delay_max
                ? fmt::format(" {}", span(rule.delay_min))
                : fmt::format(" {}..{}", span(rule.delay_min), span(rule.delay_max));
  if (rule.kind == FaultKind::kRate)
    text += rule.bits_per_second != 0 ? " " + format_bit_rate(rule.bits_per_second)
                                      : fmt::format(" {} cells per second", rule.cells_per_second);
  if (rule.kind == FaultKind::kFlap) text += fmt::format(" {} up, {} down", span(rule.up), span(rule.down));
  if (rule.chance_ppm != kFaultAlways)
    text += fmt::format(" {:g}%", static_cast<double>(rule.chance_ppm) / 10'000);
  if (rule.every != 1) text += fmt::format(", every {} cells", rule.every);
  if (const OpcodeInfo* info = find_opcode(rule.opcode); info != nullptr)
    text += fmt::format(", {} only", info->name);
  if (rule.lanes != UINT32_MAX) text += fmt::format(", lanes {:#x}", rule.lanes);
  text += rule.direction == FaultDirection::kBoth
              ? ", both ways"
              : fmt::format(", cells {} the node", to_string(rule.direction));
  if (rule.limit != 0) text += fmt::format(", at most {} times", rule.limit);
  if (rule.lasts != 0ns) text += fmt::format(", for {}", span(rule.lasts));
  return text + fmt::format(", seed {}", rule.seed);
}

FaultOrder read_fault(TopologySection& section) {
  FaultOrder order;
  const std::optional<Duration> at = parse_time_span(section.text("at", "0s"));
  if (!at) section.fault("at", "needs a time after the start, like 2s");
  order.at = *at;
  order.target = section.required_text("target", "h1");
  order.kind = section.required_text("kind", "drop");
  order.value = section.text("value", "");
  order.chance = section.text("chance", "");
  order.direction = section.text("direction", "");
  order.opcode = section.text("opcode", "");
  order.lasts = section.text("for", "");
  order.lanes = section.texts("lanes");
  order.every = section.number("every", 1, UINT32_MAX, 1);
  order.limit = section.number("limit", 0, UINT32_MAX, 0);
  order.seed = section.number("seed", 0, UINT32_MAX, 0);
  section.finish();
  if (Status good = check_order(order); !good) section.fault_here(good.error().text);
  return order;
}

void sort_by_time(std::vector<FaultOrder>& orders) {
  std::stable_sort(orders.begin(), orders.end(),
                   [](const FaultOrder& a, const FaultOrder& b) { return a.at < b.at; });
}

Result<std::vector<FaultOrder>> read_fault_script(const std::string& path) {
  try {
    const toml::table root = toml::parse_file(path);
    TopologySection top(root, path, "the script");
    std::vector<FaultOrder> orders;
    for (const toml::table* table : top.tables("fault")) {
      TopologySection section(*table, path, "[[fault]]");
      orders.push_back(read_fault(section));
    }
    // A topology file; its other sections were checked by parse_topology().
    if (!top.has("fabric")) top.finish();
    if (orders.empty()) return Error{fmt::format("{}: no [[fault]] in it", path)};
    sort_by_time(orders);
    return orders;
  } catch (const TopologyFault& fault) {
    return Error{fault.text};
  } catch (const toml::parse_error& fault) {
    return Error{fmt::format("{}:{}: {}", path, fault.source().begin.line, fault.description())};
  }
}

}  // namespace weft::tools
