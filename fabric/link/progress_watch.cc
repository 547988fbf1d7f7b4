#include "fabric/link/progress_watch.h"

#include <algorithm>

namespace weft::fabric {

void ProgressWatch::start(Instant now) noexcept {
  progress();
  heard_at_ = now;
  stalled_ = false;
}

bool ProgressWatch::is_due(bool waiting, Instant now) noexcept {
  if (!waiting) {
    probe_at_ = kNever;
    return false;
  }
  if (probe_at_ != kNever) return now >= probe_at_;
  since_ = heard_at_ = now;  // a peer that owes nothing may be silent
  probe_at_ = now + interval_;
  return false;
}

void ProgressWatch::asked(bool lossless, Instant now) noexcept {
  if (lossless || now - since_ >= steady_) interval_ = std::min(interval_ * 2, max_);
  probe_at_ = now + interval_;
}

bool ProgressWatch::has_stalled(bool waiting, Instant now) noexcept {
  if (!waiting || heard_at_ > now) heard_at_ = now;
  const bool before = stalled_;
  stalled_ = now - heard_at_ >= kPeerStalledNotice;
  return stalled_ && !before;
}

}  // namespace weft::fabric
