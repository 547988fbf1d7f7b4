// fabric/link/wake_list.h -- list of sleeping peers to wake. Carriers note them during a turn. The owner
// wakes them after the turn, when it has released its lock, because waking is a system call.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

namespace weft::fabric {

/// Wakes the peer of one link. The object outlives its carrier: a wake-up that was noted before the link went
/// down may be sent later, and then has no effect. Any thread.
class PeerBell {
 public:
  virtual ~PeerBell() = default;
  virtual void ring() noexcept = 0;
};

/// Owner: the thread that holds the lock of the turn.
class WakeList {
 public:
  /// For at most `links` links. A link that came up again may be in the list twice.
  explicit WakeList(size_t links) { bells_.reserve(2 * links); }

  [[nodiscard]] bool empty() const noexcept { return bells_.empty(); }
  /// Notes a peer once.
  void add(const std::shared_ptr<PeerBell>& bell) noexcept {
    if (bells_.size() == bells_.capacity()) return;
    if (std::find(bells_.begin(), bells_.end(), bell) == bells_.end()) bells_.push_back(bell);
  }
  /// Takes one entry. The list must not be empty.
  [[nodiscard]] std::shared_ptr<PeerBell> take() noexcept {
    std::shared_ptr<PeerBell> bell = std::move(bells_.back());
    bells_.pop_back();
    return bell;
  }

 private:
  std::vector<std::shared_ptr<PeerBell>> bells_;
};

}  // namespace weft::fabric
