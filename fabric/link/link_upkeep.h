// fabric/link/link_upkeep.h -- supervision of a link apart from its path, for an owner that lets several
// threads drive the path under a lock. Joining the switch, checking that it is still there and freeing a dead
// carrier make system calls; none of these calls is made under that lock. For shared-memory links only: other
// carriers make system calls on their path anyhow.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "fabric/link/link_engine.h"

namespace weft::fabric {

/// Threads: one thread at a time calls this object, without the path's lock. Only for settle() this thread
/// also holds the path's lock.
class LinkUpkeep final : private LinkSeat {
 public:
  /// From now on the engine's own poll() neither supervises nor takes down, and sleeping peers are noted in
  /// `wakes`. The engine must not have a carrier yet. The engine and `wakes` must outlive this object.
  LinkUpkeep(LinkEngine& path, std::unique_ptr<LinkSupervisor> supervisor, WakeList& wakes);

  /// Checks whether the peer is there, whether an answer has come and whether a new attempt is due. Takes
  /// wake-ups from the socket.
  void look(Instant now) noexcept;
  /// Applies the results of look(), and takes down a link that broke on the path. True when the link went
  /// down or up. The carrier of a dead link waits for clear().
  bool settle(Instant now) noexcept;
  void clear() noexcept { dead_.reset(); }

  /// Descriptors of carrier and supervisor. If one is ready, call look().
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
  Carrier* serving_ = nullptr;  // the path's carrier; only settle() changes it
  bool peer_gone_ = false;
  std::unique_ptr<Carrier> arriving_;  // joined, not yet given to the path
  LinkParams params_;
  std::unique_ptr<Carrier> dead_;
};

}  // namespace weft::fabric
