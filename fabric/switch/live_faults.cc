// How it works: rules are asked in the order in which they were set, and the first that strikes decides. A
// cell that is to be late, or to come twice, is copied into a pool; the switch puts it on its way when it is
// due.
// Each rule draws from a generator of its own, so that the same cells in the same order are struck again,
// whatever other rules do.
#include "fabric/switch/live_faults.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "messages/opcode.h"

namespace weft::fabric {
namespace {

constexpr std::array<std::string_view, static_cast<size_t>(FaultKind::kCount)> kKinds{
    "drop", "corrupt", "duplicate", "reorder", "delay", "rate", "cut", "flap"};
constexpr std::array<std::string_view, static_cast<size_t>(FaultDirection::kCount)> kDirections{"both",
                                                                                                "from", "to"};

template <typename Word, size_t kSize>
std::optional<Word> find_word(const std::array<std::string_view, kSize>& words,
                              std::string_view word) noexcept {
  const auto found = std::find(words.begin(), words.end(), word);
  if (found == words.end()) return {};
  return static_cast<Word>(found - words.begin());
}

}  // namespace

std::string_view to_string(FaultKind kind) noexcept {
  return kKinds.at(static_cast<size_t>(kind));
}
std::optional<FaultKind> fault_kind(std::string_view word) noexcept {
  return find_word<FaultKind>(kKinds, word);
}
std::string_view to_string(FaultDirection direction) noexcept {
  return kDirections.at(static_cast<size_t>(direction));
}
std::optional<FaultDirection> fault_direction(std::string_view word) noexcept {
  return find_word<FaultDirection>(kDirections, word);
}

Status LiveFaults::check(const FaultRule& rule) {
  if (rule.chance_ppm == 0 || rule.chance_ppm > 1'000'000)
    return Error{"a fault strikes with a chance above 0 and up to 100 %"};
  if (rule.every == 0) return Error{"a fault strikes every 1st, 2nd, ... cell, not every 0th"};
  if (rule.lanes == 0) return Error{"a fault needs a lane"};
  if (rule.opcode != 0 && find_opcode(rule.opcode) == nullptr)
    return Error{fmt::format("no operation has the number {}", rule.opcode)};
  if (rule.kind == FaultKind::kDelay &&
      (rule.delay_max <= Duration{} || rule.delay_min < Duration{} || rule.delay_min > rule.delay_max))
    return Error{"a delay needs a time above 0, or a shortest and a longest one"};
  if (rule.kind == FaultKind::kRate && rule.cells_per_second == 0)
    return Error{"a rate needs a number of cells per second above 0"};
  if (rule.kind == FaultKind::kFlap && (rule.up <= Duration{} || rule.down <= Duration{}))
    return Error{"a flap needs two times above 0: how long cells pass and how long they do not"};
  return {};
}

Result<uint32_t> LiveFaults::add(const FaultRule& rule, Instant now) {
  if (Status good = check(rule); !good) return good.error();
  if (rules_.size() == kFaultRulesMax)
    return Error{fmt::format("{} faults are in force, which is the limit; clear some", kFaultRulesMax)};
  LiveFault fault;
  fault.id = next_id_++;
  fault.rule = rule;
  fault.began = fault.next_pass = now;
  fault.random = SeededRandom(rule.seed);
  rules_.push_back(fault);
  ++active_;
  return fault.id;
}

bool LiveFaults::remove(uint32_t id) noexcept {
  const size_t removed = std::erase_if(rules_, [id](const LiveFault& fault) { return fault.id == id; });
  active_ -= static_cast<uint32_t>(removed);
  return removed != 0;
}

bool LiveFaults::matches(const FaultRule& rule, PortNumber in, PortNumber out, VirtualLane vl,
                         uint8_t opcode) noexcept {
  const bool from = in == rule.port && rule.direction != FaultDirection::kTo;
  const bool to = out == rule.port && rule.direction != FaultDirection::kFrom;
  return (from || to) && (rule.lanes >> vl.value() & 1) != 0 && (rule.opcode == 0 || rule.opcode == opcode);
}

/// Does the rule strike the cell that matches it now?
bool LiveFaults::strikes(LiveFault& fault, Instant now) noexcept {
  const FaultRule& rule = fault.rule;
  if (rule.lasts != Duration{} && now - fault.began >= rule.lasts) return false;
  if (rule.limit != 0 && fault.struck >= rule.limit) return false;
  ++fault.matched;
  if (rule.kind == FaultKind::kFlap && (now - fault.began) % (rule.up + rule.down) < rule.up) return false;
  if (fault.matched % rule.every != 0) return false;
  return rule.chance_ppm == 1'000'000 || fault.random.chance_ppm(rule.chance_ppm);
}

FaultVerdict LiveFaults::apply(LiveFault& fault, Instant now) noexcept {
  const FaultRule& rule = fault.rule;
  verdict_overtaken_ = true;
  verdict_copy_ = false;
  verdict_due_ = now;
  switch (rule.kind) {
    case FaultKind::kCorrupt:
      return FaultVerdict::kCorrupt;
    case FaultKind::kDuplicate:
      verdict_copy_ = true;
      return FaultVerdict::kDuplicate;
    case FaultKind::kReorder:
      verdict_overtaken_ = false;
      verdict_due_ = now + kFaultReorderMax;
      return FaultVerdict::kHold;
    case FaultKind::kDelay: {
      const auto spread = static_cast<uint64_t>((rule.delay_max - rule.delay_min).count());
      verdict_due_ = now + rule.delay_min + Duration(static_cast<int64_t>(fault.random.below(spread + 1)));
      return FaultVerdict::kHold;
    }
    case FaultKind::kRate:
      verdict_due_ = std::max(now, fault.next_pass);
      fault.next_pass = verdict_due_ + Duration(std::chrono::seconds(1)) / rule.cells_per_second;
      return FaultVerdict::kHold;
    default:
      return FaultVerdict::kDrop;
  }
}

FaultVerdict LiveFaults::judge(PortNumber in, PortNumber out, VirtualLane vl, const CellHead& head,
                               Instant now) noexcept {
  FaultVerdict verdict = FaultVerdict::kPass;
  for (LiveFault& fault : rules_) {
    if (!matches(fault.rule, in, out, vl, head.opcode()) || !strikes(fault, now)) continue;
    ++fault.struck;
    verdict = apply(fault, now);
    break;
  }
  if (verdict == FaultVerdict::kDrop || verdict == FaultVerdict::kHold) return verdict;
  if (to_overtake_ == 0) [[likely]]
    return verdict;
  // The cell passes: those that were to let one pass may go now, behind it.
  bool moved = false;
  for (const uint32_t index : order_) {
    HeldCell& held = pool_[index];
    if (held.overtaken || held.output != out) continue;
    held.overtaken = moved = true;
    held.due = now;
    --to_overtake_;
  }
  if (moved) {
    std::stable_sort(order_.begin(), order_.end(),
                     [this](uint32_t a, uint32_t b) { return pool_[a].due < pool_[b].due; });
  }
  return verdict;
}

HeldCell* LiveFaults::begin_hold(PortNumber in, PortNumber out, VirtualLane vl) {
  if (held_count_ == kFaultHeldMax) return nullptr;
  if (pool_.empty()) {
    pool_.resize(kFaultHeldMax);  // so that cells never move
    for (uint32_t i = 0; i < kFaultHeldMax; ++i)
      free_.push_back(static_cast<uint32_t>(kFaultHeldMax) - 1 - i);
  }
  const uint32_t index = free_.back();
  free_.pop_back();
  HeldCell& cell = pool_[index];
  cell.input = in;
  cell.output = out;
  cell.vl = vl;
  cell.whole = false;
  cell.copy = verdict_copy_;
  cell.overtaken = verdict_overtaken_;
  cell.due = verdict_due_;
  cell.latest = verdict_due_;
  cell.bytes.clear();
  cell.flits.clear();
  ++held_count_;
  if (!cell.overtaken) ++to_overtake_;
  ++active_;
  const auto behind =
      std::upper_bound(order_.begin(), order_.end(), cell.due,
                       [this](Instant due, uint32_t other) { return due < pool_[other].due; });
  order_.insert(behind, index);
  return &cell;
}

/// Copies the flit as the switch would send it: its header as it was checked, its CRC as it was verified.
void LiveFaults::add_flit(HeldCell& cell, const RxFlit& flit, const CellHead* head) {
  const size_t at = cell.bytes.size();
  cell.bytes.insert(cell.bytes.end(), flit.payload.begin(), flit.payload.end());
  if (head != nullptr) head->store(cell.bytes.data() + at);
  if (flit.head && flit.tail) store_be(cell.bytes.data() + cell.bytes.size() - kCrcBytes, flit.cell_crc);
  cell.flits.push_back({static_cast<uint32_t>(flit.payload.size()), flit.cell_crc, flit.poison});
  cell.whole = flit.tail;
}

void LiveFaults::end_hold(uint32_t index) noexcept {
  --held_count_;
  if (!pool_[index].overtaken) --to_overtake_;
  --active_;
  free_.push_back(index);
}

void LiveFaults::abandon(const HeldCell& cell) noexcept {
  const auto index = static_cast<uint32_t>(&cell - pool_.data());
  std::erase(order_, index);
  end_hold(index);
}

Instant LiveFaults::deadline() const noexcept {
  return order_.empty() ? kNever : pool_[order_.front()].due;
}

}  // namespace weft::fabric
