// session/endpoint.h -- a session object: the driver half's view of a connection (NetdevSession) and, at a
// unit, the acceptor's. Owns the context that all parts share.
#pragma once

#include "session/connection.h"
#include "session/session_context.h"

namespace weft::session {

/// Owner: the session's thread.
class SessionEndpoint final : public NetdevSession {
 public:
  SessionEndpoint(const SessionConfig& config, SessionPorts& ports, RandomSource& random);

  // ---- what the driver half calls; see netdev_session.h -----------------------------------------
  void set_events(SessionEvents* events) noexcept override { context_.events = events; }
  void set_mac(const MacAddress& mac) noexcept override { context_.config.mac = mac; }
  void set_peer_mac(const MacAddress& mac) noexcept override { context_.peer.mac = mac; }
  void open() noexcept override { connection_.open(); }
  void close() noexcept override { connection_.close(); }
  int poll(Instant now) noexcept override;
  [[nodiscard]] Instant deadline() const noexcept override { return connection_.deadline(); }
  [[nodiscard]] SessionState state() const noexcept override { return context_.state; }
  [[nodiscard]] bool port_up() const noexcept override;
  [[nodiscard]] const SessionPeer& peer() const noexcept override { return context_.peer; }
  [[nodiscard]] const SessionConfig& config() const noexcept override { return context_.config; }
  [[nodiscard]] SessionRefusal refusal() const noexcept override { return connection_.refusal(); }
  [[nodiscard]] uint64_t incarnation() const noexcept override { return connection_.incarnations(); }
  [[nodiscard]] std::span<std::byte> claim_frame(uint32_t bytes_max) noexcept override;
  void submit_frame(uint32_t bytes) noexcept override;
  void abandon_frame() noexcept override;
  void flush() noexcept override;
  [[nodiscard]] uint32_t frame_bytes_max() const noexcept override;
  [[nodiscard]] const InboundFrame* peek_frame(uint32_t index) noexcept override;
  void release_frame() noexcept override;
  [[nodiscard]] uint64_t request_config(const CfgRequest& request) noexcept override;
  [[nodiscard]] const CounterSet<SessionCounter>& counters() const noexcept override;
  [[nodiscard]] const CounterSet<adapter::QpCounter>& channel_counters(uint32_t channel) noexcept override;
  [[nodiscard]] SessionConservation conservation() const noexcept override;
  bool publish(StatsPage& page, std::string_view prefix) override;

  // ---- what the acceptor calls ------------------------------------------------------------------
  /// Creates the session for a REQ; see Connection.
  [[nodiscard]] Status accept(const SessionDatagram& request, const SessionPeer& peer, Instant now);
  /// The next three: see Connection.
  void on_datagram(const SessionDatagram& datagram) noexcept { connection_.on_datagram(datagram); }
  void replace() noexcept { connection_.replace(); }
  [[nodiscard]] bool take_violation() noexcept { return connection_.take_violation(); }
  [[nodiscard]] bool live() const noexcept { return connection_.incarnation() != nullptr; }
  /// True if the object holds no session and no frames of an earlier host.
  [[nodiscard]] bool reusable() const noexcept { return !live() && !holds_frames(); }
  [[nodiscard]] bool holds_frames() const noexcept;
  /// Drops and counts the frames that the driver has not taken.
  void drop_frames() noexcept;
  /// The driver gets the frames of `earlier`, an ended session of the same host, before those of this one.
  void follow(const SessionEndpoint& earlier) noexcept;

 private:
  [[nodiscard]] bool behind_earlier() noexcept;

  SessionContext context_;
  Connection connection_;
  const SessionEndpoint* earlier_ = nullptr;  // while it holds frames of the ended session, this one shows
                                              // none to the driver
  uint64_t earlier_incarnation_ = 0;
};

}  // namespace weft::session
