// rdma_cm/peer_watch.h -- are the processes still there that this endnode has connections with? A kernel says
// goodbye for a process that was killed; here no part of it is left that could. So each peer is asked now and
// then, and where its silence may mean anything this host's kernel is asked about it. Without I/O.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "base/clock.h"
#include "base/counters.h"
#include "base/rng.h"
#include "messages/ids.h"
#include "messages/mad/endnode.h"
#include "rdma_cm/connection.h"

namespace weft::rdma_cm {

/// What this host knows of a process.
enum class Presence : uint8_t { kUnknown, kRuns, kEnded };

class PeerUser {
 public:
  virtual ~PeerUser() = default;
  [[nodiscard]] virtual Presence presence(const MadProcess& process) noexcept = 0;
  /// This process has the LID now: whatever was with another one there has ended.
  virtual void on_peer(Instant now, Lid peer, uint64_t incarnation) noexcept = 0;
  /// The peer has ended. It is not watched from now on.
  virtual void on_peer_gone(Instant now, Lid peer) noexcept = 0;
};

enum class PeerCounter : uint8_t {
  kAsked,
  kAnswered,    // questions of others
  kUnexpected,  // answers to no question
  kSendRefused,
  kReplaced,  // another process answered
  kEnded,     // silent, and its host says that it has ended
  kSilent,    // silent for too long
  kCount
};
[[nodiscard]] constexpr CounterNames<PeerCounter> counter_labels(PeerCounter /*of*/) noexcept {
  return {"asked", "answered", "unexpected", "send_refused", "replaced", "ended", "silent"};
}

/// One owner thread, or a lock around it.
class PeerWatch {
 public:
  static constexpr Duration kAskEvery = 500ms;
  /// So many questions without an answer end it, 10 s: as long as a connection lives without its port.
  static constexpr uint32_t kUnansweredMax = 20;
  /// With more peers each is asked less often: a switch lets 2000 datagrams a second pass to QP1.
  static constexpr size_t kPeersAtFullPace = 256;

  PeerWatch(const MadProcess& self, RandomSource& random, MadPort& port, PeerUser& user) noexcept
      : self_(self), random_(random), port_(port), user_(user) {}

  /// One connection more, or less, with that peer. False when there is no memory to watch the peer.
  [[nodiscard]] bool begin(Lid peer) noexcept;
  void end(Lid peer) noexcept;

  /// A WhoIsThere or IsThere.
  void receive(Instant now, Lid from, const EndnodeMad& mad) noexcept;
  void poll(Instant now) noexcept;
  [[nodiscard]] Instant deadline() const noexcept {
    return timers_.empty() ? kNever : timers_.begin()->first;
  }
  [[nodiscard]] CounterSet<PeerCounter>& counters() noexcept { return counters_; }

 private:
  struct Peer {
    uint32_t connections = 0;
    uint32_t unanswered = 0;  // questions since the last answer
    uint64_t transaction = 0;
    bool news = true;  // the user has not heard who it is, or has connections that are newer than that
    MadProcess process{};
    Instant next = Instant::min();
  };
  /// Sets when the peer is due next.
  void ask(Instant now, Lid lid, Peer& peer) noexcept;
  [[nodiscard]] Duration pace() const noexcept {
    return kAskEvery * static_cast<int64_t>(1 + peers_.size() / kPeersAtFullPace);
  }
  [[nodiscard]] bool has_gone(const Peer& peer) noexcept;
  void answer(Lid to, uint64_t transaction) noexcept;

  MadProcess self_;
  RandomSource& random_;
  MadPort& port_;
  PeerUser& user_;
  std::map<Lid, Peer> peers_;
  std::set<std::pair<Instant, Lid>> timers_;
  CounterSet<PeerCounter> counters_;
};

}  // namespace weft::rdma_cm
