// session/peer_watch.h -- is the peer of an incarnation still there? Keepalives, silence, probes, and what
// the own port's absence means for all of them (decisions 2.12, 2.13).
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

  /// Something of the peer has arrived.
  void heard() noexcept { heard_at_ = context_.now; }
  /// From now on keepalives are sent; the first after an interval.
  void start() noexcept { keepalive_at_ = context_.now + context_.config.limits.keepalive_interval; }
  /// The peer has asked us, so we need not ask for the rest of this interval and a little more.
  void was_asked() noexcept;
  /// True once after was_asked().
  [[nodiscard]] bool take_asked() noexcept { return std::exchange(asked_, false); }

  /// Looks at our port; false when it has been away for too long.
  [[nodiscard]] bool port_stays(bool up) noexcept;
  [[nodiscard]] bool port_down() const noexcept { return port_down_since_ != kNever; }
  /// True once per interval.
  [[nodiscard]] bool keepalive_due() noexcept;
  [[nodiscard]] bool silent_too_long() const noexcept { return context_.now > silent_until(); }
  /// True when the unit should be asked by RTU whether it knows the session; takes note of the question.
  [[nodiscard]] bool take_probe() noexcept;
  [[nodiscard]] Instant deadline() const noexcept;

 private:
  [[nodiscard]] Instant silent_until() const noexcept;
  [[nodiscard]] Instant probe_at() const noexcept;

  SessionContext& context_;
  Instant heard_at_{};
  Instant keepalive_at_ = kNever;
  Instant port_down_since_ = kNever;
  Instant port_up_at_;  // as far as this incarnation has seen it come back
  Instant probed_at_;
  bool asked_ = false;
};

}  // namespace weft::session
