// fabric/link/progress_watch.h -- liveness of a link, watched by the end that waits: when its flits stay
// unacknowledged or a lane stays without credit it asks the peer to answer, at intervals that double after a
// while. docs/flow_control.md.
#pragma once

#include "base/clock.h"
#include "fabric/link/limits.h"

namespace weft::fabric {

/// Timers of one engine; the simulator shortens or stretches them.
struct LinkTimers {
  Duration ack_delay = 10us;   // an idle link tells what it owes after this long
  Duration probe_first = 2ms;  // no progress: ask the peer to answer
  Duration probe_max = 200ms;  // the interval doubles up to this
  // Where flits can get lost it does not grow before: question or answer may be lost several times in a row,
  // and a switch gives up what waits for an output that moves nothing for this long.
  Duration probe_steady = kOutputStandstill;
};

/// Owner: the link's thread. `waiting`: this end waits for something of the peer's.
class ProgressWatch {
 public:
  explicit ProgressWatch(const LinkTimers& timers) noexcept
      : first_(timers.probe_first), max_(timers.probe_max), steady_(timers.probe_steady) {}

  /// The link comes up.
  void start(Instant now) noexcept;
  /// Something of what was waited for has come.
  void progress() noexcept {
    probe_at_ = kNever;
    interval_ = first_;
  }
  /// Looks again. True: ask the peer, and call asked().
  [[nodiscard]] bool is_due(bool waiting, Instant now) noexcept;
  /// @param lossless question and answer cannot get lost
  void asked(bool lossless, Instant now) noexcept;
  /// The peer need not answer until the next is_due().
  void rest() noexcept { probe_at_ = kNever; }

  // ---- signs of life --------------------
  void heard(Instant now) noexcept { heard_at_ = now; }
  /// This end has not polled: the peer's silence begins at the next poll.
  void was_deaf() noexcept { heard_at_ = kNever; }
  /// True, once, when the peer has given no sign for kPeerStalledNotice while this end waited.
  [[nodiscard]] bool has_stalled(bool waiting, Instant now) noexcept;

  /// Latest time of the next look, of an end that looked last at `now`.
  [[nodiscard]] Instant deadline(bool waiting, Instant now) const noexcept {
    return probe_at_ != kNever || !waiting ? probe_at_ : now + interval_;
  }

 private:
  Duration first_;
  Duration max_;
  Duration steady_;
  Instant probe_at_ = kNever;
  Instant heard_at_{};
  Instant since_{};  // no progress since
  Duration interval_{};
  bool stalled_ = false;
};

}  // namespace weft::fabric
