// How it works: the supervisor sees this object instead of the engine. A carrier that it brings up waits here
// until settle() gives it to the engine. A carrier whose peer is gone, or that the path found faulty, comes
// back here and is freed by clear(). So two moves of a pointer are all that happens under the path's lock.
#include "fabric/link/link_upkeep.h"

namespace weft::fabric {

LinkUpkeep::LinkUpkeep(LinkEngine& path, std::unique_ptr<LinkSupervisor> supervisor, WakeList& wakes)
    : path_(path), supervisor_(std::move(supervisor)) {
  path_.supervise_apart(wakes);
}

void LinkUpkeep::look(Instant now) noexcept {
  if (serving_ != nullptr && serving_->check_peer() != CarrierState::kUp) peer_gone_ = true;
  static_cast<void>(supervisor_->supervise(*this, now));
}

bool LinkUpkeep::settle(Instant now) noexcept {
  bool changed = false;
  if (serving_ != nullptr && (peer_gone_ || path_.state() != LinkState::kUp)) {
    dead_ = path_.surrender(peer_gone_);
    serving_ = nullptr;
    peer_gone_ = false;
    changed = true;
  }
  if (arriving_ != nullptr && serving_ == nullptr) {
    serving_ = arriving_.get();
    path_.bring_up(std::move(arriving_), params_, now);
    changed = true;
  }
  return changed;
}

void LinkUpkeep::wait_fds(std::vector<pollfd>& out) const {
  if (serving_ != nullptr) serving_->wait_fds(out);
  supervisor_->wait_fds(out);
}

LinkState LinkUpkeep::state() const noexcept {
  const bool up = arriving_ != nullptr || (serving_ != nullptr && !peer_gone_);
  return up ? LinkState::kUp : LinkState::kDown;
}

void LinkUpkeep::bring_up(std::unique_ptr<Carrier> carrier, const LinkParams& params,
                          Instant /*now*/) noexcept {
  arriving_ = std::move(carrier);
  params_ = params;
}

}  // namespace weft::fabric
