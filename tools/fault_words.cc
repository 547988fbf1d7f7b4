#include "tools/fault_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "base/parse_number.h"
#include "base/words.h"
#include "messages/ids.h"
#include "messages/opcode.h"
#include "tools/topology_section.h"

namespace weft::tools {
namespace {

using namespace std::chrono_literals;

const std::vector<std::string> kKinds{"drop", "corrupt", "duplicate", "reorder", "delay",
                                      "rate", "cut",     "flap",      "freeze",  "kill"};
constexpr std::array<std::pair<std::string_view, double>, 6> kUnits{
    {{"ns", 1.0}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"m", 60e9}, {"h", 3600e9}}};
constexpr double kYearNs = 365.0 * 24 * 3600e9;

/// A number at the beginning of `text`, and what follows it.
std::optional<std::pair<double, std::string_view>> leading_number(const std::string& text) {
  double value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  if (read.ec != std::errc()) return {};
  return std::pair{value, std::string_view(text).substr(static_cast<size_t>(read.ptr - text.data()))};
}

uint64_t ns_of(Duration span) {
  return static_cast<uint64_t>(span.count());
}

/// Two times with `between` in the middle; nothing when there are not just two.
std::optional<std::pair<Duration, Duration>> two_times(const std::string& text, std::string_view between) {
  const size_t at = text.find(between);
  if (at == std::string::npos) return {};
  const std::optional<Duration> first = parse_time_span(text.substr(0, at));
  const std::optional<Duration> second = parse_time_span(text.substr(at + between.size()));
  if (!first || !second) return {};
  return std::pair{*first, *second};
}

Status take_value(const FaultOrder& order, control::FaultWish& wish) {
  if (order.kind == "delay") {
    const std::optional<Duration> one = parse_time_span(order.value);
    const auto range =
        one ? std::pair{*one, *one} : two_times(order.value, "..").value_or(std::pair{0ns, 0ns});
    if (range.second <= 0ns || range.first > range.second)
      return Error{fmt::format("delay needs a time like 2ms, or two like 1ms..5ms, not '{}'", order.value)};
    wish.delay_min_ns = ns_of(range.first);
    wish.delay_max_ns = ns_of(range.second);
  } else if (order.kind == "rate") {
    const std::optional<uint32_t> cells = parse_number<uint32_t>(order.value);
    if (!cells || *cells == 0)
      return Error{fmt::format("rate needs a number of cells per second, not '{}'", order.value)};
    wish.cells_per_second = *cells;
  } else if (order.kind == "flap") {
    const auto times = two_times(order.value, "/");
    if (!times || times->first <= 0ns || times->second <= 0ns)
      return Error{fmt::format("flap needs two times, up and down, like 1s/200ms, not '{}'", order.value)};
    wish.up_ns = ns_of(times->first);
    wish.down_ns = ns_of(times->second);
  } else if (!order.value.empty()) {
    return Error{fmt::format("{} takes no value; '{}' is one too many", order.kind, order.value)};
  }
  return {};
}

Status take_lanes(const FaultOrder& order, control::FaultWish& wish) {
  if (order.lanes.empty()) return {};
  wish.lanes = 0;
  for (const std::string& word : order.lanes) {
    const std::optional<uint32_t> lane = parse_number<uint32_t>(word);
    if (!lane || *lane >= kVlCount)
      return Error{fmt::format("a lane is a number 0..{}, not '{}'", kVlCount - 1, word)};
    wish.lanes |= 1U << *lane;
  }
  return {};
}

Status take_opcode(const FaultOrder& order, control::FaultWish& wish) {
  if (order.opcode.empty()) return {};
  std::vector<std::string> known;
  for (const OpcodeInfo& info : kOpcodes) {
    if (info.name == order.opcode) {
      wish.opcode = static_cast<uint8_t>(info.opcode);
      return {};
    }
    known.emplace_back(info.name);
  }
  return Error{fmt::format("no operation is called '{}'{}", order.opcode, choices(order.opcode, known))};
}

}  // namespace

std::optional<Duration> parse_time_span(const std::string& text) {
  const auto number = leading_number(text);
  if (!number || !(number->first >= 0)) return {};
  for (const auto& [unit, factor] : kUnits) {
    if (number->second != unit) continue;
    const double ns = number->first * factor;
    if (ns > kYearNs) return {};
    return Duration(static_cast<int64_t>(ns));
  }
  return {};
}

std::optional<uint32_t> parse_percent(const std::string& text) {
  const auto number = leading_number(text);
  if (!number || number->second != "%" || !(number->first > 0) || number->first > 100) return {};
  const auto parts = static_cast<uint32_t>(number->first * 10'000 + 0.5);
  if (parts == 0) return {};
  return parts;
}

std::string format_time_span(Duration span) {
  for (size_t i = kUnits.size(); i-- > 1;) {
    const double in_unit = static_cast<double>(span.count()) / kUnits[i].second;
    if (in_unit >= 1) return fmt::format("{:g}{}", in_unit, kUnits[i].first);
  }
  return fmt::format("{}ns", span.count());
}

Result<control::FaultWish> fault_wish(const FaultOrder& order) {
  if (std::find(kKinds.begin(), kKinds.end(), order.kind) == kKinds.end())
    return Error{fmt::format("no fault is called '{}'{}", order.kind, choices(order.kind, kKinds))};
  control::FaultWish wish;
  wish.kind = order.kind;
  wish.every = order.every;
  wish.limit = order.limit;
  wish.seed = order.seed;
  if (!order.chance.empty()) {
    const std::optional<uint32_t> parts = parse_percent(order.chance);
    if (!parts)
      return Error{fmt::format("a chance is above 0% and up to 100%, like 0.5%, not '{}'", order.chance)};
    wish.chance_ppm = *parts;
  }
  if (!order.direction.empty()) wish.direction = order.direction;
  if (wish.direction != "both" && wish.direction != "from" && wish.direction != "to")
    return Error{fmt::format("a direction is both, from or to, not '{}'", order.direction)};
  if (!order.lasts.empty()) {
    const std::optional<Duration> lasts = parse_time_span(order.lasts);
    if (!lasts || *lasts == 0ns)
      return Error{fmt::format("a fault lasts for a time like 5s, not '{}'", order.lasts)};
    wish.lasts_ns = ns_of(*lasts);
  }
  for (const auto take : {take_value, take_lanes, take_opcode})
    if (Status taken = take(order, wish); !taken) return taken.error();
  return wish;
}

std::string describe_fault(const control::FaultWish& rule) {
  std::string text = rule.kind;
  const auto span = [](uint64_t ns) { return format_time_span(Duration(static_cast<int64_t>(ns))); };
  if (rule.kind == "delay")
    text += rule.delay_min_ns == rule.delay_max_ns
                ? fmt::format(" {}", span(rule.delay_min_ns))
                : fmt::format(" {}..{}", span(rule.delay_min_ns), span(rule.delay_max_ns));
  if (rule.kind == "rate") text += fmt::format(" {} cells per second", rule.cells_per_second);
  if (rule.kind == "flap") text += fmt::format(" {} up, {} down", span(rule.up_ns), span(rule.down_ns));
  if (rule.chance_ppm != 1'000'000)
    text += fmt::format(" {:g}%", static_cast<double>(rule.chance_ppm) / 10'000);
  if (rule.every != 1) text += fmt::format(", every {} cells", rule.every);
  if (const OpcodeInfo* info = find_opcode(rule.opcode); info != nullptr)
    text += fmt::format(", {} only", info->name);
  if (rule.lanes != UINT32_MAX) text += fmt::format(", lanes {:#x}", rule.lanes);
  text += rule.direction == "both" ? ", both ways" : fmt::format(", cells {} the node", rule.direction);
  if (rule.limit != 0) text += fmt::format(", at most {} times", rule.limit);
  if (rule.lasts_ns != 0) text += fmt::format(", for {}", span(rule.lasts_ns));
  return text + fmt::format(", seed {}", rule.seed);
}

Result<std::vector<FaultOrder>> read_fault_script(const std::string& path) {
  try {
    const toml::table root = toml::parse_file(path);
    TopologySection top(root, path, "the script");
    std::vector<FaultOrder> orders;
    for (const toml::table* table : top.tables("fault")) {
      TopologySection section(*table, path, "[[fault]]");
      FaultOrder order;
      const std::optional<Duration> at = parse_time_span(section.text("at", "0s"));
      if (!at) section.fault("at", "needs a time after the start of the script, like 2s");
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
      if (Result<control::FaultWish> wish = fault_wish(order); !wish) section.fault_here(wish.error().text);
      orders.push_back(std::move(order));
    }
    top.finish();
    if (orders.empty()) return Error{fmt::format("{}: no [[fault]] in it", path)};
    std::stable_sort(orders.begin(), orders.end(),
                     [](const FaultOrder& a, const FaultOrder& b) { return a.at < b.at; });
    return orders;
  } catch (const TopologyFault& fault) {
    return Error{fault.text};
  } catch (const toml::parse_error& fault) {
    return Error{fmt::format("{}:{}: {}", path, fault.source().begin.line, fault.description())};
  }
}

}  // namespace weft::tools
