#include "session/session_context.h"

namespace weft::session {

void IncarnationEnd::lose(SessionCounter reason) noexcept {
  if (reason_) return;
  reason_ = reason;
  context_.count(reason);
}

void IncarnationEnd::violation(SessionCounter rule) noexcept {
  context_.count(rule);
  if (!reason_) {
    log(LogLevel::kWarn, "{}: peer lid {} broke the rules: {}", context_.config.name,
        context_.peer.lid.value(), CounterSet<SessionCounter>::label(rule));
    peers_fault_ = true;
  }
  lose(SessionCounter::kLostViolation);
}

}  // namespace weft::session
