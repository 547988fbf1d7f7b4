// fabric/switch/live_faults.h -- faults on demand in a running switch: rules that people set with
// `weft fault` decide about each cell that enters, after it was admitted and before it is on its way.
// docs/faults.md.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/rng.h"
#include "fabric/link/link.h"
#include "fabric/switch/forwarding_table.h"
#include "messages/cell.h"

namespace weft::fabric {

inline constexpr size_t kFaultRulesMax = 64;
/// Cells that are held back at a time, all rules together; a cell beyond it is lost and counted.
inline constexpr size_t kFaultHeldMax = 1024;
/// A cell that others are to overtake leaves after this even if none comes.
inline constexpr Duration kFaultReorderMax = 1ms;

enum class FaultKind : uint8_t {
  kDrop,
  kCorrupt,    // arrives as a cell whose CRC is wrong: the endnode drops it
  kDuplicate,  // arrives twice
  kReorder,    // arrives behind the next cell for the same port
  kDelay,      // arrives delay_min..delay_max later
  kRate,       // at most cells_per_second pass; the others wait
  kCut,        // nothing passes
  kFlap,       // cells pass for `up`, nothing passes for `down`, again and again
  kCount,
};
[[nodiscard]] std::string_view to_string(FaultKind kind) noexcept;
[[nodiscard]] std::optional<FaultKind> fault_kind(std::string_view word) noexcept;

enum class FaultDirection : uint8_t {
  kBoth,
  kFrom,
  kTo,
  kCount
};  // from the neighbour of the port, or to it
[[nodiscard]] std::string_view to_string(FaultDirection direction) noexcept;
[[nodiscard]] std::optional<FaultDirection> fault_direction(std::string_view word) noexcept;

/// One rule. A cell matches it by port, direction, lane and operation; of those that match, every `every`-th
/// is struck with `chance_ppm`, until it has struck `limit` times or `lasts` is over.
struct FaultRule {
  FaultKind kind = FaultKind::kDrop;
  PortNumber port = 0;
  FaultDirection direction = FaultDirection::kBoth;
  uint32_t lanes = UINT32_MAX;  // as bits
  uint8_t opcode = 0;           // on the wire; 0: any
  uint32_t chance_ppm = 1'000'000;
  uint32_t every = 1;
  uint64_t limit = 0;             // 0: none
  Duration lasts{};               // 0: until it is cleared
  Duration delay_min{};           // kDelay
  Duration delay_max{};           // kDelay
  uint32_t cells_per_second = 0;  // kRate
  Duration up{};                  // kFlap
  Duration down{};                // kFlap
  uint64_t seed = 1;  // of the rule's own random numbers: the same seed and cells, the same strikes
};

/// A rule that is in force, and what it has done.
struct LiveFault {
  uint32_t id = 0;
  FaultRule rule;
  Instant began{};
  uint64_t matched = 0;
  uint64_t struck = 0;
  SeededRandom random{1};
  Instant next_pass{};  // kRate: when the next cell may go
};

/// What is to become of a cell.
enum class FaultVerdict : uint8_t { kPass, kDrop, kCorrupt, kDuplicate, kHold };

/// A cell that was taken off its way, with everything that is needed to put it back.
struct HeldCell {
  PortNumber input = kPortNone;
  PortNumber output = kPortNone;
  VirtualLane vl{};
  bool whole = false;     // its tail has come
  bool copy = false;      // of a cell that went on: counted as one more that came in
  bool overtaken = true;  // false: waits for another cell for the same output
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

/// The rules of one switch and the cells they hold. Owner: the switch's thread. Without rules nobody calls
/// judge(). May allocate: faults are for tests, and a test that wants figures sets none.
class LiveFaults {
 public:
  /// Says what is wrong with a rule.
  static Status check(const FaultRule& rule);

  /// @return its number, from 1; fails when check() does or there are kFaultRulesMax.
  Result<uint32_t> add(const FaultRule& rule, Instant now);
  /// False when there is no rule of this number.
  bool remove(uint32_t id) noexcept;
  void clear() noexcept {
    active_ -= static_cast<uint32_t>(rules_.size());
    rules_.clear();
  }
  [[nodiscard]] std::span<const LiveFault> rules() const noexcept { return rules_; }
  /// Rules are in force or cells are held.
  [[nodiscard]] bool active() const noexcept { return active_ != 0; }

  /// Decides about a cell from port `in` to port `out`; the first rule that strikes does. After kHold and
  /// kDuplicate the caller calls begin_hold().
  [[nodiscard]] FaultVerdict judge(PortNumber in, PortNumber out, VirtualLane vl, const CellHead& head,
                                   Instant now) noexcept;

  /// A place for the cell that was judged last; null when all are taken.
  HeldCell* begin_hold(PortNumber in, PortNumber out, VirtualLane vl);
  static void add_flit(HeldCell& cell, const RxFlit& flit, const CellHead* head);
  /// Whole cells that are due, oldest first; `send` says whether it could go. A cell that could not go holds
  /// up those of the same output and lane behind it.
  template <typename Send>
  int release(Instant now, Send&& send);
  /// Forgets a cell whose rest will not come.
  void abandon(const HeldCell& cell) noexcept;
  /// Forgets the whole cells that are held for a port whose link has gone; `note` sees each.
  template <typename Note>
  void forget(PortNumber port, Note&& note);
  [[nodiscard]] uint32_t held() const noexcept { return held_count_; }
  /// When the next held cell is due; kNever without.
  [[nodiscard]] Instant deadline() const noexcept;

 private:
  [[nodiscard]] static bool matches(const FaultRule& rule, PortNumber in, PortNumber out, VirtualLane vl,
                                    uint8_t opcode) noexcept;
  [[nodiscard]] bool strikes(LiveFault& fault, Instant now) noexcept;
  [[nodiscard]] FaultVerdict apply(LiveFault& fault, Instant now) noexcept;
  void end_hold(uint32_t index) noexcept;

  std::vector<LiveFault> rules_;
  std::vector<HeldCell> pool_;
  std::vector<uint32_t> free_;
  std::vector<uint32_t> order_;  // held cells, by when they are due, then as they came
  uint32_t held_count_ = 0;
  uint32_t to_overtake_ = 0;  // held cells that the next one to their output passes
  uint32_t active_ = 0;       // rules and held cells
  uint32_t next_id_ = 1;
  Instant verdict_due_{};  // of the cell that was judged last
  bool verdict_overtaken_ = true;
  bool verdict_copy_ = false;
};

template <typename Send>
int LiveFaults::release(Instant now, Send&& send) {
  int sent = 0;
  std::vector<bool> blocked;  // by output and lane
  for (size_t i = 0; i < order_.size();) {
    HeldCell& cell = pool_[order_[i]];
    if (cell.due > now) break;
    const size_t way = size_t{cell.output} * kVlCount + cell.vl.value();
    const bool waits = way < blocked.size() && blocked[way];
    if (cell.whole && !waits && send(cell)) {
      end_hold(order_[i]);
      order_.erase(order_.begin() + static_cast<std::ptrdiff_t>(i));
      ++sent;
      continue;
    }
    if (blocked.size() <= way) blocked.resize(way + 1);
    blocked[way] = true;
    ++i;
  }
  return sent;
}

template <typename Note>
void LiveFaults::forget(PortNumber port, Note&& note) {
  std::erase_if(order_, [&](uint32_t index) {
    const HeldCell& cell = pool_[index];
    if (!cell.whole || cell.output != port) return false;
    note(cell);
    end_hold(index);
    return true;
  });
}

}  // namespace weft::fabric
