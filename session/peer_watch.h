// session/peer_watch.h -- detects the loss of an incarnation's peer by keepalives, silence and probes, which
// pause while our own port is down (decisions 2.12, 2.13).
#pragma once

#include <utility>

#include "base/clock.h"
#include "session/session_context.h"

namespace weft::session {

/// Owner: the session's thread.
class PeerWatch {
 public:
  explicit PeerWatch(SessionContext& context)
      : context_(context), port_up_at_(context.now), probed_at_(context.now) {}

  /// Records that data of the peer has arrived.
  void heard() noexcept { heard_at_ = context_.now; }
  /// From now on keepalives are sent; the first after an interval.
  void start() noexcept { keepalive_at_ = context_.now + context_.config.limits.keepalive_interval; }
  /// The peer has sent a keepalive, so ours is put off by a little more than an interval.
  void was_asked() noexcept;
  /// True once after was_asked().
  [[nodiscard]] bool take_asked() noexcept { return std::exchange(asked_, false); }

  /// Records whether our port is up; false if it has been down for longer than `port_down_max`.
  [[nodiscard]] bool port_stays(bool up) noexcept;
  [[nodiscard]] bool port_down() const noexcept { return port_down_since_ != kNever; }
  /// True once per interval.
  [[nodiscard]] bool keepalive_due() noexcept;
  [[nodiscard]] bool silent_too_long() const noexcept { return context_.now > silent_until(); }
  /// True if a probe (RTU) to the unit is due; the caller then sends it.
  [[nodiscard]] bool take_probe() noexcept;
  [[nodiscard]] Instant deadline() const noexcept;

 private:
  [[nodiscard]] Instant silent_until() const noexcept;
  [[nodiscard]] Instant probe_at() const noexcept;

  SessionContext& context_;
  Instant heard_at_{};
  Instant keepalive_at_ = kNever;
  Instant port_down_since_ = kNever;
  Instant port_up_at_;  // when the port came up last during this incarnation
  Instant probed_at_;
  bool asked_ = false;
};

}  // namespace weft::session
