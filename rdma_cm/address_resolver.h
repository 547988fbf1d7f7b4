// rdma_cm/address_resolver.h -- which endnode has an IP address: a question to all endnodes, in the manner of
// ARP. Several endnodes of one host have the host's addresses in common, so the question names a port too and
// an endnode that listens there is preferred. Not every endnode is believed (docs/rdma_cm.md, "Who has an IP
// address"). Without I/O.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "base/clock.h"
#include "base/counters.h"
#include "base/rng.h"
#include "messages/ids.h"
#include "messages/mad/endnode.h"
#include "rdma_cm/connection.h"

namespace weft::rdma_cm {

/// How far an address with a port is ours: not at all, the address, an identifier is bound to the port, one
/// listens there. The highest value wins.
enum class Owns : uint8_t { kNo, kYes, kBound, kListens };

class AddressUser {
 public:
  virtual ~AddressUser() = default;
  [[nodiscard]] virtual Owns owns(const MadAddress& question) noexcept = 0;
  /// Another endnode of this host holds the port at an address that is the host's. The question is for that
  /// endnode, though it may not have answered yet.
  [[nodiscard]] virtual bool held_elsewhere(const MadAddress& question) noexcept = 0;
  /// The end of a question; LID 0: no endnode has the address.
  virtual void on_resolved(uint64_t question, Lid lid, Guid guid) noexcept = 0;
};

enum class AddressCounter : uint8_t {
  kAsked,
  kRepeats,
  kAnswered,
  kNotOurs,     // questions of others about addresses of others
  kNotOwner,    // answers of endnodes that may not have the address
  kUnexpected,  // answers to no question, or too late
  kTimeouts,
  kSendRefused,
  kFull,
  kCount
};
[[nodiscard]] constexpr CounterNames<AddressCounter> counter_labels(AddressCounter /*of*/) noexcept {
  return {"asked",      "repeats",  "answered",     "not_ours", "not_owner",
          "unexpected", "timeouts", "send_refused", "full"};
}

class AddressResolver {
 public:
  static constexpr size_t kQuestionsMax = 4096;
  static constexpr Duration kRepeat = 50ms;
  /// How long an endnode that listens may take to answer after one that only has the address: on a busy
  /// machine its thread has to be woken first. Where one is known to be there it is waited for longer.
  static constexpr Duration kGrace = 300ms;

  /// @param host  NodeAddresses::host_number(), which never leaves this process; 0: not known, so no endnode
  ///              counts as one of this host
  AddressResolver(Guid guid, RandomSource& random, MadPort& port, AddressUser& user,
                  uint64_t host = 0) noexcept
      : guid_(guid), host_(host), nonce_(random.next()), random_(random), port_(port), user_(user) {}

  /// Begins to ask; on_resolved() follows from receive() or poll(), at the latest after `limit`. @return the
  /// question's number, 0 when there are too many, or no memory for one more.
  [[nodiscard]] uint64_t ask(Instant now, const MadAddress& address, Lid own, Duration limit) noexcept;
  /// Drops the question.
  void forget(uint64_t question) noexcept;

  /// A WhoHas or Has.
  void receive(Instant now, Lid from, const EndnodeMad& mad) noexcept;
  void poll(Instant now) noexcept;
  [[nodiscard]] Instant deadline() const noexcept;
  [[nodiscard]] CounterSet<AddressCounter>& counters() noexcept { return counters_; }

 private:
  struct Question {
    MadAddress address{};
    Lid asker{};             // our own LID
    Lid only{};              // the endnode whose fixed address it is; kLidNone: no such address
    bool this_host = false;  // the address is one of this host: only its endnodes have it
    Lid found{};             // the best answer so far
    Guid found_guid{};
    uint64_t found_host = 0;  // its mark; 0: our own answer
    Owns found_owns = Owns::kNo;
    bool found_first = true;  // it came from the host that has had the address so far, or none has had it
    Instant repeat{};
    Instant end{};    // of the time of grace, if that has begun
    Instant due{};    // the earlier of the two
    Instant limit{};  // of the program's patience
  };
  void flood(uint64_t number, const Question& question) noexcept;
  void answer(Lid to, uint64_t transaction, const MadAddress& asked) noexcept;
  void take_answer(Instant now, Lid from, uint64_t transaction, const MadAddress& answer) noexcept;
  /// What only endnodes of this host can compute: its questions and answers carry it.
  [[nodiscard]] uint64_t mark(EndnodeAttribute kind, Lid asker, uint64_t nonce) const noexcept;
  [[nodiscard]] bool may_answer(const Question& question, Lid from, uint64_t host) const noexcept;
  /// No other host has had the address so far.
  [[nodiscard]] bool comes_first(const Question& question, uint64_t host) const noexcept;
  [[nodiscard]] bool goes_on(Instant now, Question& question) noexcept;
  void finish(uint64_t number, const Question& question) noexcept;

  Guid guid_;
  uint64_t host_;
  uint64_t nonce_;  // of this process, so that what a host has told another one is of no use here
  RandomSource& random_;
  MadPort& port_;
  AddressUser& user_;
  std::map<uint64_t, Question> questions_;
  /// By family and address: the mark of the host that was found there.
  std::map<std::pair<uint8_t, Gid>, uint64_t> owners_;
  CounterSet<AddressCounter> counters_;
};

}  // namespace weft::rdma_cm
