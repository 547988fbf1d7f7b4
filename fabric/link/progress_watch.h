// fabric/link/progress_watch.h -- watches the liveness of a link at the end that waits. If flits stay
// unacknowledged or a lane stays without credit, this end asks the peer to answer. The interval between
// questions doubles after a while. docs/flow_control.md.
#pragma once

#include <algorithm>

#include "base/clock.h"
#include "fabric/link/limits.h"

namespace weft::fabric {

/// Timers of one engine; the simulator shortens or stretches them.
struct LinkTimers {
  Duration ack_delay = 10us;   // after this long an idle link sends untold acknowledgements and credits
  Duration probe_first = 2ms;  // after this long without progress the peer is asked to answer
  Duration probe_max = 200ms;  // upper limit of the interval between questions
  // Before this time the interval does not double on carriers that lose flits: question or answer may be lost
  // several times in a row, and after this time a switch gives up cells for an output that moves nothing.
  Duration probe_steady = kOutputStandstill;
};

/// Owner: the link's thread. `waiting`: this end waits for an acknowledgement or for credit.
class ProgressWatch {
 public:
  explicit ProgressWatch(const LinkTimers& timers) noexcept
      : first_(timers.probe_first), max_(timers.probe_max), steady_(timers.probe_steady) {}

  /// The link comes up.
  void start(Instant now) noexcept;
  /// An acknowledgement or credit that this end waited for has come.
  void progress() noexcept {
    probe_at_ = kNever;
    interval_ = first_;
  }
  /// One has come, and this end waits for another. The question remains due, and those after it come at short
  /// intervals.
  void progress_elsewhere(Instant now) noexcept {
    interval_ = first_;
    since_ = now;
    if (probe_at_ != kNever) probe_at_ = std::min(probe_at_, now + first_);
  }
  /// Checks the timer. True: ask the peer, then call asked().
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

  /// Latest time of the next is_due(), for an end that called it last at `now`.
  [[nodiscard]] Instant deadline(bool waiting, Instant now) const noexcept {
    return probe_at_ != kNever || !waiting ? probe_at_ : now + interval_;
  }

 private:
  Duration first_;
  Duration max_;
  Duration steady_;
  Instant probe_at_ = kNever;
  Instant heard_at_{};
  Instant since_{};  // no progress since this time
  Duration interval_{};
  bool stalled_ = false;
};

}  // namespace weft::fabric
