// How it works. A peer is asked when the first connection with it is there, and every 500 ms from then on. An
// answer names the process: another one than before has the LID by now. Where an answer is missing, the
// kernel is asked whether the process has ended, which it knows of processes of this host alone. One that it
// says is there may be stopped by a debugger: it is waited for without end. Of all others twenty questions
// without an answer are the end, whether or not they could be sent.
#include "rdma_cm/peer_watch.h"

namespace weft::rdma_cm {

void PeerWatch::begin(Lid peer) noexcept {
  Peer& known = peers_[peer];
  known.news = true;
  if (known.connections++ != 0) return;
  known.transaction = random_.next();
  timers_.emplace(known.next, peer);
}

void PeerWatch::end(Lid peer) noexcept {
  const auto found = peers_.find(peer);
  if (found == peers_.end() || --found->second.connections != 0) return;
  timers_.erase({found->second.next, peer});
  peers_.erase(found);
}

void PeerWatch::receive(Instant now, Lid from, const CmMad& mad) noexcept {
  if (mad.kind == MadKind::kWhoIsThere) return answer(from, mad);
  const auto found = peers_.find(from);
  if (mad.kind != MadKind::kIsThere || found == peers_.end() ||
      found->second.transaction != mad.transaction) {
    counters_.add(PeerCounter::kUnexpected);
    return;
  }
  Peer& peer = found->second;
  peer.unanswered = 0;
  const bool same = peer.process == mad.process;
  if (same && !peer.news) return;
  if (!same && peer.process != MadProcess{}) counters_.add(PeerCounter::kReplaced);
  peer.process = mad.process;
  peer.news = false;
  user_.on_peer(now, from, mad.process.incarnation);
}

void PeerWatch::answer(Lid to, const CmMad& question) noexcept {
  const CmMad reply{.kind = MadKind::kIsThere, .transaction = question.transaction, .process = self_};
  counters_.add(port_.send(to, encode_mad(reply)) ? PeerCounter::kAnswered : PeerCounter::kSendRefused);
}

void PeerWatch::poll(Instant now) noexcept {
  while (!timers_.empty() && timers_.begin()->first <= now) {
    const Lid lid = timers_.begin()->second;
    Peer& peer = peers_.find(lid)->second;
    timers_.erase(timers_.begin());
    if (!has_gone(peer)) {
      ask(now, lid, peer);
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
  const CmMad question{.kind = MadKind::kWhoIsThere, .transaction = peer.transaction};
  counters_.add(port_.send(lid, encode_mad(question)) ? PeerCounter::kAsked : PeerCounter::kSendRefused);
  peer.next = now + pace();
  timers_.emplace(peer.next, lid);
}

}  // namespace weft::rdma_cm
