// rdma_cm/peer_watch.h -- checks whether the processes with which this endnode has connections still exist. A
// kernel sends DREQ for a killed process; here no part of the killed process is left to do this. So each peer
// is asked regularly, and if it does not answer, this host's kernel is asked about its process. Without I/O.
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

/// What this host's kernel knows about a process.
enum class Presence : uint8_t { kUnknown, kRuns, kEnded };

class PeerUser {
 public:
  virtual ~PeerUser() = default;
  [[nodiscard]] virtual Presence presence(const MadProcess& process) noexcept = 0;
  /// This process has the LID now: connections with an earlier process have ended.
  virtual void on_peer(Instant now, Lid peer, uint64_t incarnation) noexcept = 0;
  /// The peer's process has ended. The peer is no longer watched.
  virtual void on_peer_gone(Instant now, Lid peer) noexcept = 0;
};

enum class PeerCounter : uint8_t {
  kAsked,
  kAnswered,    // questions of other endnodes
  kUnexpected,  // answers to no question
  kSendRefused,
  kReplaced,  // another process answered
  kEnded,     // no answer, and the kernel says that the process has ended
  kSilent,    // no answer to kUnansweredMax questions
  kCount
};
[[nodiscard]] constexpr CounterNames<PeerCounter> counter_labels(PeerCounter /*of*/) noexcept {
  return {"asked", "answered", "unexpected", "send_refused", "replaced", "ended", "silent"};
}

/// One owner thread, or a lock around it.
class PeerWatch {
 public:
  static constexpr Duration kAskEvery = 500ms;
  /// Questions without an answer that count as the peer's end: 10 s, as long as a connection lives without
  /// its port.
  static constexpr uint32_t kUnansweredMax = 20;
  /// With more peers each one is asked less often, because a switch passes at most 2000 datagrams per second
  /// to QP1.
  static constexpr size_t kPeersAtFullPace = 256;

  PeerWatch(const MadProcess& self, RandomSource& random, MadPort& port, PeerUser& user) noexcept
      : self_(self), random_(random), port_(port), user_(user) {}

  /// Adds or removes one connection with the peer. begin() is false without memory to watch the peer.
  [[nodiscard]] bool begin(Lid peer) noexcept;
  void end(Lid peer) noexcept;

  /// Takes a WhoIsThere or an IsThere.
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
    bool news = true;  // on_peer() is still due: the process is new, or a connection has begun since
    MadProcess process{};
    Instant next = Instant::min();
  };
  /// Asks the peer and sets its next time.
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
