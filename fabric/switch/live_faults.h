// fabric/switch/live_faults.h -- faults on demand in a running switch: rules that people set with
// `weft fault` decide about each cell that enters, after it was admitted and before it is on its way.
// docs/faults.md.
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
#include "messages/cell.h"
#include "messages/fault_rule.h"
#include "messages/ids.h"

namespace weft {
class StatsPage;
}  // namespace weft

namespace weft::fabric {

static_assert(kPortNone == kFaultNoPort);
inline constexpr size_t kFaultRulesMax = 64;
/// Cells that are held back at a time, all rules together; a cell beyond it is lost and counted.
inline constexpr size_t kFaultHeldMax = 4096;
/// A cell that would wait longer than this for its turn at a rate is lost: the queue in front of a slow link
/// is short in time, so that round trips stay below the timeouts of common programs (67 ms and more).
inline constexpr Duration kFaultRateWaitMax = std::chrono::milliseconds(20);
/// A cell that others are to overtake leaves after this even if none comes.
inline constexpr Duration kFaultReorderMax = 1ms;

/// A rule on a page; kNumber 0: there is none.
enum class FaultGauge : uint8_t { kNumber, kPort, kGuid, kStruck, kCount };
[[nodiscard]] constexpr CounterNames<FaultGauge> counter_labels(FaultGauge /*of*/) noexcept {
  return {"number", "port", "guid", "struck"};
}

/// A rule that is in force, and what it has done.
struct LiveFault {
  uint32_t id = 0;
  FaultRule rule;
  Instant began{};
  uint64_t matched = 0;
  uint64_t struck = 0;
  SeededRandom random{1};
  std::vector<Instant> next_pass;  // kRate: when the next cell may go; two of each port, from it and to it
};

/// What is to become of a cell.
enum class FaultVerdict : uint8_t { kPass, kDrop, kCorrupt, kDuplicate, kHold };

/// A cell that was taken off its way, with everything that is needed to put it back.
struct HeldCell {
  PortNumber input = kPortNone;
  PortNumber output = kPortNone;
  VirtualLane vl{};
  bool copy = false;      // of a cell that went on: counted as one more that came in
  bool overtaken = true;  // false: waits for another cell for the same output
  uint32_t paced_by = 0;  // rule of kRate that says when it is due, once it is whole
  Instant due{};
  Instant latest{};              // until then it may wait for what is in front of it on its lane
  std::vector<std::byte> bytes;  // flit payloads, one behind the other
  struct Flit {
    uint32_t bytes = 0;
    uint32_t cell_crc = 0;
    bool poison = false;
  };
  std::vector<Flit> flits;
};

/// The rules of one switch and the cells they hold. Owner: the switch's thread. Without rules judge() is
/// not called. May allocate: faults are for tests, and a test that wants figures sets none.
class LiveFaults {
 public:
  /// Says what is wrong with a rule.
  static Status check(const FaultRule& rule);

  /// @return its number, from 1; fails when check() does or there are kFaultRulesMax.
  Result<uint32_t> add(const FaultRule& rule, Instant now);
  /// Shows the rules on a page from now on, as `fault.N.*`: what strikes must be seen without asking. False
  /// when it is full. The page outlives this.
  bool publish(StatsPage& page);
  /// The link of a port is up: rules that wait for its endnode begin.
  void joined(PortNumber port, Guid guid, Instant now) noexcept;
  /// The link of a port has gone: rules for the endnode that was there end.
  void left(PortNumber port) noexcept;
  /// False when there is no rule of this number.
  bool remove(uint32_t id) noexcept;
  void clear() noexcept;
  [[nodiscard]] std::span<const LiveFault> rules() const noexcept { return rules_; }
  /// Rules are in force or cells are held.
  [[nodiscard]] bool active() const noexcept { return active_ != 0; }

  /// Decides about a cell from port `in` to port `out`; the first rule that strikes does. After kHold and
  /// kDuplicate the caller calls begin_hold().
  [[nodiscard]] FaultVerdict judge(PortNumber in, PortNumber out, VirtualLane vl, const CellHead& head,
                                   Instant now) noexcept;

  /// The rule that struck the cell that was judged last, for people: "fault 3 (drop)". Empty after kPass.
  [[nodiscard]] std::string verdict_words() const;

  /// A place for the cell that was judged last; null when all are taken.
  HeldCell* begin_hold(PortNumber in, PortNumber out, VirtualLane vl);
  /// One that is never whole holds up nothing: its turn is found with its last flit.
  void add_flit(HeldCell& cell, const RxFlit& flit, const CellHead* head, Instant now);
  /// Whole cells that are due, oldest first; `send` says whether it could go. A cell that could not go holds
  /// up those of the same output and lane behind it, and is tried again kFaultRetry later.
  template <typename Send>
  int release(Instant now, Send&& send);
  /// Forgets a cell whose rest will not come.
  void abandon(const HeldCell& cell) noexcept;
  /// Forgets the whole cells that are held for a port whose link has gone; `note` sees each.
  template <typename Note>
  void forget(PortNumber port, Note&& note);
  [[nodiscard]] uint32_t held() const noexcept { return held_count_; }
  /// When the next held cell is due, or is tried again; kNever without.
  [[nodiscard]] Instant deadline() const noexcept;

 private:
  /// The output that a held cell waits for wakes the switch earlier.
  static constexpr Duration kFaultRetry = std::chrono::milliseconds(1);

  [[nodiscard]] static bool matches(const FaultRule& rule, PortNumber in, PortNumber out, VirtualLane vl,
                                    uint8_t opcode) noexcept;
  [[nodiscard]] bool strikes(LiveFault& fault, Instant now) noexcept;
  [[nodiscard]] FaultVerdict apply(LiveFault& fault, PortNumber in, PortNumber out, Instant now) noexcept;
  [[nodiscard]] LiveFault* find(uint32_t id) noexcept;
  [[nodiscard]] static Instant next_turn(const LiveFault& fault, PortNumber in, PortNumber out) noexcept;
  static void take_turn(LiveFault& fault, HeldCell& cell, Instant now) noexcept;
  void let_pass(PortNumber out, Instant now) noexcept;
  template <typename Ends>
  size_t erase_rules(Ends ends) noexcept;
  /// Writes the places of rules first..last - 1 to the page.
  void show(size_t first, size_t last) noexcept;
  void queue(uint32_t index);
  void end_hold(uint32_t index) noexcept;

  std::vector<LiveFault> rules_;
  std::unique_ptr<std::array<CounterSet<FaultGauge>, kFaultRulesMax>> shown_;  // in the order of rules_
  std::vector<HeldCell> pool_;
  std::vector<uint32_t> free_;
  std::vector<uint32_t> order_;  // held cells that are whole, by when they are due, then as they came
  std::vector<uint32_t> half_;   // held cells of which flits are still to come
  uint32_t held_count_ = 0;
  uint32_t to_overtake_ = 0;  // held cells that the next one to their output passes
  uint32_t active_ = 0;       // rules and held cells
  uint32_t next_id_ = 1;
  Instant next_try_ = kNever;  // no whole cell that could go is due before
  Instant verdict_due_{};      // of the cell that was judged last
  uint32_t verdict_paced_by_ = 0;
  bool verdict_overtaken_ = true;
  bool verdict_copy_ = false;
  uint32_t verdict_id_ = 0;  // of the rule; 0: none struck
  FaultKind verdict_kind_ = FaultKind::kDrop;
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
