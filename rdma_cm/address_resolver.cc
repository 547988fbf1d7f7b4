// How it works. A question is flooded every 50 ms, or less often if there are many, until an endnode answers
// that it listens there, or the grace period since the first answer ends, or the time limit ends. Own
// addresses count as an answer. The grace period starts again while another endnode of this host is known to
// hold the port and has not answered. The reason: after a restart of the switch its endnodes join one after
// the other, and the asker may be the first.
//
// An answer is accepted only from an endnode that may have the address. Questions and answers carry a mark: a
// keyed hash over the asker's LID and nonce. The key is the number of the host, which other machines do not
// know, and the switch guarantees the LID. So an answer shows whether it comes from this host, and whether
// two answers come from one host. A mark that a stranger receives is valid for the stranger's own LID only.
#include "rdma_cm/address_resolver.h"

#include <algorithm>

#include "base/out_of_memory.h"
#include "rdma_cm/host_mark.h"
#include "rdma_cm/node_addresses.h"

namespace weft::rdma_cm {
namespace {

IpAddress ip_of(const MadAddress& address) noexcept {
  return {.family = address.family, .ip = address.ip};
}

std::pair<uint8_t, Gid> key_of(const MadAddress& address) noexcept {
  return {address.family, address.ip};
}

}  // namespace

uint64_t AddressResolver::ask(Instant now, const MadAddress& address, Lid own, Duration limit,
                              uint32_t handle) noexcept {
  if (questions_.size() >= kQuestionsMax) {
    counters_.add(AddressCounter::kFull);
    return 0;
  }
  uint64_t number = 0;
  while (number == 0 || questions_.contains(number)) number = random_.next();
  Question question{.address = address,
                    .handle = handle,
                    .asker = own,
                    .only = lid_of(ip_of(address)),
                    .repeat = now + pace(),
                    .end = now + limit,
                    .limit = now + limit};
  question.found_owns = user_.owns(address);
  question.this_host = question.found_owns != Owns::kNo || ip_of(address).is_loopback();
  if (question.found_owns != Owns::kNo) {
    question.found = own;
    question.found_guid = guid_;
    question.end = question.found_owns == Owns::kListens ? now : std::min(question.end, now + grace());
  }
  question.due = std::min(question.repeat, question.end);
  const bool kept = with_memory([&] {
    questions_.emplace(number, question);
    timers_.emplace(question.due, number);
  });
  if (!kept) {
    questions_.erase(number);
    return 0;
  }
  counters_.add(AddressCounter::kAsked);
  if (question.end != now) flood(now, number, question);
  return number;
}

void AddressResolver::forget(uint64_t question) noexcept {
  const auto found = questions_.find(question);
  if (found == questions_.end()) return;
  timers_.erase({found->second.due, question});
  questions_.erase(found);
}

void AddressResolver::schedule(uint64_t number, Question& question) noexcept {
  auto timer = timers_.extract({question.due, number});
  question.due = std::min(question.repeat, question.end);
  timer.value().first = question.due;
  timers_.insert(std::move(timer));
}

/// A question that is not sent now waits for its repeat.
void AddressResolver::flood(Instant now, uint64_t number, const Question& question) noexcept {
  if (!floods_.take(now)) return counters_.add(AddressCounter::kPaced);
  WhoHas asked{.address = question.address};
  asked.address.host = mark(EndnodeAttribute::kWhoHas, question.asker, nonce_);
  asked.address.guid = nonce_;
  if (!port_.flood(encode_endnode({.transaction = number, .body = asked})))
    counters_.add(AddressCounter::kSendRefused);
}

uint64_t AddressResolver::mark(EndnodeAttribute kind, Lid asker, uint64_t nonce) const noexcept {
  return host_mark(host_, static_cast<uint16_t>(kind), asker, nonce);
}

bool AddressResolver::may_answer(const Question& question, Lid from, uint64_t host) const noexcept {
  if (question.this_host) return host != 0 && host == mark(EndnodeAttribute::kHas, question.asker, nonce_);
  return question.only == kLidNone || question.only == from;
}

bool AddressResolver::comes_first(const Question& question, uint64_t host) const noexcept {
  const auto owner = owners_.find(key_of(question.address));
  return owner == owners_.end() || owner->second == host;
}

void AddressResolver::receive(Instant now, Lid from, const EndnodeMad& mad) noexcept {
  if (const auto* asked = std::get_if<WhoHas>(&mad.body))
    return answer(now, from, mad.transaction, asked->address);
  if (const auto* answered = std::get_if<Has>(&mad.body))
    return take_answer(now, from, mad.transaction, answered->address);
  counters_.add(AddressCounter::kUnexpected);
}

void AddressResolver::take_answer(Instant now, Lid from, uint64_t transaction,
                                  const MadAddress& answer) noexcept {
  const auto found = questions_.find(transaction);
  if (found == questions_.end()) return counters_.add(AddressCounter::kUnexpected);
  Question& question = found->second;
  const uint64_t host = answer.host;
  if (!may_answer(question, from, host)) return counters_.add(AddressCounter::kNotOwner);
  const Owns owns = static_cast<Owns>(std::min(answer.owns, static_cast<uint8_t>(Owns::kListens)));
  if (owns == Owns::kNo) return;
  const bool first = comes_first(question, host);
  if (std::pair(first, owns) <= std::pair(question.found_first, question.found_owns) &&
      question.found != kLidNone)
    return;
  question.found = from;
  question.found_guid = Guid(answer.guid);
  question.found_host = host;
  question.found_owns = owns;
  question.found_first = first;
  if (first && owns == Owns::kListens) return finish(found->first, question);
  question.end = std::min(question.end, now + grace());
  schedule(found->first, question);
}

/// An address like 127.0.0.1 is common to asker and answerer only on one host, which the asker's mark shows.
void AddressResolver::answer(Instant now, Lid to, uint64_t transaction, const MadAddress& asked) noexcept {
  const uint64_t nonce = asked.guid;
  MadAddress question = asked;
  question.host = asked.host == mark(EndnodeAttribute::kWhoHas, to, nonce) ? host_ : ~host_;
  const Owns owns = user_.owns(question);
  if (owns == Owns::kNo) return counters_.add(AddressCounter::kNotOurs);
  if (!answers_.take(now, to, owns != Owns::kYes)) return counters_.add(AddressCounter::kOverRate);
  Has reply{.address = asked};
  reply.address.host = mark(EndnodeAttribute::kHas, to, nonce);
  reply.address.owns = static_cast<uint8_t>(owns);
  reply.address.guid = guid_.value();
  const bool sent = port_.send(to, encode_endnode({.transaction = transaction, .body = reply}));
  counters_.add(sent ? AddressCounter::kAnswered : AddressCounter::kSendRefused);
}

void AddressResolver::poll(Instant now) noexcept {
  while (!timers_.empty() && timers_.begin()->first <= now) {
    const uint64_t number = timers_.begin()->second;
    Question& question = questions_.find(number)->second;
    if (question.end <= now && !goes_on(now, question)) {
      if (question.found == kLidNone) counters_.add(AddressCounter::kTimeouts);
      finish(number, question);
      continue;
    }
    counters_.add(AddressCounter::kRepeats);
    flood(now, number, question);
    question.repeat = now + pace();
    schedule(number, question);
  }
}

/// Called at the end of a grace period. Ignores an endnode that has the address but not the port while
/// another endnode of this host holds the port.
bool AddressResolver::goes_on(Instant now, Question& question) noexcept {
  if (question.found_owns != Owns::kYes || !user_.held_elsewhere(question.address)) return false;
  if (question.limit <= now) {
    question.found = kLidNone;
    return false;
  }
  question.end = std::min(question.limit, now + grace());
  return true;
}

/// From now on the found host owns the address, until it no longer answers.
void AddressResolver::finish(uint64_t number, const Question& question) noexcept {
  const Lid lid = question.found;
  const Guid guid = question.found_guid;
  const uint32_t handle = question.handle;
  if (question.found_host != 0 && !question.this_host && question.only == kLidNone) {
    if (owners_.size() >= kQuestionsMax) owners_.clear();
    static_cast<void>(with_memory([&] { owners_[key_of(question.address)] = question.found_host; }));
  }
  forget(number);
  user_.on_resolved(number, handle, lid, guid);
}

}  // namespace weft::rdma_cm
