// fabric/link/link_engine.h -- one end of a point-to-point link as switch ports and cell ports see it: flits
// per lane, credits, in order, without loss or corruption while the link is up (SAN-FLIT-01..06,
// SAN-VL-01..03). A Carrier below (shared memory, ZeroMQ, process memory; SAN-LAYER-01) carries the bytes. It
// may lose flits or stall, and the peer behind it may be hostile. LinkEngine handles the life of a link:
// states, supervisors, incarnations, sleep. The exchange (fabric/link/flit_exchange.h) handles the flits of a
// link that is up. It numbers data flits of all lanes in one sequence per direction, acknowledges
// cumulatively, repeats from the gap on (go-back-N, SAN-FLIT-04), and keeps absolute credits per lane
// (SAN-VL-03). docs/flow_control.md.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/counters.h"
#include "base/stats_page.h"
#include "fabric/link/carrier.h"
#include "fabric/link/credit.h"
#include "fabric/link/flit_exchange.h"
#include "fabric/link/link.h"
#include "fabric/link/link_bells.h"
#include "fabric/link/link_counters.h"
#include "fabric/link/progress_watch.h"
#include "fabric/link/wake_list.h"
#include "messages/link_hello.h"

namespace weft::fabric {

/// Where a supervisor puts the links that it makes: a LinkEngine, or a LinkUpkeep, which supervises an engine
/// from another thread (fabric/link/link_upkeep.h).
class LinkSeat {
 public:
  virtual ~LinkSeat() = default;
  [[nodiscard]] virtual LinkState state() const noexcept = 0;
  /// A handshake succeeded: starts a new incarnation over `carrier`. All state of the old incarnation is
  /// dropped.
  virtual void bring_up(std::unique_ptr<Carrier> carrier, const LinkParams& params, Instant now) noexcept = 0;
};

/// Outcome of the last attempt to join.
struct JoinTrouble {
  std::string_view why;                      // empty while there is a link, and before an attempt has ended
  LinkRefusal refusal = LinkRefusal::kNone;  // the switch's refusal, if the attempt ended with one
  bool later = false;  // the switch is there: it has not answered yet, or a later attempt may succeed
};

/// Brings a link up and watches it: connectors, acceptors, cables. Called from LinkEngine::poll() or from
/// LinkUpkeep.
class LinkSupervisor {
 public:
  virtual ~LinkSupervisor() = default;
  /// Calls seat.bring_up() when a carrier is ready. Returns work done.
  virtual int supervise(LinkSeat& seat, Instant now) noexcept = 0;
  virtual void wait_fds(std::vector<pollfd>& out) const = 0;
  /// Latest time of the next supervise().
  [[nodiscard]] virtual Instant deadline() const noexcept = 0;
  /// True when the engine's bell or deadline() announces everything that this supervisor has to do.
  [[nodiscard]] virtual bool announces_all() const noexcept { return false; }
  /// Why the last attempt brought no link.
  [[nodiscard]] virtual JoinTrouble trouble() const noexcept { return {}; }
};

/// Wraps every carrier that an engine is given: traces and faults of tests.
class CarrierWrapper {
 public:
  virtual ~CarrierWrapper() = default;
  [[nodiscard]] virtual std::unique_ptr<Carrier> wrap(std::unique_ptr<Carrier> carrier) = 0;
};

/// Owner: one thread at a time. All calls are noexcept, bounded and free of system calls, except poll() on a
/// link that is down. flush() makes at most one system call per burst, and only on carriers that need it.
/// Between claim() and commit() no other call is made.
class LinkEngine final : public Sleeper, public LinkSeat {
 public:
  explicit LinkEngine(const LinkTimers& timers = {}) noexcept;
  LinkEngine(const LinkEngine&) = delete;
  LinkEngine& operator=(const LinkEngine&) = delete;

  /// `supervisor` must outlive the engine, or be replaced by null before it ends.
  void set_supervisor(LinkSupervisor* supervisor) noexcept { supervisor_ = supervisor; }
  /// From the next bring_up() on, poll() and publish() make no system calls on carriers that can do without.
  /// A sleeping peer is noted in `wakes`, and the caller watches whether the peer is still there
  /// (fabric/link/link_upkeep.h). A link that breaks stays kFaulty until surrender(). `wakes` must outlive
  /// the engine.
  void supervise_apart(WakeList& wakes) noexcept { wakes_ = &wakes; }
  /// Every later carrier is wrapped. `wrapper` must outlive the engine; null: none.
  void set_carrier_wrapper(CarrierWrapper* wrapper) noexcept { wrapper_ = wrapper; }
  void bring_up(std::unique_ptr<Carrier> carrier, const LinkParams& params, Instant now) noexcept override;
  /// The peer is gone. Unacknowledged flits are lost and counted. No effect on a link that is down.
  void take_down() noexcept { surrender(false).reset(); }
  /// As take_down(), and hands out the carrier, because its destructor may make system calls. Null if the
  /// link was down. `peer_gone` is counted.
  [[nodiscard]] std::unique_ptr<Carrier> surrender(bool peer_gone) noexcept;

  // ---- for an owner that does not poll every link in every turn --------------------
  /// From now on ring() sets bit `number` of `bells`.
  void set_bell(std::shared_ptr<LinkBells> bells, uint32_t number) noexcept {
    bells_ = std::move(bells);
    bell_ = number;
  }
  /// Called when something has arrived or the state has changed.
  void ring() noexcept {
    if (bells_ != nullptr) bells_->ring(bell_);
  }
  /// The current carrier has a watcher, which rings when something arrives.
  void expect_bell() noexcept { announced_ = true; }
  /// True when the bell and deadline() announce everything there will be to do. Until one of them does, an
  /// owner that has called prepare_sleep() need not call poll(), receive() or flush().
  [[nodiscard]] bool announces_all() const noexcept {
    return (state_ != LinkState::kUp || announced_) &&
           (supervisor_ == nullptr || supervisor_->announces_all());
  }

  [[nodiscard]] LinkState state() const noexcept override { return state_; }
  [[nodiscard]] const LinkParams& params() const noexcept { return params_; }
  /// Counts resets of the link. If the value has changed, flits that were in flight are lost (decisions
  /// 2.11).
  [[nodiscard]] uint64_t incarnation() const noexcept { return incarnation_; }

  /// Handshake, timers, acknowledgements, credits, wake-ups. Returns work done.
  int poll(Instant now) noexcept;

  /// Memory for the next flit, params().flit_payload_bytes long; null without credit on `vl` or without a
  /// free slot. Repeating the call without commit() gives the same memory; nothing is reserved until
  /// commit().
  [[nodiscard]] std::byte* claim(VirtualLane vl) noexcept {
    return state_ == LinkState::kUp ? exchange_.claim(vl) : nullptr;
  }
  /// Queues the claimed flit and spends one credit of its lane (none on lane 15).
  void commit(const TxFlit& flit) noexcept {
    WEFT_DCHECK(state_ == LinkState::kUp, "commit without claim");
    exchange_.commit(flit);
  }
  /// Credits left on a lane.
  [[nodiscard]] uint32_t credits(VirtualLane vl) const noexcept { return exchange_.credits().available(vl); }

  /// Next flits in order, at most kFlitsPerReceiveMax; empty when there are none. The views stay valid until
  /// release(). A second call before release() gives the flits after those.
  [[nodiscard]] std::span<const RxFlit> receive() noexcept;
  /// Gives back the carrier memory of all flits received so far. Does not grant credit.
  void release() noexcept { exchange_.release(); }
  /// Grants the peer `flits` more flit buffers on `vl`: call when a received flit has left its lane buffer.
  void grant(VirtualLane vl, uint32_t flits) noexcept;

  /// Publishes what was committed, acknowledged and granted since the last flush.
  void flush(Instant now) noexcept {
    if (state_ == LinkState::kUp) exchange_.flush(now);
  }

  /// The next flush() asks the peer to tell again what it has acknowledged and granted.
  void ask() noexcept {
    if (state_ == LinkState::kUp) exchange_.ask();
  }

  // ---- Sleeper --------------------
  void wait_fds(std::vector<pollfd>& out) const override;
  [[nodiscard]] bool prepare_sleep() noexcept override;
  void finish_sleep() noexcept override { exchange_.finish_sleep(); }
  [[nodiscard]] Instant deadline() const noexcept override;

  // ---- for operators and tests --------------------
  [[nodiscard]] const CounterSet<LinkCounter>& counters() const noexcept { return counters_; }
  [[nodiscard]] const LaneCredit& lane(VirtualLane vl) const noexcept { return exchange_.credits().lane(vl); }
  /// Data flits sent and not yet acknowledged.
  [[nodiscard]] uint64_t unacknowledged() const noexcept { return exchange_.unacknowledged(); }
  /// The peer's progress with the data flits sent; {0, all} while the link is down.
  [[nodiscard]] TakenFlits taken() const noexcept {
    return state_ == LinkState::kUp ? exchange_.taken() : TakenFlits{};
  }
  /// True while flits would be lost if this process ended now: the peer has not acknowledged them, and the
  /// carrier does not keep them for the peer.
  [[nodiscard]] bool loses_at_end() const noexcept {
    return state_ == LinkState::kUp && unacknowledged() != 0 && !carrier_->keeps_all();
  }
  /// "mem", "shm", "zmq"; empty while the link is down.
  [[nodiscard]] std::string_view carrier_kind() const noexcept;
  /// Puts the counters on `page` as `prefix.NAME` and `prefix.vl.N.NAME`.
  void publish(StatsPage& page, std::string_view prefix);

 private:
  void watch_carrier(Instant now) noexcept;

  LinkSupervisor* supervisor_ = nullptr;
  CarrierWrapper* wrapper_ = nullptr;
  WakeList* wakes_ = nullptr;  // set: supervised apart
  std::shared_ptr<LinkBells> bells_;
  uint32_t bell_ = 0;
  bool announced_ = false;  // arrivals of this carrier are announced by the bell
  LinkState state_ = LinkState::kDown;
  LinkParams params_;
  uint64_t incarnation_ = 0;
  CounterSet<LinkCounter> counters_;
  std::unique_ptr<Carrier> carrier_;
  FlitExchange exchange_;
};

}  // namespace weft::fabric
