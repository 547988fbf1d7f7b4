#include "adapter/transport/direct/direct_keys.h"

#include <algorithm>
#include <new>

namespace weft::adapter {

void DirectKeys::used(QueuePair& qp, Rkey key) noexcept {
  DirectPeer& peer = *direct_of(qp).peer;
  if (peer.mixed || !peer.open()) return;
  const std::optional<MemoryRange> range = engine_.memory.own_range(qp.config.pd, key);
  if (!range) return;
  const WindowEntry entry{
      .start = range->start,
      .length = range->length,
      .rights = (range->read ? uint32_t{kTableRead} : 0U) | (range->write ? uint32_t{kTableWrite} : 0U),
      .key = key.value()};
  if (entry.rights == 0) return;
  // The peer may not have heard yet that one of its QPs has lost the right.
  if ((entry.rights & kTableWrite) != 0 && (peer.taken_back & kGrantWrite) != 0) return;
  if ((entry.rights & kTableRead) != 0 && (peer.taken_back & kGrantRead) != 0) return;
  try {
    fabric::OwnWindow& own = peer.window->own();
    const auto [place, added] = peer.shown.try_emplace(key.value(), 0);
    const bool withdrawn = place->second != 0;
    if (!added && !(withdrawn && own.settled(place->second))) return;
    place->second = 0;
    if (own.publish(entry) != fabric::PublishResult::kOk) peer.shown.erase(place);
  } catch (const std::bad_alloc&) {  // the key stays one through the owner
  }
}

void DirectKeys::withdraw_all(DirectPeer& peer) noexcept {
  if (!peer.open()) return;
  for (auto& [key, generation] : peer.shown) {
    if (generation == 0) generation = peer.window->own().withdraw(key);
  }
}

bool DirectKeys::let_go(DirectPeer& peer) noexcept {
  if (!peer.made()) return true;
  fabric::OwnWindow& own = peer.window->own();
  bool all = true;
  for (auto& [key, generation] : peer.shown) {
    if (generation == 0) generation = own.withdraw(key);
    all &= own.settled(generation);
  }
  return all;
}

bool DirectKeys::settled(DirectPeer& peer, uint32_t key) noexcept {
  const auto found = peer.shown.find(key);
  if (found == peer.shown.end()) return true;
  fabric::OwnWindow& own = peer.window->own();
  if (found->second == 0) found->second = own.withdraw(key);
  if (!own.settled(found->second)) return false;
  peer.shown.erase(found);
  return true;
}

bool DirectKeys::may_end(Rkey key) noexcept {
  bool all = true;
  for (const auto& peer : peers_) {
    if (peer->made()) all &= settled(*peer, key.value());
    // Our own device, when it is late, may be reading or writing the region for a request here.
    const auto moves = [](const QueuePair* qp) { return direct_of(*qp).accesses != 0; };
    all &= std::none_of(peer->qps.begin(), peer->qps.end(), moves);
  }
  return all;
}

}  // namespace weft::adapter
