// session/connection.h -- the state of a session and the datagrams that open and end it. Every event goes
// through the table of session/connection_table.h; the incarnation handles everything while frames move.
#pragma once

#include <memory>
#include <utility>

#include "session/connection_table.h"
#include "session/incarnation.h"
#include "session/session_channels.h"
#include "session/session_context.h"
#include "session/session_port.h"

namespace weft::session {

/// Owner: the session's thread. Neither copied nor moved, because its parts hold references to it.
class Connection final : private IncarnationOwner {
 public:
  explicit Connection(SessionContext& context);
  ~Connection();

  void open() noexcept { on(ConnectionEvent::kOpen); }
  void close() noexcept { on(ConnectionEvent::kClose); }
  int poll() noexcept;
  [[nodiscard]] Instant deadline() const noexcept;

  /// Unit: creates the incarnation for a REQ and answers with REP.
  [[nodiscard]] Status accept(const SessionDatagram& request, const SessionPeer& peer) noexcept;
  /// Handles a datagram with the nonce and source of this session.
  void on_datagram(const SessionDatagram& datagram) noexcept;
  /// Unit: ends the session because the same host has come back. Frames that have arrived stay for the
  /// driver.
  void replace() noexcept;

  /// Null while there is none.
  [[nodiscard]] Incarnation* incarnation() const noexcept { return incarnation_.get(); }
  /// Frames for the driver: those of the incarnation, or the rest of the last one; null if there are none.
  [[nodiscard]] Inbound* inbound() const noexcept;
  /// Frees the frames of an ended incarnation once the driver has taken the last one.
  void drop_leftovers() noexcept;
  [[nodiscard]] uint64_t incarnations() const noexcept { return incarnations_; }
  [[nodiscard]] SessionRefusal refusal() const noexcept { return refusal_; }
  /// True once after a loss by the peer's fault.
  [[nodiscard]] bool take_violation() noexcept { return std::exchange(violation_, false); }

  [[nodiscard]] SessionConservation conservation() const noexcept;
  [[nodiscard]] ChannelTotals& channel_totals() noexcept;
  void update_gauges() noexcept;

 private:
  void on(ConnectionEvent event, const SessionDatagram* datagram = nullptr) noexcept;
  void on_peers_pool() noexcept override { on(ConnectionEvent::kPeersPool); }
  void enter(SessionState state) noexcept;

  // steps of the table
  void ask() noexcept;
  void retry() noexcept;
  void bind_peer(const SessionDatagram& reply) noexcept;
  void be_refused(const SessionMad& reject) noexcept;
  void begin_frames() noexcept;
  void finish_flush() noexcept;
  void take_down() noexcept;
  void be_left(SessionCounter reason) noexcept;

  [[nodiscard]] bool attempt_due() const noexcept;
  int poll_datagrams() noexcept;
  void tick() noexcept;
  [[nodiscard]] Status begin_incarnation() noexcept;
  void end_incarnation() noexcept;
  void send(CmAttribute kind) noexcept;
  [[nodiscard]] SessionLabels labels(CmAttribute kind) const noexcept;
  void no_memory(const Status& status) noexcept;

  SessionContext& context_;
  ChannelStore store_;
  std::unique_ptr<Incarnation> incarnation_;
  std::unique_ptr<Inbound> leftovers_;
  SessionPort& port_;
  std::unique_ptr<SessionMailbox> mailbox_;  // host; messages for a unit come by its acceptor
  uint32_t peer_id_ = 0;                     // the peer's number of the session
  Qpn peer_control_;                         // its channel 0
  uint64_t incarnations_ = 0;
  SessionRefusal refusal_ = SessionRefusal::kNone;
  bool violation_ = false;
  Instant connect_at_{};
  Duration connect_delay_;  // grows after violations and refusals
  Instant opened_at_{};
};

}  // namespace weft::session
