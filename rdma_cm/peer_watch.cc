// How it works. A peer is asked when the first connection with it begins, and then every 500 ms. The answer
// names the peer's process. If the process is a new one, the peer's LID has changed its owner. If an answer
// is missing, the kernel is asked whether the process has ended; it knows only processes of this host. A
// process that still exists may be stopped by a debugger, so it is waited for without limit. For all other
// peers, twenty questions without an answer count as the end, whether or not the questions could be sent.
#include "rdma_cm/peer_watch.h"

#include "base/out_of_memory.h"

namespace weft::rdma_cm {

bool PeerWatch::begin(Lid peer) noexcept {
  auto known = peers_.find(peer);
  if (known == peers_.end()) {
    const bool made = with_memory([&] {
      std::set timer{std::pair(Peer().next, peer)};
      known = peers_.try_emplace(peer).first;
      timers_.merge(timer);
    });
    if (!made) return false;
    known->second.transaction = random_.next();
  }
  known->second.news = true;
  ++known->second.connections;
  return true;
}

void PeerWatch::end(Lid peer) noexcept {
  const auto found = peers_.find(peer);
  if (found == peers_.end() || --found->second.connections != 0) return;
  timers_.erase({found->second.next, peer});
  peers_.erase(found);
}

void PeerWatch::receive(Instant now, Lid from, const EndnodeMad& mad) noexcept {
  if (std::holds_alternative<WhoIsThere>(mad.body)) return answer(from, mad.transaction);
  const auto* answer = std::get_if<IsThere>(&mad.body);
  const auto found = peers_.find(from);
  if (answer == nullptr || found == peers_.end() || found->second.transaction != mad.transaction) {
    counters_.add(PeerCounter::kUnexpected);
    return;
  }
  const MadProcess& process = answer->process;
  Peer& peer = found->second;
  peer.unanswered = 0;
  // Only the incarnation tells processes apart. What else a peer says of the same process is not news.
  const bool same = peer.process.incarnation == process.incarnation;
  if (same && !peer.news) return;
  if (!same && peer.process != MadProcess{}) counters_.add(PeerCounter::kReplaced);
  if (!same) peer.process = process;
  peer.news = false;
  user_.on_peer(now, from, process.incarnation);
}

void PeerWatch::answer(Lid to, uint64_t transaction) noexcept {
  const MadBytes reply = encode_endnode({.transaction = transaction, .body = IsThere{.process = self_}});
  counters_.add(port_.send(to, reply) ? PeerCounter::kAnswered : PeerCounter::kSendRefused);
}

void PeerWatch::poll(Instant now) noexcept {
  while (!timers_.empty() && timers_.begin()->first <= now) {
    auto timer = timers_.extract(timers_.begin());
    const Lid lid = timer.value().second;
    Peer& peer = peers_.find(lid)->second;
    if (!has_gone(peer)) {
      ask(now, lid, peer);
      timer.value().first = peer.next;
      timers_.insert(std::move(timer));
      continue;
    }
    peers_.erase(lid);
    user_.on_peer_gone(now, lid);
  }
}

bool PeerWatch::has_gone(const Peer& peer) noexcept {
  if (peer.unanswered == 0) return false;
  switch (user_.presence(peer.process)) {
    case Presence::kEnded:
      counters_.add(PeerCounter::kEnded);
      return true;
    case Presence::kRuns:
      return false;
    case Presence::kUnknown:
      break;
  }
  if (peer.unanswered < kUnansweredMax) return false;
  counters_.add(PeerCounter::kSilent);
  return true;
}

void PeerWatch::ask(Instant now, Lid lid, Peer& peer) noexcept {
  ++peer.unanswered;
  const MadBytes question = encode_endnode({.transaction = peer.transaction, .body = WhoIsThere{}});
  counters_.add(port_.send(lid, question) ? PeerCounter::kAsked : PeerCounter::kSendRefused);
  peer.next = now + pace();
}

}  // namespace weft::rdma_cm
