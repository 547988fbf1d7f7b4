#include "node/fault_rules.h"

#include <fmt/format.h>

namespace weft::node {
namespace {

constexpr uint64_t kTimeMax =
    static_cast<uint64_t>(std::chrono::nanoseconds(std::chrono::hours(24 * 365)).count());

Duration time_of(uint64_t ns) {
  return Duration(static_cast<int64_t>(ns));
}

uint64_t ns_of(Duration time) {
  return static_cast<uint64_t>(time.count());
}

control::FaultInfo describe(const fabric::LiveFault& fault, Instant now) {
  const fabric::FaultRule& rule = fault.rule;
  control::FaultInfo out;
  out.id = fault.id;
  out.matched = fault.matched;
  out.struck = fault.struck;
  const Duration gone = now - fault.began;
  out.left_ns = rule.lasts > gone ? ns_of(rule.lasts - gone) : 0;
  out.rule = {.port = rule.port,
              .kind = std::string(fabric::to_string(rule.kind)),
              .direction = std::string(fabric::to_string(rule.direction)),
              .lanes = rule.lanes,
              .opcode = rule.opcode,
              .chance_ppm = rule.chance_ppm,
              .every = rule.every,
              .limit = rule.limit,
              .lasts_ns = ns_of(rule.lasts),
              .delay_min_ns = ns_of(rule.delay_min),
              .delay_max_ns = ns_of(rule.delay_max),
              .cells_per_second = rule.cells_per_second,
              .up_ns = ns_of(rule.up),
              .down_ns = ns_of(rule.down),
              .seed = rule.seed};
  return out;
}

}  // namespace

Result<fabric::FaultRule> fault_rule(const control::FaultWish& wish, uint32_t ports) {
  const std::optional<fabric::FaultKind> kind = fabric::fault_kind(wish.kind);
  if (!kind) return Error{fmt::format("no fault is called '{}'", wish.kind)};
  const std::optional<fabric::FaultDirection> direction = fabric::fault_direction(wish.direction);
  if (!direction) return Error{fmt::format("no direction is called '{}': both, from, to", wish.direction)};
  if (wish.port == 0 || wish.port > ports)
    return Error{fmt::format("the switch has ports 1..{}, not {}", ports, wish.port)};
  for (const uint64_t time : {wish.lasts_ns, wish.delay_min_ns, wish.delay_max_ns, wish.up_ns, wish.down_ns})
    if (time > kTimeMax) return Error{"a time of a fault is at most a year"};
  return fabric::FaultRule{.kind = *kind,
                           .port = wish.port,
                           .direction = *direction,
                           .lanes = wish.lanes,
                           .opcode = wish.opcode,
                           .chance_ppm = wish.chance_ppm,
                           .every = wish.every,
                           .limit = wish.limit,
                           .lasts = time_of(wish.lasts_ns),
                           .delay_min = time_of(wish.delay_min_ns),
                           .delay_max = time_of(wish.delay_max_ns),
                           .cells_per_second = wish.cells_per_second,
                           .up = time_of(wish.up_ns),
                           .down = time_of(wish.down_ns),
                           .seed = wish.seed};
}

std::vector<control::FaultInfo> describe_faults(const fabric::LiveFaults& faults, Instant now) {
  std::vector<control::FaultInfo> out;
  for (const fabric::LiveFault& fault : faults.rules()) out.push_back(describe(fault, now));
  return out;
}

}  // namespace weft::node
