#include "fabric/window/window_faults.h"

#include <fmt/format.h>

#include <algorithm>

namespace weft::fabric {
namespace {

[[nodiscard]] bool ended(const WindowFault& fault, Instant now) noexcept {
  return fault.rule.lasts != Duration{} && now - fault.began >= fault.rule.lasts;
}
/// The rule cuts the windows off at this time.
[[nodiscard]] bool cuts_at(const WindowFault& fault, Instant now) noexcept {
  const FaultRule& rule = fault.rule;
  if (ended(fault, now)) return false;
  if (rule.kind == FaultKind::kFlap) return (now - fault.began) % (rule.up + rule.down) >= rule.up;
  return rule.kind == FaultKind::kCut;
}

}  // namespace

Status WindowFaults::check(const FaultRule& rule) {
  switch (rule.kind) {
    case FaultKind::kCut:
    case FaultKind::kFlap:
      if (rule.chance_ppm != kFaultAlways || rule.every != 1 || rule.limit != 0)
        return Error{fmt::format("{} strikes all data of a window, without chance, every or limit",
                                 to_string(rule.kind))};
      break;
    case FaultKind::kDelay:
    case FaultKind::kFailDma:
      break;
    case FaultKind::kDrop:
    case FaultKind::kCorrupt:
    case FaultKind::kDuplicate:
    case FaultKind::kReorder:
    case FaultKind::kRate:
      return Error{
          fmt::format("{} strikes cells, and no cell passes a window; cut, flap, delay, fail-dma, "
                      "freeze and kill strike windows",
                      to_string(rule.kind))};
  }
  if (rule.lanes != UINT32_MAX) return Error{"a window has no lanes"};
  if (rule.opcode != 0) return Error{"a window has no cells with operations"};
  if (rule.direction == FaultDirection::kTo)
    return Error{"the device of a peer moves what goes to a program: strike the peer, direction from"};
  if (rule.chance_ppm == 0 || rule.chance_ppm > kFaultAlways || rule.every == 0)
    return Error{"the chance of a fault is above 0 and at most 100 %, and it strikes every 1st, 2nd, ..."};
  if (rule.kind == FaultKind::kDelay &&
      (rule.delay_max <= Duration{} || rule.delay_min < Duration{} || rule.delay_min > rule.delay_max))
    return Error{"a delay needs a time above 0, or a shortest and a longest one"};
  if (rule.kind == FaultKind::kFlap && (rule.up <= Duration{} || rule.down <= Duration{}))
    return Error{"a flap needs two times above 0"};
  return {};
}

Result<uint32_t> WindowFaults::add(const FaultRule& rule, Instant now) {
  if (Status good = check(rule); !good) return good.error();
  if (rules_.size() == kWindowFaultsMax)
    return Error{
        fmt::format("{} faults of windows are in force, which is the limit; clear some", kWindowFaultsMax)};
  rules_.push_back({.id = next_id_++, .rule = rule, .began = now, .random = SeededRandom(rule.seed)});
  show();
  return rules_.back().id;
}

bool WindowFaults::remove(uint32_t id) noexcept {
  const size_t erased =
      std::erase_if(rules_, [id](const WindowFault& fault) { return id == 0 || fault.id == id; });
  show();
  return erased != 0;
}

void WindowFaults::show() noexcept {
  for (size_t i = 0; i < shown_.size(); ++i) {
    const bool there = i < rules_.size();
    shown_[i].set(WindowFaultGauge::kNumber, there ? rules_[i].id : 0);
    shown_[i].set(WindowFaultGauge::kStruck, there ? rules_[i].struck : 0);
  }
}

WindowFaults::Judgement WindowFaults::judge(Instant now) noexcept {
  for (size_t i = 0; i < rules_.size(); ++i) {
    WindowFault& fault = rules_[i];
    const FaultRule& rule = fault.rule;
    if (ended(fault, now) || (rule.limit != 0 && fault.struck >= rule.limit)) continue;
    ++fault.matched;
    if (rule.kind == FaultKind::kFlap && !cuts_at(fault, now)) continue;
    if (fault.matched % rule.every != 0) continue;
    if (rule.chance_ppm != kFaultAlways && !fault.random.chance_ppm(rule.chance_ppm)) continue;
    ++fault.struck;
    shown_[i].set(WindowFaultGauge::kStruck, fault.struck);
    if (rule.kind == FaultKind::kFailDma) return {Verdict::kFail};
    if (rule.kind != FaultKind::kDelay) return {Verdict::kHold, kNever};
    const auto spread = static_cast<uint64_t>((rule.delay_max - rule.delay_min).count());
    return {Verdict::kHold,
            now + rule.delay_min + Duration(static_cast<int64_t>(fault.random.below(spread + 1)))};
  }
  return {};
}

bool WindowFaults::cuts(Instant now) const noexcept {
  return std::any_of(rules_.begin(), rules_.end(),
                     [now](const WindowFault& fault) { return cuts_at(fault, now); });
}

bool WindowFaults::cuts_both_ways(Instant now) const noexcept {
  return std::any_of(rules_.begin(), rules_.end(), [now](const WindowFault& fault) {
    return fault.rule.direction == FaultDirection::kBoth && cuts_at(fault, now);
  });
}

Instant WindowFaults::next_change(Instant now) const noexcept {
  Instant at = kNever;
  for (const WindowFault& fault : rules_) {
    const FaultRule& rule = fault.rule;
    if (ended(fault, now)) continue;
    if (rule.kind == FaultKind::kFlap) {
      const Duration in_turn = (now - fault.began) % (rule.up + rule.down);
      at = std::min(at, now + (in_turn < rule.up ? rule.up : rule.up + rule.down) - in_turn);
    }
    const bool cut = rule.kind == FaultKind::kCut || rule.kind == FaultKind::kFlap;
    if (cut && rule.lasts != Duration{}) at = std::min(at, fault.began + rule.lasts);
  }
  return at;
}

}  // namespace weft::fabric
