// fabric/link/link_upkeep.h -- the supervision of a link apart from its path, for an owner that lets
// several threads drive the path under a lock: joining the switch, looking whether it is still there and
// freeing what a dead link leaves are system calls, and none of them is made under that lock. Shared-memory
// links only: other carriers make system calls on their path anyhow.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "fabric/link/link_engine.h"

namespace weft::fabric {

/// Threads: one at a time calls look(), clear() and what stands beside them, without the path's lock.
/// settle() is called by that thread too, with the path's lock.
class LinkUpkeep final : private LinkSeat {
 public:
  /// From now on the engine's own poll() neither supervises nor takes down, and what it wants to wake goes
  /// to `wakes`. The engine, which has no carrier yet, and `wakes` must outlive this.
  LinkUpkeep(LinkEngine& path, std::unique_ptr<LinkSupervisor> supervisor, WakeList& wakes);

  /// Is the peer there, is there an answer, is it time to try again? Takes wake-ups from the socket.
  void look(Instant now) noexcept;
  /// Puts into effect what look() found, and takes out a link that broke on the path. True when the link
  /// went down or up; what a dead one leaves waits for clear().
  bool settle(Instant now) noexcept;
  void clear() noexcept { dead_.reset(); }

  /// Descriptors that ask for a look(): the carrier's and the supervisor's.
  void wait_fds(std::vector<pollfd>& out) const;
  /// Latest time of the next look().
  [[nodiscard]] Instant deadline() const noexcept { return supervisor_->deadline(); }
  /// See LinkSupervisor.
  [[nodiscard]] JoinTrouble trouble() const noexcept { return supervisor_->trouble(); }

 private:
  [[nodiscard]] LinkState state() const noexcept override;
  void bring_up(std::unique_ptr<Carrier> carrier, const LinkParams& params, Instant now) noexcept override;

  LinkEngine& path_;
  std::unique_ptr<LinkSupervisor> supervisor_;
  Carrier* serving_ = nullptr;  // the path's carrier; only settle() takes it away
  bool peer_gone_ = false;
  std::unique_ptr<Carrier> arriving_;  // joined, not yet the path's
  LinkParams params_;
  std::unique_ptr<Carrier> dead_;
};

}  // namespace weft::fabric
