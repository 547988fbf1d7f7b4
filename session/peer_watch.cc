#include "session/peer_watch.h"

#include <algorithm>

namespace weft::session {

bool PeerWatch::port_stays(bool up) noexcept {
  if (!up) {
    if (port_down_since_ == kNever) port_down_since_ = context_.now;
    return context_.now - port_down_since_ <= context_.config.limits.port_down_max;
  }
  if (port_down_since_ == kNever) return true;
  port_down_since_ = kNever;
  port_up_at_ = context_.now;
  if (keepalive_at_ != kNever) keepalive_at_ = context_.now;  // tells the peer at once that we are back
  return true;
}

bool PeerWatch::keepalive_due() noexcept {
  if (context_.now < keepalive_at_) return false;
  start();
  return true;
}

void PeerWatch::was_asked() noexcept {
  if (keepalive_at_ == kNever) return;
  asked_ = true;
  keepalive_at_ = context_.now + context_.config.limits.keepalive_interval * 5 / 4;
}

/// How long the peer may be silent: for ever while our own port is down. After our port came back, the peer
/// gets time for its own port until it is heard again.
Instant PeerWatch::silent_until() const noexcept {
  if (port_down()) return kNever;
  const SessionLimits& limits = context_.config.limits;
  const Instant silent = heard_at_ + limits.silence_max;
  return heard_at_ >= port_up_at_ ? silent : std::max(silent, port_up_at_ + limits.port_up_grace);
}

/// When a host asks its silent unit by RTU whether it knows the session. A unit sends no probes.
Instant PeerWatch::probe_at() const noexcept {
  const bool asks = context_.is_host() && !port_down() &&
                    (context_.state == SessionState::kOpening || context_.state == SessionState::kOpen);
  if (!asks) return kNever;
  const SessionLimits& limits = context_.config.limits;
  return std::max(heard_at_ + limits.probe_after, probed_at_ + limits.connect_interval);
}

bool PeerWatch::take_probe() noexcept {
  if (context_.now < probe_at()) return false;
  probed_at_ = context_.now;
  return true;
}

Instant PeerWatch::deadline() const noexcept {
  const Instant silent = silent_until();
  return std::min({keepalive_at_, probe_at(), silent == kNever ? kNever : silent + Duration(1)});
}

}  // namespace weft::session
