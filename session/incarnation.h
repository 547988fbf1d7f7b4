// session/incarnation.h -- one life of a session, from the first REQ to its loss or close: queue pairs, keys,
// pools, frames, messages, transactions and timers, created and destroyed together. Only the frames that the
// driver has not yet taken survive its end.
#pragma once

#include <array>
#include <memory>

#include "session/control_channel.h"
#include "session/inbound.h"
#include "session/incoming_messages.h"
#include "session/outbound.h"
#include "session/peer_watch.h"
#include "session/pool_flush.h"
#include "session/session_channels.h"
#include "session/session_context.h"
#include "session/transactions.h"

namespace weft::session {

/// Owner: the session's thread.
class Incarnation {
 public:
  /// Creates all parts for the mode in `context.peer`, with queue pairs in INIT. On failure frees everything.
  static Result<std::unique_ptr<Incarnation>> begin(SessionContext& context, ChannelStore& store,
                                                    IncarnationOwner& owner);
  Incarnation(SessionContext& context, IncarnationOwner& owner, std::unique_ptr<SessionChannels> channels);

  /// Our side's content of REQ and REP.
  [[nodiscard]] SessionOffer offer() const noexcept;
  /// Binds the queue pairs to those in the peer's offer.
  Status connect(Lid peer, const SessionOffer& offer);
  /// Call once the peer is ready to receive.
  void allow_sending() noexcept { control_.allow(); }

  /// One turn: completions, messages and frames. Returns work done.
  int poll() noexcept;
  /// Before the peer ends the session: handles what it did until then, completions and offences.
  void settle() noexcept;
  /// Runs timers and looks for refused accesses. True once per keepalive interval: the caller updates the
  /// gauges then.
  bool tick() noexcept;
  [[nodiscard]] Instant deadline() const noexcept;

  void start_close() noexcept;
  /// PUSH-FLUSH-01: every live pool of both sides is flushed before the connection ends. True when that is
  /// done or has timed out.
  [[nodiscard]] bool step_close() noexcept;
  /// Counts the lost frames and returns those that the driver has not taken, null if there are none. Only
  /// answer_lost() and the destructor may follow.
  [[nodiscard]] std::unique_ptr<Inbound> take_down() noexcept;
  /// Reports the session's loss to the driver for each open transaction.
  void answer_lost() noexcept { transactions_.end(); }

  [[nodiscard]] IncarnationEnd& end() noexcept { return end_; }
  [[nodiscard]] const IncarnationEnd& end() const noexcept { return end_; }
  [[nodiscard]] Outbound& outbound() noexcept { return outbound_; }
  [[nodiscard]] const Outbound& outbound() const noexcept { return outbound_; }
  [[nodiscard]] Inbound& inbound() noexcept { return *inbound_; }
  [[nodiscard]] Transactions& transactions() noexcept { return transactions_; }
  [[nodiscard]] PeerWatch& watch() noexcept { return watch_; }
  [[nodiscard]] SessionChannels& channels() noexcept { return *channels_; }
  /// Frames whose delivery is unknown if the incarnation ends now.
  [[nodiscard]] uint64_t undelivered() const noexcept;
  void account(SessionConservation& out) const noexcept;

 private:
  int poll_sends() noexcept;
  int poll_receives() noexcept;
  void on_receive(const adapter::WorkCompletion& done) noexcept;
  void work_failed(std::string_view what, adapter::WcStatus status) noexcept;
  void check_accesses() noexcept;
  int send_pending() noexcept;
  [[nodiscard]] bool can_renew() const noexcept;

  static constexpr size_t kCompletionsPerTurn = 64;

  SessionContext& context_;
  std::unique_ptr<SessionChannels> channels_;
  IncarnationEnd end_;
  ControlChannel control_;
  Outbound outbound_;
  std::unique_ptr<Inbound> inbound_;
  Transactions transactions_;
  PoolFlush flush_;
  PeerWatch watch_;
  IncomingMessages messages_;
  uint64_t missed_packets_;
  Instant close_at_ = kNever;
  std::array<adapter::WorkCompletion, kCompletionsPerTurn> completions_;  // member: clearing it costs time
};

}  // namespace weft::session
