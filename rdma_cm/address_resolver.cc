// How it works. A question is flooded every 50 ms until somebody answers that it listens there, or the time
// of grace since the first answer is over, or all the time is up. Own addresses count as an answer. The time
// of grace begins anew while somebody of this host is known to hold the port who has not answered: after a
// switch was started anew its endnodes join one after the other, and whoever asks may be the first.
#include "rdma_cm/address_resolver.h"

#include <algorithm>

namespace weft::rdma_cm {

uint64_t AddressResolver::ask(Instant now, const MadAddress& address, Lid own, Duration limit) noexcept {
  if (questions_.size() >= kQuestionsMax) {
    counters_.add(AddressCounter::kFull);
    return 0;
  }
  uint64_t number = 0;
  while (number == 0 || questions_.contains(number)) number = random_.next();
  Question question{.address = address, .repeat = now + kRepeat, .end = now + limit, .limit = now + limit};
  counters_.add(AddressCounter::kAsked);
  question.found_owns = user_.owns(address);
  if (question.found_owns != Owns::kNo) {
    question.found = own;
    question.found_guid = guid_;
    question.end = question.found_owns == Owns::kListens ? now : std::min(question.end, now + kGrace);
  }
  question.due = std::min(question.repeat, question.end);
  if (question.end != now) flood(number, question);
  questions_.emplace(number, question);
  return number;
}

void AddressResolver::forget(uint64_t question) noexcept {
  questions_.erase(question);
}

void AddressResolver::flood(uint64_t number, const Question& question) noexcept {
  const CmMad mad{.kind = MadKind::kWhoHas, .transaction = number, .address = question.address};
  if (!port_.flood(encode_mad(mad))) counters_.add(AddressCounter::kSendRefused);
}

void AddressResolver::receive(Instant now, Lid from, const CmMad& mad) noexcept {
  if (mad.kind == MadKind::kWhoHas) return answer(from, mad);
  const auto found = questions_.find(mad.transaction);
  if (mad.kind != MadKind::kHas || found == questions_.end()) {
    counters_.add(AddressCounter::kUnexpected);
    return;
  }
  Question& question = found->second;
  const Owns owns = static_cast<Owns>(std::min(mad.address.owns, static_cast<uint8_t>(Owns::kListens)));
  if (owns == Owns::kListens) return finish(found->first, from, Guid(mad.address.guid));
  if (owns <= question.found_owns) return;
  question.found = from;
  question.found_guid = Guid(mad.address.guid);
  question.found_owns = owns;
  question.end = std::min(question.end, now + kGrace);
  question.due = std::min(question.due, question.end);
}

void AddressResolver::answer(Lid to, const CmMad& mad) noexcept {
  const Owns owns = user_.owns(mad.address);
  if (owns == Owns::kNo) return counters_.add(AddressCounter::kNotOurs);
  CmMad reply = mad;
  reply.kind = MadKind::kHas;
  reply.address.owns = static_cast<uint8_t>(owns);
  reply.address.guid = guid_.value();
  counters_.add(port_.send(to, encode_mad(reply)) ? AddressCounter::kAnswered : AddressCounter::kSendRefused);
}

void AddressResolver::poll(Instant now) noexcept {
  for (auto at = questions_.begin(); at != questions_.end();) {
    const uint64_t number = at->first;
    Question& question = (at++)->second;
    if (question.due > now) continue;
    if (question.end <= now && !goes_on(now, question)) {
      if (question.found == kLidNone) counters_.add(AddressCounter::kTimeouts);
      finish(number, question.found, question.found_guid);
      continue;
    }
    counters_.add(AddressCounter::kRepeats);
    flood(number, question);
    question.repeat = now + kRepeat;
    question.due = std::min(question.repeat, question.end);
  }
}

/// At the end of a time of grace. Who has the address and not the port is not meant if another holds that.
bool AddressResolver::goes_on(Instant now, Question& question) noexcept {
  if (question.found_owns != Owns::kYes || !user_.held_elsewhere(question.address)) return false;
  if (question.limit <= now) {
    question.found = kLidNone;
    return false;
  }
  question.end = std::min(question.limit, now + kGrace);
  return true;
}

void AddressResolver::finish(uint64_t number, Lid lid, Guid guid) noexcept {
  questions_.erase(number);
  user_.on_resolved(number, lid, guid);
}

Instant AddressResolver::deadline() const noexcept {
  Instant due = kNever;
  for (const auto& [number, question] : questions_) due = std::min(due, question.due);
  return due;
}

}  // namespace weft::rdma_cm
