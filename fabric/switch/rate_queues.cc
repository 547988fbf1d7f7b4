// How it works: a cell waits in front of each direction of a link that its rule limits: first that of the
// link by which it came, then that of the link by which it leaves. In front of a direction there is a queue
// for each lane and input. The arbiter of the lanes chooses the lane, as at a sender, and the inputs take
// turns. A direction that is late makes up for it, so the rate does not depend on how often it is polled.
#include "fabric/switch/rate_queues.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace weft::fabric {
namespace {

constexpr size_t kSpareCellsMax = 1024;
constexpr Duration kLookInterval = std::chrono::milliseconds(5);

constexpr uint32_t queue_key(VirtualLane vl, PortNumber input) noexcept {
  return uint32_t{vl.value()} << 16 | input;
}

constexpr uint64_t flow_key(PortNumber in, PortNumber out, VirtualLane vl) noexcept {
  return uint64_t{in} << 32 | uint64_t{out} << 16 | vl.value();
}

/// Transmission time of a cell at the rate.
Duration time_at_rate(const FaultRule& rule, uint64_t bytes) noexcept {
  const double seconds = rule.cells_per_second != 0
                             ? 1.0 / rule.cells_per_second
                             : static_cast<double>(bytes * 8) / static_cast<double>(rule.bits_per_second);
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

}  // namespace

HeldCell* RateQueues::begin(uint32_t rule, PortNumber in, PortNumber out, VirtualLane vl) {
  if (spare_.empty()) spare_.push_back(std::make_unique<HeldCell>());
  half_.push_back(std::move(spare_.back()));
  spare_.pop_back();
  HeldCell& cell = *half_.back();
  cell.input = in;
  cell.output = out;
  cell.vl = vl;
  cell.paced_by = rule;
  cell.takes_time = true;
  cell.takes = {};
  cell.bytes.clear();
  cell.flits.clear();
  ++held_;
  return &cell;
}

bool RateQueues::push(HeldCell& cell, const FaultRule* rule, Instant now) {
  const auto place =
      std::find_if(half_.begin(), half_.end(), [&cell](const auto& half) { return half.get() == &cell; });
  std::unique_ptr<HeldCell> whole = std::move(*place);
  half_.erase(place);
  Flow& flow = flows_[flow_key(cell.input, cell.output, cell.vl)];
  ++flow.cells;
  flow.rule = cell.paced_by;
  InputLane& lane = lanes_[queue_key(cell.vl, cell.input)];
  ++lane.waiting;
  lane.incarnation = cell.incarnation;
  if (rule == nullptr) {
    freed_.push_back(std::move(whole));
    return false;
  }
  if (cell.takes_time) cell.takes = time_at_rate(*rule, cell.bytes.size());
  const bool every = rule->port == kFaultEveryPort;
  const auto way_of = [&](bool to, PortNumber port) {
    const auto [found, made] = ways_.try_emplace({to, cell.paced_by, port});
    if (made) found->second.arbiter = arbiter_;
    return &found->second;
  };
  Way* from = nullptr;
  if ((every || cell.input == rule->port) && rule->direction != FaultDirection::kTo)
    from = way_of(false, cell.input);
  Way* to = nullptr;
  if ((every || cell.output == rule->port) && rule->direction != FaultDirection::kFrom)
    to = way_of(true, cell.output);
  const auto busy = [now](const Way* way) { return way != nullptr && (way->lanes != 0 || way->next > now); };
  const bool waits = busy(from) || busy(to);
  if (Way* const first = from != nullptr ? from : to; first != nullptr) {
    add(*first, std::move(whole), now);
  } else {
    freed_.push_back(std::move(whole));
  }
  return waits;
}

void RateQueues::add(Way& way, std::unique_ptr<HeldCell> cell, Instant now) {
  if (way.lanes == 0) way.next = std::max(way.next, now);  // a link at rest saves up no time
  way.lanes |= lane_bit(cell->vl);
  Queue& queue = way.queues[queue_key(cell->vl, cell->input)];
  if (queue.cells.empty()) queue.moved_at = now;
  queue.cells.push_back(std::move(cell));
}

/// The inputs of the lane take turns.
std::unique_ptr<HeldCell> RateQueues::pop(Way& way, VirtualLane vl) {
  const auto end = way.queues.lower_bound(queue_key(vl, 0) + (1U << 16));
  auto next = way.queues.upper_bound(queue_key(vl, way.last[vl.value()]));
  if (next == end) next = way.queues.lower_bound(queue_key(vl, 0));
  Queue& queue = next->second;
  std::unique_ptr<HeldCell> cell = std::move(queue.cells.front());
  queue.cells.pop_front();
  queue.moved_at = way.next;
  way.last[vl.value()] = cell->input;
  if (queue.cells.empty()) way.queues.erase(next);
  const auto first = way.queues.lower_bound(queue_key(vl, 0));
  if (first == way.queues.end() || first->first >> 16 != vl.value()) way.lanes &= ~lane_bit(vl);
  return cell;
}

/// Lets one cell go on from this direction.
void RateQueues::pass(const WayKey& key, Way& way, Cells& due) {
  const VlArbiter::Choice choice = way.arbiter.choose(way.lanes);
  std::unique_ptr<HeldCell> cell = pop(way, choice.vl);
  const Instant turn = way.next;
  way.next += cell->takes;
  way.arbiter.charge(static_cast<uint32_t>(cell->bytes.size()));
  const auto to = key.to ? ways_.end() : ways_.find({true, key.rule, cell->output});
  if (to != ways_.end()) return add(to->second, std::move(cell), turn);
  leave(*cell, turn);
  due.push_back(std::move(cell));
}

RateQueues::Cells RateQueues::take_due(Instant now) {
  now_ = now;
  Cells due = std::exchange(freed_, {});
  for (const auto& cell : due) leave(*cell, now);
  for (auto& [key, way] : ways_)
    while (way.lanes != 0 && way.next <= now) pass(key, way, due);
  return due;
}

void RateQueues::drop_empty(Way& way) {
  std::erase_if(way.queues, [](const auto& at) { return at.second.cells.empty(); });
  way.lanes = 0;
  for (const auto& [key, queue] : way.queues) way.lanes |= 1U << (key >> 16);
}

RateQueues::Cells RateQueues::take_overdue(Instant now) {
  Cells out;
  if (now < next_look_) return out;
  next_look_ = now + kLookInterval;
  for (auto& [key, way] : ways_) {
    for (auto& [at, queue] : way.queues) {
      if (now - queue.moved_at < kHeadOfQueueLifetime) continue;
      std::move(queue.cells.begin(), queue.cells.end(), std::back_inserter(out));
      queue.cells.clear();
    }
    drop_empty(way);
  }
  for (const auto& cell : out) leave(*cell, now);
  return out;
}

template <class Match>
RateQueues::Cells RateQueues::take_if(Match match) {
  Cells out;
  const auto take = [&](auto& cells) {
    const auto rest =
        std::stable_partition(cells.begin(), cells.end(), [&](const auto& cell) { return !match(*cell); });
    std::move(rest, cells.end(), std::back_inserter(out));
    cells.erase(rest, cells.end());
  };
  take(freed_);
  for (auto& [key, way] : ways_) {
    for (auto& [at, queue] : way.queues) take(queue.cells);
    drop_empty(way);
  }
  for (const auto& cell : out) leave(*cell, now_);
  return out;
}

RateQueues::Cells RateQueues::take_from(PortNumber input) {
  return take_if([input](const HeldCell& cell) { return cell.input == input; });
}

RateQueues::Cells RateQueues::take_to(PortNumber output) {
  return take_if([output](const HeldCell& cell) { return cell.output == output; });
}

void RateQueues::leave(const HeldCell& cell, Instant now) {
  --held_;
  const auto flow = flows_.find(flow_key(cell.input, cell.output, cell.vl));
  if (--flow->second.cells == 0) flows_.erase(flow);
  const auto lane = lanes_.find(queue_key(cell.vl, cell.input));
  lane->second.rests_since = now;
  --lane->second.waiting;
}

void RateQueues::reuse(Cells&& cells) {
  for (auto& cell : cells)
    if (spare_.size() < kSpareCellsMax) spare_.push_back(std::move(cell));
  std::erase_if(lanes_, [](const auto& at) { return at.second.waiting == 0 && at.second.kept_back == 0; });
}

void RateQueues::abandon(const HeldCell& cell) noexcept {
  std::erase_if(half_, [&cell](const auto& half) { return half.get() == &cell; });
  --held_;
}

/// What waits for the link by which it leaves came before what waits for the link by which it came.
void RateQueues::end_rule(uint32_t rule) {
  for (const bool to : {true, false}) {
    const auto first = ways_.lower_bound({to, rule, 0});
    const auto last = ways_.lower_bound({to, rule + 1, 0});
    for (auto way = first; way != last; ++way)
      for (auto& [key, queue] : way->second.queues)
        for (auto& cell : queue.cells) freed_.push_back(std::move(cell));
    ways_.erase(first, last);
  }
  for (auto& [key, lane] : lanes_) lane.rests_since = Instant::min();
}

// ---- credits

uint32_t RateQueues::credits_for(const HeldCell& cell, uint32_t flits, uint32_t capacity) {
  if (!cell.takes_time || cell.takes == Duration{}) return flits;
  InputLane& lane = lanes_[queue_key(cell.vl, cell.input)];
  lane.incarnation = cell.incarnation;
  lane.rests_since = now_;
  lane.cell_time =
      lane.cell_time == Duration{} ? cell.takes : lane.cell_time + (cell.takes - lane.cell_time) / 8;
  const auto cells = static_cast<uint64_t>(kRateQueueTime / std::max(lane.cell_time, Duration(1)));
  const uint64_t wanted = std::max<uint64_t>(cells, 2) * cell.flits.size();
  const auto allowed = static_cast<uint32_t>(std::min<uint64_t>(wanted, capacity));
  const uint32_t sender_has = capacity - lane.kept_back;
  if (sender_has > allowed) {
    const uint32_t kept = std::min(flits, sender_has - allowed);
    lane.kept_back += kept;
    return flits - kept;
  }
  const uint32_t more = std::min(lane.kept_back, allowed - sender_has);
  lane.kept_back -= more;
  return flits + more;
}

std::vector<RateQueues::Credits> RateQueues::take_spare_credits(Instant now) {
  std::vector<Credits> out;
  for (auto& [key, lane] : lanes_) {
    const bool rests =
        lane.waiting == 0 && (lane.rests_since == Instant::min() || now - lane.rests_since >= kRateRest);
    if (!rests || lane.kept_back == 0) continue;
    out.push_back({static_cast<PortNumber>(key & 0xFFFF), VirtualLane(static_cast<uint8_t>(key >> 16)),
                   lane.incarnation, std::exchange(lane.kept_back, 0)});
  }
  return out;
}

void RateQueues::forget_credits(PortNumber input) {
  for (auto& [key, lane] : lanes_)
    if ((key & 0xFFFF) == input) lane.kept_back = 0;
}

// ---- what waits

uint32_t RateQueues::rule_of(PortNumber in, PortNumber out, VirtualLane vl) const {
  const auto flow = flows_.find(flow_key(in, out, vl));
  return flow == flows_.end() ? 0 : flow->second.rule;
}

uint32_t RateQueues::waiting(PortNumber input, VirtualLane vl) const {
  const auto lane = lanes_.find(queue_key(vl, input));
  return lane == lanes_.end() ? 0 : lane->second.waiting;
}

Instant RateQueues::deadline() const noexcept {
  if (!freed_.empty()) return Instant::min();
  Instant out = kNever;
  for (const auto& [key, way] : ways_) {
    if (way.lanes == 0) continue;
    out = std::min(out, way.next);
    for (const auto& [at, queue] : way.queues)
      out = std::min(out, std::max(queue.moved_at + kHeadOfQueueLifetime, next_look_));
  }
  for (const auto& [key, lane] : lanes_) {
    if (lane.waiting != 0 || lane.kept_back == 0) continue;
    out = std::min(out, lane.rests_since == Instant::min() ? lane.rests_since : lane.rests_since + kRateRest);
  }
  return out;
}

}  // namespace weft::fabric
