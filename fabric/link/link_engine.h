// fabric/link/link_engine.h -- one end of a point-to-point link as switch ports and cell ports see it: flits
// per lane, credits, in order, without loss or corruption while the link is up (SAN-FLIT-01..06,
// SAN-VL-01..03). What carries the bytes -- shared memory, ZeroMQ, process memory -- is a Carrier below
// (SAN-LAYER-01), lossy, stalling or hostile. The link-level engine (LLE, SAN-SW-04) numbers data flits of
// all lanes in one sequence per direction, acknowledges cumulatively, repeats from the gap on (go-back-N,
// SAN-FLIT-04), and keeps absolute credits per lane (SAN-VL-03). docs/flow_control.md.
#pragma once

#include <array>
#include <memory>
#include <string_view>

#include "base/stats_page.h"
#include "fabric/link/carrier.h"
#include "fabric/link/credit.h"
#include "fabric/link/limits.h"
#include "fabric/link/link.h"
#include "fabric/link/link_bells.h"
#include "fabric/link/link_counters.h"
#include "fabric/link/wake_list.h"

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
  /// Why the last attempt brought no link; empty while there is one, and before the first attempt has ended.
  [[nodiscard]] virtual std::string_view trouble() const noexcept { return {}; }
};

/// Stands between an engine and the carriers it is given: traces and faults of tests, whatever the carrier.
class CarrierWrapper {
 public:
  virtual ~CarrierWrapper() = default;
  [[nodiscard]] virtual std::unique_ptr<Carrier> wrap(std::unique_ptr<Carrier> carrier) = 0;
};

/// Timers of one engine; the simulator shortens or stretches them.
struct LinkTimers {
  Duration ack_delay = 10us;   // an idle link tells what it owes after this long
  Duration probe_first = 2ms;  // no progress: ask the peer to answer
  Duration probe_max = 200ms;  // the interval doubles up to this
  // Where flits can get lost it does not grow before: question or answer may be lost several times in a row,
  // and a switch gives up what waits for an output that moves nothing for this long.
  Duration probe_steady = kOutputStandstill;
};

/// Owner: one thread at a time. Everything but poll() on a link that is down is noexcept, bounded and free of
/// system calls; flush() makes at most one per burst, and only on carriers that need it. Between claim() and
/// commit() no other call is made.
class LinkEngine final : public Sleeper, public LinkSeat {
 public:
  explicit LinkEngine(const LinkTimers& timers = {}) noexcept;
  ~LinkEngine() override;
  LinkEngine(const LinkEngine&) = delete;
  LinkEngine& operator=(const LinkEngine&) = delete;

  /// `supervisor` must outlive the engine or be replaced by null first.
  void set_supervisor(LinkSupervisor* supervisor) noexcept { supervisor_ = supervisor; }
  /// From the next bring_up() on poll() and publish() make no system call on carriers that can do without: a
  /// peer that sleeps is noted in `wakes`, and whoever calls this looks whether it is there
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
  /// Somebody rings when something arrives by the carrier that was brought up last.
  void expect_bell() noexcept { announced_ = true; }
  /// True when the bell and deadline() announce all there will be to do: between prepare_sleep() and then
  /// nobody need call poll(), receive() or flush().
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
  [[nodiscard]] std::byte* claim(VirtualLane vl) noexcept;
  /// Queues the claimed flit and spends one credit of its lane (none on lane 15).
  void commit(const TxFlit& flit) noexcept;
  /// Credits left on a lane.
  [[nodiscard]] uint32_t credits(VirtualLane vl) const noexcept;

  /// Next flits in order, at most kFlitsPerReceiveMax; empty when there are none. The views stay valid until
  /// release(). A second call before release() gives the flits after those.
  [[nodiscard]] std::span<const RxFlit> receive() noexcept;
  /// Gives back the carrier memory of all flits received so far. Does not grant credit.
  void release() noexcept;
  /// Grants the peer `flits` more flit buffers on `vl`: call when a received flit has left its lane buffer.
  void grant(VirtualLane vl, uint32_t flits) noexcept;

  /// Publishes what was committed, acknowledged and granted since the last flush.
  void flush(Instant now) noexcept;

  // ---- Sleeper --------------------
  void wait_fds(std::vector<pollfd>& out) const override;
  [[nodiscard]] bool prepare_sleep() noexcept override;
  void finish_sleep() noexcept override;
  [[nodiscard]] Instant deadline() const noexcept override;

  // ---- for operators and tests --------------------
  [[nodiscard]] const CounterSet<LinkCounter>& counters() const noexcept { return counters_; }
  [[nodiscard]] const LaneCredit& lane(VirtualLane vl) const noexcept { return lanes_[vl.value()]; }
  /// Data flits sent and not yet acknowledged.
  [[nodiscard]] uint64_t unacknowledged() const noexcept { return sent_ - acknowledged_; }
  /// "mem", "shm", "zmq"; empty while the link is down.
  [[nodiscard]] std::string_view carrier_kind() const noexcept;
  /// Puts the counters on `page` as `prefix.NAME` and `prefix.vl.N.NAME`.
  void publish(StatsPage& page, std::string_view prefix);

 private:
  static constexpr uint32_t kWindow = kUnacknowledgedFlitsMax;

  // Sending (link_engine_path.cc).
  std::byte* next_slot(uint32_t reserve) noexcept;
  std::byte* control_slot() noexcept;
  void finish_slot(uint32_t bytes) noexcept;
  void end_run() noexcept;
  void publish_now(Instant now) noexcept;
  void publish_part() noexcept;
  void count_burst() noexcept;
  [[nodiscard]] bool send_control(FlitKind kind, uint8_t flags) noexcept;
  FlitFields fields_to_send(FlitKind kind) noexcept;
  void tell_peer(bool everything) noexcept;
  [[nodiscard]] bool lane_owes(uint64_t threshold) const noexcept;
  [[nodiscard]] bool owes_little() const noexcept;
  [[nodiscard]] bool peer_is_watched() const noexcept;
  void serve_repeat() noexcept;

  // Receiving (link_engine_path.cc). False ends the burst.
  bool take_slot(const RxSlot& slot) noexcept;
  bool take_data(const FlitView& flit, uint64_t position) noexcept;
  bool take_control(const FlitView& flit, uint64_t position) noexcept;
  bool absorb_news(const FlitFields& fields) noexcept;
  [[nodiscard]] bool fits_framing(const FlitFields& fields) noexcept;
  [[nodiscard]] bool accept(const FlitFields& fields, uint64_t position) noexcept;
  bool refuse(FlitError error, const FlitFields& fields, uint64_t position) noexcept;
  bool drop_torn(const FlitFields& fields, uint64_t position) noexcept;
  bool ask_repeat(bool again) noexcept;
  void fault(LinkCounter reason) noexcept;

  // Upkeep (link_engine.cc).
  void watch_carrier(Instant now) noexcept;
  void watch_progress(Instant now) noexcept;
  void watch_silence(Instant now) noexcept;
  void refresh_gauges(Instant now) noexcept;

  LinkTimers timers_;
  LinkSupervisor* supervisor_ = nullptr;
  CarrierWrapper* wrapper_ = nullptr;
  WakeList* wakes_ = nullptr;  // supervised apart
  std::shared_ptr<LinkBells> bells_;
  uint32_t bell_ = 0;
  bool announced_ = false;  // arrivals of this carrier
  std::unique_ptr<Carrier> carrier_;
  LinkState state_ = LinkState::kDown;
  LinkParams params_;
  FlitProfile profile_;
  uint64_t incarnation_ = 0;
  Instant now_{};

  // Sending.
  TxRun run_;  // slots claimed from the carrier
  uint32_t run_used_ = 0;
  uint32_t run_last_bytes_ = 0;
  uint32_t unpublished_ = 0;  // flits since the last publish
  bool wake_due_ = false;     // some were published that a sleeping peer has not been woken for
  uint32_t publish_every_ = 0;
  uint32_t starved_lanes_ = 0;  // bit per lane that wanted to send and had no credit
  uint64_t tx_position_ = 0;    // of the next slot
  uint64_t sent_ = 0;           // data flits; the newest one's number
  uint64_t counted_sent_ = 0;
  uint64_t published_ = 0;
  uint64_t acknowledged_ = 0;
  std::array<uint64_t, kWindow> sent_position_{};  // by number modulo kWindow

  // Receiving.
  uint64_t received_ = 0;           // data flits accepted; the newest one's number
  uint64_t told_received_ = 0;      // what the peer has been told
  uint64_t consumed_position_ = 0;  // slots before it are done with
  uint32_t rx_count_ = 0;           // views handed out since release()
  uint32_t open_lanes_ = 0;         // bit per lane inside a cell
  uint32_t repeats_ = 0;            // for the flit after received_
  int gap_ahead_ = 0;               // distance of the last flit behind a gap
  bool repeat_asked_ = false;
  bool repeat_wanted_ = false;  // by the peer
  bool retire_due_ = false;
  bool answer_now_ = false;
  std::array<RxSlot, kFlitsPerReceiveMax> arrived_{};  // of one receive(); a member, so that it is made once
  std::array<RxFlit, kFlitsPerReceiveMax> rx_{};

  // Lanes.
  uint32_t untold_lanes_ = 0;      // bit per lane with credit to tell
  uint32_t lanes_after_last_ = 0;  // bits above the lane told last: lanes take turns
  uint32_t tell_at_ = 0;           // flits received or given back that are worth a flit of their own
  std::array<LaneCredit, kVlCount> lanes_{};

  // Timers.
  Instant owed_since_ = kNever;  // something is untold since
  Instant probe_at_ = kNever;
  Instant heard_at_{};
  Instant gauges_at_{};
  Duration probe_interval_{};
  Instant probing_since_{};  // no progress since
  bool stall_counted_ = false;

  CounterSet<LinkCounter> counters_;
  std::array<CounterSet<LaneCounter>, kVlCount> lane_counters_{};
};

}  // namespace weft::fabric
