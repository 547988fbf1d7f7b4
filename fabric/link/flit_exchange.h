// fabric/link/flit_exchange.h -- the link-level engine (LLE, SAN-SW-04): two ends exchange flits over one
// carrier, in order, without loss or corruption, as far as lanes have credit. FlitExchange connects sender,
// sequence, credits and watch. It decides what each arriving flit means for them, what the peer is told, and
// when. docs/flow_control.md.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/counters.h"
#include "base/stats_page.h"
#include "fabric/link/carrier.h"
#include "fabric/link/flit_sender.h"
#include "fabric/link/link.h"
#include "fabric/link/link_counters.h"
#include "fabric/link/link_credits.h"
#include "fabric/link/progress_watch.h"
#include "fabric/link/rx_sequence.h"

namespace weft::fabric {

/// The peer's progress with the data flits sent to it.
struct TakenFlits {
  uint64_t mark = 0;  // changes whenever the peer takes one
  bool all = true;
};

/// Owner: the link's thread. Between start() and stop() there is a carrier. At other times only release(),
/// finish_sleep() and const functions may be called, but not deadline() and taken(). LinkEngine describes
/// each call for its user.
class FlitExchange {
 public:
  FlitExchange(const LinkTimers& timers, CounterSet<LinkCounter>& counters) noexcept;

  /// A new incarnation of the link. `carrier` stays until stop().
  void start(Carrier& carrier, const LinkParams& params, Instant now) noexcept;
  void stop() noexcept;
  /// The peer broke the protocol, and a counter says how. Only receive() sets this.
  [[nodiscard]] bool broken() const noexcept { return broken_; }

  [[nodiscard]] std::byte* claim(VirtualLane vl) noexcept;
  void commit(const TxFlit& flit) noexcept;
  [[nodiscard]] std::span<const RxFlit> receive() noexcept;
  void release() noexcept;
  void grant(VirtualLane vl, uint32_t flits) noexcept { credits_.grant(vl, flits); }
  void flush(Instant now) noexcept;
  /// Asks the peer to tell again what it has acknowledged and granted.
  void ask() noexcept;

  /// Does the work that no flit triggers: overdue acknowledgements and credits, questions to the peer,
  /// gauges.
  void poll(Instant now) noexcept;
  [[nodiscard]] bool prepare_sleep() noexcept;
  void finish_sleep() noexcept;
  [[nodiscard]] Instant deadline() const noexcept;

  [[nodiscard]] const LinkCredits& credits() const noexcept { return credits_; }
  /// Data flits sent and not yet acknowledged.
  [[nodiscard]] uint64_t unacknowledged() const noexcept { return sender_.unacknowledged(); }
  /// The peer's progress with the data flits sent.
  [[nodiscard]] TakenFlits taken() const noexcept;
  void publish(StatsPage& page, std::string_view prefix) { credits_.publish(page, prefix); }

 private:
  // What arrives. False ends the burst.
  bool take_slot(const RxSlot& slot) noexcept;
  [[gnu::noinline]] bool take_other(const RxSlot& slot) noexcept;
  bool absorb_news(const FlitFields& fields) noexcept;
  bool take_data(const FlitView& flit, uint64_t position) noexcept;
  [[nodiscard]] bool accept(const FlitFields& fields, uint64_t position) noexcept;
  bool take_control(const FlitView& flit, uint64_t position) noexcept;
  bool refuse(FlitError error, const FlitFields& fields, uint64_t position) noexcept;
  bool drop_torn(const FlitFields& fields, uint64_t position) noexcept;
  bool ask_repeat(bool again) noexcept;
  void fault(LinkCounter reason) noexcept;

  // What the peer is told.
  FlitNews news() noexcept;
  [[nodiscard]] bool send_control(FlitKind kind, uint8_t flags) noexcept;
  void tell_peer(bool everything) noexcept;
  [[nodiscard]] bool all_told() const noexcept;
  [[nodiscard]] bool owes_little() const noexcept;
  [[nodiscard]] bool waits_for_peer() const noexcept;
  [[nodiscard]] bool peer_is_watched() const noexcept;

  CounterSet<LinkCounter>& counters_;
  Carrier* carrier_ = nullptr;
  FlitProfile profile_;
  Instant now_{};
  RxSequence sequence_;
  uint32_t rx_count_ = 0;  // views handed out since release()
  uint32_t tell_at_ = 0;   // acknowledgements or credits that justify a flit without data
  bool broken_ = false;
  bool repeat_wanted_ = false;  // the peer asked for a repeat
  bool answer_now_ = false;
  Duration ack_delay_;
  Duration repeat_patience_;     // interval between requests for the same missing flit
  Instant owed_since_ = kNever;  // since when an acknowledgement or credit is untold
  Instant gauges_at_{};
  ProgressWatch watch_;
  std::array<RxSlot, kFlitsPerReceiveMax> arrived_{};  // of one receive(); here, so that it is made once
  std::array<RxFlit, kFlitsPerReceiveMax> rx_{};
  LinkCredits credits_;
  FlitSender sender_;
};

}  // namespace weft::fabric
