// fabric/link/wake_list.h -- peers that sleep and are to be woken: noted by carriers during a turn, woken
// after it, when the owner has given its lock back. Waking is a system call.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

namespace weft::fabric {

/// Wakes the peer of one link. It outlives its carrier, so that a wake-up noted before the link went down
/// may still be sent: by then it has no effect. Any thread.
class PeerBell {
 public:
  virtual ~PeerBell() = default;
  virtual void ring() noexcept = 0;
};

/// Owner: the holder of the lock of the turn.
class WakeList {
 public:
  /// Of `links` links at most. A link that came up anew may be here twice.
  explicit WakeList(size_t links) { bells_.reserve(2 * links); }

  [[nodiscard]] bool empty() const noexcept { return bells_.empty(); }
  /// A peer that is to be woken already is not noted again.
  void add(const std::shared_ptr<PeerBell>& bell) noexcept {
    if (bells_.size() == bells_.capacity()) return;
    if (std::find(bells_.begin(), bells_.end(), bell) == bells_.end()) bells_.push_back(bell);
  }
  /// Takes one. Not when empty.
  [[nodiscard]] std::shared_ptr<PeerBell> take() noexcept {
    std::shared_ptr<PeerBell> bell = std::move(bells_.back());
    bells_.pop_back();
    return bell;
  }

 private:
  std::vector<std::shared_ptr<PeerBell>> bells_;
};

}  // namespace weft::fabric
