// fabric/switch/live_faults.h -- faults on demand in a running switch. Rules set with `weft fault` decide
// about each cell that enters, after it was admitted and before it is forwarded. docs/faults.md.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/counters.h"
#include "base/result.h"
#include "base/rng.h"
#include "fabric/link/link.h"
#include "fabric/switch/forwarding_table.h"
#include "fabric/switch/held_cell.h"
#include "fabric/switch/rate_queues.h"
#include "messages/cell.h"
#include "messages/fault_rule.h"
#include "messages/ids.h"

namespace weft {
class StatsPage;
}  // namespace weft

namespace weft::fabric {

static_assert(kPortNone == kFaultNoPort);
inline constexpr size_t kFaultRulesMax = 64;
/// Cells that all rules together may hold at a time, but for rates. A further cell is lost and counted.
inline constexpr size_t kFaultHeldMax = 4096;
/// A reordered cell leaves after this time even if no other cell overtakes it.
inline constexpr Duration kFaultReorderMax = 1ms;

/// A rule on a stats page; kNumber 0: no rule.
enum class FaultGauge : uint8_t { kNumber, kPort, kGuid, kStruck, kCount };
[[nodiscard]] constexpr CounterNames<FaultGauge> counter_labels(FaultGauge /*of*/) noexcept {
  return {"number", "port", "guid", "struck"};
}

/// A rule in force and its counts.
struct LiveFault {
  uint32_t id = 0;
  FaultRule rule;
  Instant began{};
  uint64_t matched = 0;
  uint64_t struck = 0;
  SeededRandom random{1};
};

/// The decision about a cell.
enum class FaultVerdict : uint8_t { kPass, kDrop, kCorrupt, kDuplicate, kHold, kPace };

/// The rules of one switch and the cells they hold. Owner: the switch's thread. Without rules judge() is not
/// called. May allocate: faults are for tests, and measurements are made without them.
class LiveFaults {
 public:
  /// Checks a rule. The error says what is wrong with it.
  static Status check(const FaultRule& rule);

  /// @return the rule's number, from 1. Fails when check() fails or kFaultRulesMax rules are in force.
  Result<uint32_t> add(const FaultRule& rule, Instant now);
  /// Shows the rules on a page from now on, as `fault.N.*`, so that rules that strike are seen without a
  /// request to the switch. False when the page is full. The page must outlive this object.
  bool publish(StatsPage& page);
  /// The link of a port is up: rules that wait for its endnode begin.
  void joined(PortNumber port, Guid guid, Instant now) noexcept;
  /// The link of a port has gone: rules for its endnode end.
  void left(PortNumber port) noexcept;
  /// Removes a rule. False when there is no rule with this number.
  bool remove(uint32_t id) noexcept;
  void clear() noexcept;
  [[nodiscard]] std::span<const LiveFault> rules() const noexcept { return rules_; }
  /// True when rules are in force or cells are held.
  [[nodiscard]] bool active() const noexcept { return active_; }
  /// True when cells are held, or credits are kept back for a rate.
  [[nodiscard]] bool busy() const noexcept { return busy_; }

  /// Decides about a cell from port `in` to port `out`: the first rule that strikes decides. After kHold and
  /// kDuplicate the caller calls begin_hold(), after kPace begin_pace().
  [[nodiscard]] FaultVerdict judge(PortNumber in, PortNumber out, VirtualLane vl, const CellHead& head,
                                   Instant now) noexcept;

  /// The rule that struck the cell judged last, as text: "fault 3 (drop)". Empty after kPass.
  [[nodiscard]] std::string verdict_words() const;

  /// A place for the cell judged last; null when all places are taken. add_flit() and abandon() take it.
  HeldCell* begin_hold(PortNumber in, PortNumber out, VirtualLane vl);
  /// A place in the queue of the rate that struck the cell judged last. After kPass: behind the cells from
  /// `in` to `out` on this lane that wait for a rate; null when none do.
  HeldCell* begin_pace(PortNumber in, PortNumber out, VirtualLane vl);
  /// Adds a flit. The cell is queued with its last flit, so a cell that never completes delays no other.
  /// @param whole each flit of the links is a whole cell, and `flit` has the CRC that was verified
  /// @return true if the cell is whole now and has to wait for a rate.
  bool add_flit(HeldCell& cell, const RxFlit& flit, const CellHead* head, bool whole, Instant now);
  /// Passes due whole cells to `send`, oldest first; `send` returns whether it could send the cell. A cell
  /// that could not be sent delays those of the same output and lane behind it, and is tried again
  /// kFaultRetry later. @return cells sent.
  template <typename Send>
  int release(Instant now, Send&& send);
  /// Drops a cell whose rest will not come.
  void abandon(const HeldCell& cell) noexcept;
  /// Drops the whole cells that are held for a port whose link has gone. Calls `note` for each.
  template <typename Note>
  void forget(PortNumber port, Note&& note);
  [[nodiscard]] uint32_t held() const noexcept { return held_count_ + rates_.held(); }
  /// The cells that wait for rates. After changes the caller calls rates_changed().
  [[nodiscard]] RateQueues& rates() noexcept { return rates_; }
  void rates_changed() noexcept { update(); }
  /// When the next held cell is due or is tried again; kNever without held cells.
  [[nodiscard]] Instant deadline() const noexcept;

 private:
  /// Often the output wakes the switch before this time.
  static constexpr Duration kFaultRetry = std::chrono::milliseconds(1);

  [[nodiscard]] static bool matches(const FaultRule& rule, PortNumber in, PortNumber out, VirtualLane vl,
                                    uint8_t opcode) noexcept;
  [[nodiscard]] bool strikes(LiveFault& fault, Instant now) noexcept;
  [[nodiscard]] FaultVerdict apply(LiveFault& fault, Instant now) noexcept;
  [[nodiscard]] LiveFault* find(uint32_t id) noexcept;
  void let_pass(PortNumber out, Instant now) noexcept;
  template <typename Ends>
  size_t erase_rules(Ends ends) noexcept;
  /// Writes the places of rules first..last - 1 to the page.
  void show(size_t first, size_t last) noexcept;
  void queue(uint32_t index);
  void end_hold(uint32_t index) noexcept;
  void update() noexcept {
    busy_ = held_count_ != 0 || !rates_.idle();
    active_ = busy_ || !rules_.empty();
  }

  std::vector<LiveFault> rules_;
  std::unique_ptr<std::array<CounterSet<FaultGauge>, kFaultRulesMax>> shown_;  // in the order of rules_
  std::vector<HeldCell> pool_;
  std::vector<uint32_t> free_;
  std::vector<uint32_t> order_;  // whole held cells, by due time, then by arrival
  std::vector<uint32_t> half_;   // held cells that lack flits
  uint32_t held_count_ = 0;
  uint32_t to_overtake_ = 0;  // held cells that wait to be overtaken
  bool active_ = false;
  bool busy_ = false;
  uint32_t next_id_ = 1;
  Instant next_try_ = kNever;  // no whole cell that could be sent is due before
  Instant verdict_due_{};      // of the cell judged last
  bool verdict_overtaken_ = true;
  bool verdict_copy_ = false;
  uint32_t verdict_id_ = 0;  // of the rule; 0: no rule struck
  FaultKind verdict_kind_ = FaultKind::kDrop;
  RateQueues rates_;
};

template <typename Send>
int LiveFaults::release(Instant now, Send&& send) {
  int sent = 0;
  next_try_ = kNever;
  std::vector<bool> blocked;  // by output and lane
  for (size_t i = 0; i < order_.size();) {
    HeldCell& cell = pool_[order_[i]];
    if (cell.due > now) {
      next_try_ = std::min(next_try_, cell.due);
      break;
    }
    const size_t way = size_t{cell.output} * kVlCount + cell.vl.value();
    const bool waits = way < blocked.size() && blocked[way];
    if (!waits && send(cell)) {
      end_hold(order_[i]);
      order_.erase(order_.begin() + static_cast<std::ptrdiff_t>(i));
      ++sent;
      continue;
    }
    if (blocked.size() <= way) blocked.resize(way + 1);
    blocked[way] = true;
    next_try_ = now + kFaultRetry;
    ++i;
  }
  return sent;
}

template <typename Note>
void LiveFaults::forget(PortNumber port, Note&& note) {
  std::erase_if(order_, [&](uint32_t index) {
    const HeldCell& cell = pool_[index];
    if (cell.output != port) return false;
    note(cell);
    end_hold(index);
    return true;
  });
}

}  // namespace weft::fabric
