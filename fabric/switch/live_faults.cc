// How it works: rules are asked in the order in which they were set, and the first one that strikes decides.
// A cell that is to be late or to come twice is copied into a pool; the switch sends it when it is due. A
// cell gets its place in the queue when its last flit has come. A cell that waits for a rate goes to the
// rate's queues instead (rate_queues.cc).
//
// Each rule draws from its own random generator. So the same cells in the same order are struck again,
// whatever other rules do.
#include "fabric/switch/live_faults.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/stats_page.h"
#include "messages/opcode.h"

namespace weft::fabric {
Status LiveFaults::check(const FaultRule& rule) {
  if (rule.chance_ppm == 0 || rule.chance_ppm > kFaultAlways)
    return Error{"the chance of a fault must be above 0 and at most 100 %"};
  if (rule.every == 0) return Error{"a fault can strike every 1st, 2nd, ... cell, not every 0th"};
  if (rule.kind == FaultKind::kFailDma)
    return Error{"fail-dma strikes memory windows of programs; a switch moves no data by DMA"};
  if (rule.lanes == 0) return Error{"a fault needs a lane"};
  if (rule.opcode != 0 && find_opcode(rule.opcode) == nullptr)
    return Error{fmt::format("no operation has the number {}", rule.opcode)};
  if (rule.kind == FaultKind::kDelay &&
      (rule.delay_max <= Duration{} || rule.delay_min < Duration{} || rule.delay_min > rule.delay_max))
    return Error{"a delay needs a time above 0, or a shortest and a longest one"};
  if (rule.kind == FaultKind::kRate && (rule.cells_per_second == 0) == (rule.bits_per_second == 0))
    return Error{"a rate needs a number of cells, or of bits, per second above 0"};
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
  fault.began = now;
  fault.random = SeededRandom(rule.seed);
  rules_.push_back(std::move(fault));
  update();
  show(rules_.size() - 1, rules_.size());
  return rules_.back().id;
}

bool LiveFaults::publish(StatsPage& page) {
  shown_ = std::make_unique<std::array<CounterSet<FaultGauge>, kFaultRulesMax>>();
  bool room = true;
  for (size_t i = 0; i < shown_->size(); ++i)
    room = room && page.publish(fmt::format("fault.{}", i), (*shown_)[i]);
  show(0, shown_->size());
  return room;
}

void LiveFaults::show(size_t first, size_t last) noexcept {
  if (shown_ == nullptr) return;
  for (size_t i = first; i < last; ++i) {
    const bool there = i < rules_.size();
    CounterSet<FaultGauge>& place = (*shown_)[i];
    place.set(FaultGauge::kNumber, there ? rules_[i].id : 0);
    place.set(FaultGauge::kPort, there ? rules_[i].rule.port : 0);
    place.set(FaultGauge::kGuid, there ? rules_[i].rule.guid.value() : 0);
    place.set(FaultGauge::kStruck, there ? rules_[i].struck : 0);
  }
}

void LiveFaults::joined(PortNumber port, Guid guid, Instant now) noexcept {
  for (size_t i = 0; i < rules_.size(); ++i) {
    LiveFault& fault = rules_[i];
    if (fault.rule.port != kFaultNoPort || fault.rule.guid != guid) continue;
    fault.rule.port = port;
    fault.began = now;
    show(i, i + 1);
  }
}

/// Removes the rules for which `ends` is true. The rules behind them move up on the page. Returns the number
/// removed.
template <typename Ends>
size_t LiveFaults::erase_rules(Ends ends) noexcept {
  const size_t before = rules_.size();
  const auto first = std::find_if(rules_.begin(), rules_.end(), ends);
  const auto from = static_cast<size_t>(first - rules_.begin());
  for (auto rule = first; rule != rules_.end(); ++rule)
    if (ends(*rule)) rates_.end_rule(rule->id);
  const size_t erased = std::erase_if(rules_, ends);
  update();
  show(from, before);
  return erased;
}

void LiveFaults::left(PortNumber port) noexcept {
  erase_rules(
      [port](const LiveFault& fault) { return fault.rule.port == port && fault.rule.guid != Guid{}; });
}

LiveFault* LiveFaults::find(uint32_t id) noexcept {
  const auto found =
      std::find_if(rules_.begin(), rules_.end(), [id](const LiveFault& fault) { return fault.id == id; });
  return found == rules_.end() ? nullptr : &*found;
}

bool LiveFaults::remove(uint32_t id) noexcept {
  return erase_rules([id](const LiveFault& fault) { return fault.id == id; }) != 0;
}

void LiveFaults::clear() noexcept {
  erase_rules([](const LiveFault&) { return true; });
}

bool LiveFaults::matches(const FaultRule& rule, PortNumber in, PortNumber out, VirtualLane vl,
                         uint8_t opcode) noexcept {
  const bool every = rule.port == kFaultEveryPort;
  const bool from = (every || in == rule.port) && rule.direction != FaultDirection::kTo;
  const bool to = (every || out == rule.port) && rule.direction != FaultDirection::kFrom;
  return (from || to) && (rule.lanes >> vl.value() & 1) != 0 && (rule.opcode == 0 || rule.opcode == opcode);
}

/// True when the rule strikes this cell, which matches it.
bool LiveFaults::strikes(LiveFault& fault, Instant now) noexcept {
  const FaultRule& rule = fault.rule;
  if (rule.lasts != Duration{} && now - fault.began >= rule.lasts) return false;
  if (rule.limit != 0 && fault.struck >= rule.limit) return false;
  ++fault.matched;
  if (rule.kind == FaultKind::kFlap && (now - fault.began) % (rule.up + rule.down) < rule.up) return false;
  if (fault.matched % rule.every != 0) return false;
  return rule.chance_ppm == kFaultAlways || fault.random.chance_ppm(rule.chance_ppm);
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
      return FaultVerdict::kPace;
    case FaultKind::kDrop:
    case FaultKind::kCut:
    case FaultKind::kFlap:
    case FaultKind::kFailDma:  // check() lets none in
      break;
  }
  return FaultVerdict::kDrop;
}

FaultVerdict LiveFaults::judge(PortNumber in, PortNumber out, VirtualLane vl, const CellHead& head,
                               Instant now) noexcept {
  FaultVerdict verdict = FaultVerdict::kPass;
  verdict_id_ = 0;
  for (LiveFault& fault : rules_) {
    if (!matches(fault.rule, in, out, vl, head.opcode()) || !strikes(fault, now)) continue;
    ++fault.struck;
    if (shown_ != nullptr)
      (*shown_)[static_cast<size_t>(&fault - rules_.data())].set(FaultGauge::kStruck, fault.struck);
    verdict_id_ = fault.id;
    verdict_kind_ = fault.rule.kind;
    verdict = apply(fault, now);
    break;
  }
  const bool passes =
      verdict != FaultVerdict::kDrop && verdict != FaultVerdict::kHold && verdict != FaultVerdict::kPace;
  if (passes && to_overtake_ != 0) [[unlikely]]
    let_pass(out, now);
  return verdict;
}

/// A cell passes: held cells that wait to be overtaken may follow it now.
void LiveFaults::let_pass(PortNumber out, Instant now) noexcept {
  bool moved = false;
  for (const auto* const list : {&order_, &half_}) {
    for (const uint32_t index : *list) {
      HeldCell& held = pool_[index];
      if (held.overtaken || held.output != out) continue;
      held.overtaken = moved = true;
      held.due = now;
      --to_overtake_;
    }
  }
  if (moved) {
    next_try_ = std::min(next_try_, now);
    std::stable_sort(order_.begin(), order_.end(),
                     [this](uint32_t a, uint32_t b) { return pool_[a].due < pool_[b].due; });
  }
}

std::string LiveFaults::verdict_words() const {
  if (verdict_id_ == 0) return {};
  return fmt::format("fault {} ({})", verdict_id_, to_string(verdict_kind_));
}

HeldCell* LiveFaults::begin_hold(PortNumber in, PortNumber out, VirtualLane vl) {
  if (held_count_ == kFaultHeldMax) return nullptr;
  if (pool_.empty()) {
    pool_.resize(kFaultHeldMax);  // allocated at once, so that cells never move
    for (uint32_t i = 0; i < kFaultHeldMax; ++i)
      free_.push_back(static_cast<uint32_t>(kFaultHeldMax) - 1 - i);
  }
  const uint32_t index = free_.back();
  free_.pop_back();
  HeldCell& cell = pool_[index];
  cell.input = in;
  cell.output = out;
  cell.vl = vl;
  cell.copy = verdict_copy_;
  cell.overtaken = verdict_overtaken_;
  cell.due = verdict_due_;
  cell.latest = verdict_due_;
  cell.bytes.clear();
  cell.flits.clear();
  ++held_count_;
  if (!cell.overtaken) ++to_overtake_;
  half_.push_back(index);
  update();
  return &cell;
}

HeldCell* LiveFaults::begin_pace(PortNumber in, PortNumber out, VirtualLane vl) {
  const uint32_t rule = verdict_id_ != 0 ? verdict_id_ : rates_.rule_of(in, out, vl);
  if (rule == 0) return nullptr;
  HeldCell* const cell = rates_.begin(rule, in, out, vl);
  cell->takes_time = verdict_id_ != 0;
  update();
  return cell;
}

/// Puts the cell behind those that are due at the same time.
void LiveFaults::queue(uint32_t index) {
  const auto behind =
      std::upper_bound(order_.begin(), order_.end(), pool_[index].due,
                       [this](Instant due, uint32_t other) { return due < pool_[other].due; });
  order_.insert(behind, index);
  next_try_ = std::min(next_try_, pool_[index].due);
}

/// Copies the flit as the switch would send it: with the checked header and the verified CRC.
bool LiveFaults::add_flit(HeldCell& cell, const RxFlit& flit, const CellHead* head, bool whole, Instant now) {
  const size_t at = cell.bytes.size();
  cell.bytes.insert(cell.bytes.end(), flit.payload.begin(), flit.payload.end());
  if (head != nullptr) head->store(cell.bytes.data() + at);
  if (whole) store_be(cell.bytes.data() + cell.bytes.size() - kCrcBytes, flit.cell_crc);
  cell.flits.push_back({static_cast<uint32_t>(flit.payload.size()), flit.cell_crc, flit.poison});
  if (!flit.tail) return false;
  if (cell.paced_by != 0) {
    const LiveFault* const rate = find(cell.paced_by);
    return rates_.push(cell, rate == nullptr ? nullptr : &rate->rule, now);
  }
  cell.due = std::max(cell.due, now);
  const auto index = static_cast<uint32_t>(&cell - pool_.data());
  std::erase(half_, index);
  queue(index);
  return false;
}

void LiveFaults::end_hold(uint32_t index) noexcept {
  --held_count_;
  if (!pool_[index].overtaken) --to_overtake_;
  free_.push_back(index);
  update();
}

void LiveFaults::abandon(const HeldCell& cell) noexcept {
  if (cell.paced_by != 0) {
    rates_.abandon(cell);
    return update();
  }
  const auto index = static_cast<uint32_t>(&cell - pool_.data());
  std::erase(half_, index);
  end_hold(index);
}

Instant LiveFaults::deadline() const noexcept {
  return std::min(order_.empty() ? kNever : next_try_, rates_.deadline());
}

}  // namespace weft::fabric
