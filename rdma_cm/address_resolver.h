// rdma_cm/address_resolver.h -- who has an IP address: a question to all endnodes, in the manner of ARP.
// Several endnodes of one host have the host's addresses in common, so the question names a port too and an
// endnode that listens there is preferred. Without I/O.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "base/clock.h"
#include "base/counters.h"
#include "base/rng.h"
#include "messages/cm_mad.h"
#include "messages/ids.h"
#include "rdma_cm/connection.h"

namespace weft::rdma_cm {

/// How far an address with a port is ours: not at all, the address, somebody is bound to the port, somebody
/// listens there. Whoever has more of it is the one that is meant.
enum class Owns : uint8_t { kNo, kYes, kBound, kListens };

class AddressUser {
 public:
  virtual ~AddressUser() = default;
  [[nodiscard]] virtual Owns owns(const MadAddress& question) noexcept = 0;
  /// Another endnode of this host holds the port at an address that is the host's. It is the one that is
  /// meant, though it may not have answered yet.
  [[nodiscard]] virtual bool held_elsewhere(const MadAddress& question) noexcept = 0;
  /// The end of a question; LID 0: nobody has the address.
  virtual void on_resolved(uint64_t question, Lid lid, Guid guid) noexcept = 0;
};

enum class AddressCounter : uint8_t {
  kAsked,
  kRepeats,
  kAnswered,
  kNotOurs,     // questions of others about addresses of others
  kUnexpected,  // answers to no question, or too late
  kTimeouts,
  kSendRefused,
  kFull,
  kCount
};
[[nodiscard]] constexpr CounterNames<AddressCounter> counter_labels(AddressCounter /*of*/) noexcept {
  return {"asked", "repeats", "answered", "not_ours", "unexpected", "timeouts", "send_refused", "full"};
}

class AddressResolver {
 public:
  static constexpr size_t kQuestionsMax = 4096;
  static constexpr Duration kRepeat = 50ms;
  /// How long an endnode that listens may take to answer after one that only has the address: on a busy
  /// machine its thread has to be woken first. Where one is known to be there it is waited for longer.
  static constexpr Duration kGrace = 300ms;

  AddressResolver(Guid guid, RandomSource& random, MadPort& port, AddressUser& user) noexcept
      : guid_(guid), random_(random), port_(port), user_(user) {}

  /// Begins to ask; on_resolved() follows from receive() or poll(), at the latest after `limit`. @return the
  /// question's number, 0 when there are too many.
  [[nodiscard]] uint64_t ask(Instant now, const MadAddress& address, Lid own, Duration limit) noexcept;
  /// Nobody wants to know any more.
  void forget(uint64_t question) noexcept;

  void receive(Instant now, Lid from, const CmMad& mad) noexcept;
  void poll(Instant now) noexcept;
  [[nodiscard]] Instant deadline() const noexcept;
  [[nodiscard]] CounterSet<AddressCounter>& counters() noexcept { return counters_; }

 private:
  struct Question {
    MadAddress address{};
    Lid found{};  // who has most of it so far
    Guid found_guid{};
    Owns found_owns = Owns::kNo;
    Instant repeat{};
    Instant end{};    // of the time of grace, if that has begun
    Instant due{};    // the earlier of the two
    Instant limit{};  // of the program's patience
  };
  void flood(uint64_t number, const Question& question) noexcept;
  void answer(Lid to, const CmMad& mad) noexcept;
  [[nodiscard]] bool goes_on(Instant now, Question& question) noexcept;
  void finish(uint64_t number, Lid lid, Guid guid) noexcept;

  Guid guid_;
  RandomSource& random_;
  MadPort& port_;
  AddressUser& user_;
  std::map<uint64_t, Question> questions_;
  CounterSet<AddressCounter> counters_;
};

}  // namespace weft::rdma_cm
