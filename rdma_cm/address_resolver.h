// rdma_cm/address_resolver.h -- finds the endnode that has an IP address by a question to all endnodes, as
// ARP does. Several endnodes of one host share the host's addresses. So the question also names a port, and
// an endnode that listens there is preferred. Not every endnode's answer is accepted (docs/rdma_cm.md, "Who
// has an IP address"). Without I/O.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "base/clock.h"
#include "base/counters.h"
#include "base/rng.h"
#include "base/token_bucket.h"
#include "messages/ids.h"
#include "messages/mad/endnode.h"
#include "rdma_cm/answer_rate.h"
#include "rdma_cm/connection.h"

namespace weft::rdma_cm {

/// To what degree this endnode has an address with a port: not at all, the address, an identifier bound to
/// the port, a listener there. The highest value wins.
enum class Owns : uint8_t { kNo, kYes, kBound, kListens };

class AddressUser {
 public:
  virtual ~AddressUser() = default;
  [[nodiscard]] virtual Owns owns(const MadAddress& question) noexcept = 0;
  /// True when another endnode of this host holds the port at an address of the host. The question is then
  /// for that endnode, even if it has not answered yet.
  [[nodiscard]] virtual bool held_elsewhere(const MadAddress& question) noexcept = 0;
  /// A question has ended, for which the user gave `handle` to ask(). LID 0: no endnode has the address.
  virtual void on_resolved(uint64_t question, uint32_t handle, Lid lid, Guid guid) noexcept = 0;
};

enum class AddressCounter : uint8_t {
  kAsked,
  kRepeats,
  kAnswered,
  kNotOurs,     // questions about addresses that are not ours
  kNotOwner,    // answers of endnodes that may not have the address
  kUnexpected,  // answers to no question, or late ones
  kTimeouts,
  kSendRefused,
  kFull,
  kPaced,     // questions that were not sent now, because too many had just been sent
  kOverRate,  // questions that were ours and not answered, because too many had come
  kCount
};
[[nodiscard]] constexpr CounterNames<AddressCounter> counter_labels(AddressCounter /*of*/) noexcept {
  return {"asked",    "repeats",      "answered", "not_ours", "not_owner", "unexpected",
          "timeouts", "send_refused", "full",     "paced",    "over_rate"};
}

class AddressResolver {
 public:
  static constexpr size_t kQuestionsMax = 4096;
  static constexpr Duration kRepeat = 50ms;
  /// With more questions each one is repeated less often. So an endnode sends at most kFloodsPerSecond, and
  /// what the switch passes to QP1 beyond that is left for its connections.
  static constexpr size_t kQuestionsAtFullPace = 40;
  static constexpr uint32_t kFloodsPerSecond = kQuestionsAtFullPace * 1s / kRepeat;
  static constexpr uint32_t kFloodBurst = 128;
  /// How long to wait for an endnode that listens after an endnode that only has the address has answered: on
  /// a busy machine the listener's thread must be woken first. If a listener is known to exist, the wait is
  /// longer.
  static constexpr Duration kGrace = 300ms;

  /// @param host  NodeAddresses::host_number(), which never leaves this process; 0: unknown, so that no
  /// endnode counts as one of this host
  AddressResolver(Guid guid, RandomSource& random, MadPort& port, AddressUser& user,
                  uint64_t host = 0) noexcept
      : guid_(guid), host_(host), nonce_(random.next()), random_(random), port_(port), user_(user) {}

  /// Starts a question. on_resolved() follows from receive() or poll(), at the latest after `limit`. @return
  /// the question's number; 0 when there are kQuestionsMax questions or no memory.
  [[nodiscard]] uint64_t ask(Instant now, const MadAddress& address, Lid own, Duration limit,
                             uint32_t handle) noexcept;
  /// Drops the question; on_resolved() is not called.
  void forget(uint64_t question) noexcept;

  /// Takes a WhoHas or a Has.
  void receive(Instant now, Lid from, const EndnodeMad& mad) noexcept;
  void poll(Instant now) noexcept;
  [[nodiscard]] Instant deadline() const noexcept {
    return timers_.empty() ? kNever : timers_.begin()->first;
  }
  [[nodiscard]] CounterSet<AddressCounter>& counters() noexcept { return counters_; }

 private:
  struct Question {
    MadAddress address{};
    uint32_t handle = 0;     // of the user
    Lid asker{};             // our own LID
    Lid only{};              // the endnode to which this fixed address belongs; kLidNone: not a fixed address
    bool this_host = false;  // the address is one of this host: only its endnodes have it
    Lid found{};             // the best answer so far
    Guid found_guid{};
    uint64_t found_host = 0;  // mark of the answer; 0: our own answer
    Owns found_owns = Owns::kNo;
    bool found_first = true;  // the answer came from the address's known host, or no host is known
    Instant repeat{};
    Instant end{};    // end of the grace period, or of the time limit before the first answer
    Instant due{};    // the earlier of repeat and end
    Instant limit{};  // time limit of the program
  };
  [[nodiscard]] Duration pace() const noexcept {
    return kRepeat * static_cast<int64_t>(1 + questions_.size() / kQuestionsAtFullPace);
  }
  /// kGrace, or as long as it takes to ask three times: a question that was paced has been sent by then.
  [[nodiscard]] Duration grace() const noexcept { return std::max<Duration>(kGrace, 3 * pace()); }
  void flood(Instant now, uint64_t number, const Question& question) noexcept;
  void answer(Instant now, Lid to, uint64_t transaction, const MadAddress& asked) noexcept;
  void take_answer(Instant now, Lid from, uint64_t transaction, const MadAddress& answer) noexcept;
  /// A value that only endnodes of this host can compute; questions and answers carry it.
  [[nodiscard]] uint64_t mark(EndnodeAttribute kind, Lid asker, uint64_t nonce) const noexcept;
  [[nodiscard]] bool may_answer(const Question& question, Lid from, uint64_t host) const noexcept;
  /// True when no other host is known to have the address.
  [[nodiscard]] bool comes_first(const Question& question, uint64_t host) const noexcept;
  [[nodiscard]] bool goes_on(Instant now, Question& question) noexcept;
  /// Sets `due` and the question's timer.
  void schedule(uint64_t number, Question& question) noexcept;
  void finish(uint64_t number, const Question& question) noexcept;

  Guid guid_;
  uint64_t host_;
  uint64_t nonce_;  // of this process, so that a mark given to another process has no use here
  RandomSource& random_;
  MadPort& port_;
  AddressUser& user_;
  std::map<uint64_t, Question> questions_;
  std::set<std::pair<Instant, uint64_t>> timers_;  // `due` and number of each question
  /// By family and address: the mark of the host that was found there.
  std::map<std::pair<uint8_t, Gid>, uint64_t> owners_;
  TokenBucket floods_{kFloodsPerSecond, kFloodBurst};
  AnswerRate answers_;
  CounterSet<AddressCounter> counters_;
};

}  // namespace weft::rdma_cm
