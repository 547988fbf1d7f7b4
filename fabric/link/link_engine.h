// fabric/link/link_engine.h -- one end of a point-to-point link as switch ports and cell ports see it:
// flits per lane, credits, in order, without loss or corruption while the link is up (SAN-FLIT-01..06,
// SAN-VL-01..03). What carries the bytes -- shared memory, ZeroMQ, process memory -- is a Carrier below
// (SAN-LAYER-01), lossy, stalling or hostile. Here links come and go: states, supervisors, incarnations,
// sleep. What happens to flits while a link is up is the exchange's (fabric/link/flit_exchange.h): it
// numbers data flits of all lanes in one sequence per direction, acknowledges cumulatively, repeats from
// the gap on (go-back-N, SAN-FLIT-04), and keeps absolute credits per lane (SAN-VL-03).
// docs/flow_control.md.
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

/// Where a supervisor puts the links it makes: an engine, or what keeps one up from another thread
/// (fabric/link/link_upkeep.h).
class LinkSeat {
 public:
  virtual ~LinkSeat() = default;
  [[nodiscard]] virtual LinkState state() const noexcept = 0;
  /// A handshake ended well: starts a new incarnation over `carrier`. Everything of the old one is dropped.
  virtual void bring_up(std::unique_ptr<Carrier> carrier, const LinkParams& params, Instant now) noexcept = 0;
};

/// What became of the last attempt to join.
struct JoinTrouble {
  std::string_view why;                      // empty while there is a link, and before an attempt has ended
  LinkRefusal refusal = LinkRefusal::kNone;  // the switch's answer, if that was it
  bool later = false;  // the switch is there: it has not answered yet, or wants to be asked again later
};

/// Brings a link up and watches over it from outside: connectors, acceptors, cables. Called from
/// LinkEngine::poll(), or from LinkUpkeep.
class LinkSupervisor {
 public:
  virtual ~LinkSupervisor() = default;
  /// Calls seat.bring_up() when a carrier is ready. Returns work done.
  virtual int supervise(LinkSeat& seat, Instant now) noexcept = 0;
  virtual void wait_fds(std::vector<pollfd>& out) const = 0;
  /// Latest time of the next supervise().
  [[nodiscard]] virtual Instant deadline() const noexcept = 0;
  /// True when nothing happens here but what the engine's bell or deadline() announces.
  [[nodiscard]] virtual bool announces_all() const noexcept { return false; }
  /// Why the last attempt brought no link.
  [[nodiscard]] virtual JoinTrouble trouble() const noexcept { return {}; }
};

/// Stands between an engine and the carriers it is given: traces and faults of tests, whatever the carrier.
class CarrierWrapper {
 public:
  virtual ~CarrierWrapper() = default;
  [[nodiscard]] virtual std::unique_ptr<Carrier> wrap(std::unique_ptr<Carrier> carrier) = 0;
};

/// Owner: one thread at a time. Everything but poll() on a link that is down is noexcept, bounded and free of
/// system calls; flush() makes at most one per burst, and only on carriers that need it. Between claim() and
/// commit() no other call is made.
class LinkEngine final : public Sleeper, public LinkSeat {
 public:
  explicit LinkEngine(const LinkTimers& timers = {}) noexcept;
  LinkEngine(const LinkEngine&) = delete;
  LinkEngine& operator=(const LinkEngine&) = delete;

  /// `supervisor` must outlive the engine or be replaced by null first.
  void set_supervisor(LinkSupervisor* supervisor) noexcept { supervisor_ = supervisor; }
  /// From the next bring_up() on poll() and publish() make no system call on carriers that can do without: a
  /// peer that sleeps is noted in `wakes`, and the caller watches whether it is still there
  /// (fabric/link/link_upkeep.h). A link that breaks is kFaulty until surrender(). `wakes` must outlive it.
  void supervise_apart(WakeList& wakes) noexcept { wakes_ = &wakes; }
  /// Every later carrier is wrapped. `wrapper` must outlive the engine; null: none.
  void set_carrier_wrapper(CarrierWrapper* wrapper) noexcept { wrapper_ = wrapper; }
  void bring_up(std::unique_ptr<Carrier> carrier, const LinkParams& params, Instant now) noexcept override;
  /// The peer is gone. Unacknowledged flits are lost and counted. No effect on a link that is down.
  void take_down() noexcept { surrender(false).reset(); }
  /// As take_down(), and hands out what is left, whose end may take system calls; null on a link that was
  /// down. `peer_gone` is counted.
  [[nodiscard]] std::unique_ptr<Carrier> surrender(bool peer_gone) noexcept;

  // ---- for an owner who does not look at every link in every turn --------------------
  /// From now on ring() sets bit `number` of `bells`.
  void set_bell(std::shared_ptr<LinkBells> bells, uint32_t number) noexcept {
    bells_ = std::move(bells);
    bell_ = number;
  }
  /// Something has arrived, or the state is another.
  void ring() noexcept {
    if (bells_ != nullptr) bells_->ring(bell_);
  }
  /// The carrier that was brought up last has a watcher that rings when something arrives.
  void expect_bell() noexcept { announced_ = true; }
  /// True when the bell and deadline() announce all there will be to do: between prepare_sleep() and then
  /// the owner need not call poll(), receive() or flush().
  [[nodiscard]] bool announces_all() const noexcept {
    return (state_ != LinkState::kUp || announced_) &&
           (supervisor_ == nullptr || supervisor_->announces_all());
  }

  [[nodiscard]] LinkState state() const noexcept override { return state_; }
  [[nodiscard]] const LinkParams& params() const noexcept { return params_; }
  /// Counts link resets: a changed value means that what was in flight is gone (decisions 2.11).
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
  /// What the peer has taken of the data flits sent; all of them while the link is down.
  [[nodiscard]] TakenFlits taken() const noexcept {
    return state_ == LinkState::kUp ? exchange_.taken() : TakenFlits{};
  }
  /// True while flits were sent that are lost if this process ends now: the peer has not acknowledged them,
  /// and the carrier does not keep them for it.
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
  WakeList* wakes_ = nullptr;  // supervised apart
  std::shared_ptr<LinkBells> bells_;
  uint32_t bell_ = 0;
  bool announced_ = false;  // arrivals of this carrier
  LinkState state_ = LinkState::kDown;
  LinkParams params_;
  uint64_t incarnation_ = 0;
  CounterSet<LinkCounter> counters_;
  std::unique_ptr<Carrier> carrier_;
  FlitExchange exchange_;
};

}  // namespace weft::fabric
