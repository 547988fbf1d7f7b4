// fabric/switch/rate_queues.h -- cells that wait for their turn at a rate (`weft fault NODE rate ...`). They
// keep the credits of their flits, so that the sender slows down as in front of a slow link. docs/faults.md.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "fabric/link/limits.h"
#include "fabric/switch/held_cell.h"
#include "fabric/switch/vl_arbiter.h"
#include "messages/fault_rule.h"
#include "messages/flit.h"
#include "messages/ids.h"

namespace weft::fabric {

/// The queue that one lane of one input may have in front of a rate. The switch keeps back the credits for
/// more, but leaves the sender those of two cells. Half of the shortest time after which an adapter repeats a
/// cell (kRetransmitMin), so that the cells of several queue pairs take turns within that time.
inline constexpr Duration kRateQueueTime = std::chrono::milliseconds(5);
/// Credits that were kept back return when the lane has had no cell in front of the rate for this time.
inline constexpr Duration kRateRest = std::chrono::milliseconds(20);

/// Owner: the switch's thread. May allocate, as all faults.
class RateQueues {
 public:
  using Cells = std::vector<std::unique_ptr<HeldCell>>;
  /// Credits of one lane that are due to the peer of a port.
  struct Credits {
    PortNumber input = kPortNone;
    VirtualLane vl{};
    uint64_t incarnation = 0;  // of the link that they belong to
    uint32_t flits = 0;
  };

  /// The lanes of a slow link share it by these tables.
  void share_lanes_by(const VlArbiter& arbiter) { arbiter_ = arbiter; }

  /// A place for a cell that will wait for the rate of rule `rule`. It waits from push() on. Valid until
  /// push() or abandon().
  HeldCell* begin(uint32_t rule, PortNumber in, PortNumber out, VirtualLane vl);
  /// The cell is whole and waits. `rule` is null when its rule has ended: the cell is due at once.
  /// @return true if the cell has to wait for others.
  bool push(HeldCell& cell, const FaultRule* rule, Instant now);
  /// The rest of a cell will not come.
  void abandon(const HeldCell& cell) noexcept;
  /// The rule has ended: its cells are due at once, in order.
  void end_rule(uint32_t rule);

  /// The cells whose turn has come, in order.
  Cells take_due(Instant now);
  /// The cells of queues that have moved nothing for kHeadOfQueueLifetime.
  Cells take_overdue(Instant now);
  /// The cells that wait from port `input`, or to port `output`.
  Cells take_from(PortNumber input);
  Cells take_to(PortNumber output);
  /// Keeps the memory of cells that were taken.
  void reuse(Cells&& cells);

  /// The credits to give back for `flits` flits of this cell, which have left: fewer when its queue would be
  /// longer than kRateQueueTime, more when it may be longer than it was. `capacity` is the lane's total.
  [[nodiscard]] uint32_t credits_for(const HeldCell& cell, uint32_t flits, uint32_t capacity);
  /// Credits that were kept back for a queue that is no more.
  std::vector<Credits> take_spare_credits(Instant now);
  /// The link of `input` has gone, and its credits with it.
  void forget_credits(PortNumber input);

  /// The rule for which cells from `in` to `out` on this lane wait; 0: none wait.
  [[nodiscard]] uint32_t rule_of(PortNumber in, PortNumber out, VirtualLane vl) const;
  /// Cells that wait from one input on one lane.
  [[nodiscard]] uint32_t waiting(PortNumber input, VirtualLane vl) const;
  /// True when there is nothing to do at any time.
  [[nodiscard]] bool idle() const noexcept { return held_ == 0 && lanes_.empty(); }
  [[nodiscard]] uint32_t held() const noexcept { return held_; }
  [[nodiscard]] Instant deadline() const noexcept;

 private:
  /// One direction of one link at the rate of one rule. In this order each cell comes by at most once.
  struct WayKey {
    bool to = false;  // towards the port's neighbour
    uint32_t rule = 0;
    PortNumber port = kPortNone;
    friend auto operator<=>(const WayKey&, const WayKey&) = default;  // NOLINT: 0, no pointer
  };
  struct Queue {
    std::deque<std::unique_ptr<HeldCell>> cells;
    Instant moved_at{};  // when the last cell left, or the first one came
  };
  struct Way {
    Instant next{};  // when the next cell may go
    VlArbiter arbiter;
    std::map<uint32_t, Queue> queues;         // by lane and input; none is empty
    std::array<PortNumber, kVlCount> last{};  // input served last
    uint32_t lanes = 0;                       // with waiting cells, one bit each
  };
  struct Flow {
    uint32_t cells = 0;
    uint32_t rule = 0;
  };
  /// A lane of an input.
  struct InputLane {
    uint32_t waiting = 0;
    uint32_t kept_back = 0;  // credits
    uint64_t incarnation = 0;
    Duration cell_time{};  // of its cells at the rate, smoothed
    Instant rests_since{};
  };

  void add(Way& way, std::unique_ptr<HeldCell> cell, Instant now);
  std::unique_ptr<HeldCell> pop(Way& way, VirtualLane vl);
  /// Ends the queues from which all cells were taken.
  static void drop_empty(Way& way);
  void pass(const WayKey& key, Way& way, Cells& due);
  /// Takes a cell out of the counts.
  void leave(const HeldCell& cell, Instant now);
  template <class Match>
  Cells take_if(Match match);

  VlArbiter arbiter_;
  Cells half_;   // cells that lack flits
  Cells freed_;  // cells whose rule has ended
  Cells spare_;
  std::map<WayKey, Way> ways_;  // those towards the switch first
  std::map<uint64_t, Flow> flows_;
  std::map<uint32_t, InputLane> lanes_;  // by input and lane; those with cells or with credits kept back
  uint32_t held_ = 0;
  Instant now_{};
  Instant next_look_{};  // for overdue cells
};

}  // namespace weft::fabric
