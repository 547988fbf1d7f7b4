// How it works: an adapter reports a key that the arriving NIC does not have. The key's top four bits name
// its maker (LAY-STAG). The component asks that NIC for its list and searches it. If the key is there, the
// whole entry goes to the NIC that asked; if not, or if no NIC has that number, the key is invalid.
//
// The component notes which NICs have got a key. When the key ends at its maker, the maker's table calls
// key_ended() before anything changes, and the component takes the key back from those NICs. An invalidation
// that arrives at another NIC is run at the maker, whose table then does the same.
#include "node/key_component.h"

#include <bit>
#include <optional>

#include "adapter/limits.h"
#include "base/log.h"
#include "base/out_of_memory.h"

namespace weft::node {

KeyComponent::KeyComponent() {
  questions_.reserve(adapter::kKeyQuestionsMax);
  answering_.reserve(adapter::kKeyQuestionsMax);
}

int KeyComponent::poll() noexcept {
  answering_.swap(questions_);  // an answer may bring the next question
  for (const adapter::KeyReport& question : answering_) {
    if (!with_memory([&] { answer(question); })) counters_.add(KeyCounter::kNoMemory);
  }
  const auto answered = static_cast<int>(answering_.size());
  answering_.clear();
  return answered;
}

void KeyComponent::report(const adapter::KeyReport& report) noexcept {
  counters_.add(KeyCounter::kQuestions);
  questions_.push_back(report);
}

void KeyComponent::answer(const adapter::KeyReport& question) {
  const uint8_t maker = adapter::nic_of_key(question.key);
  std::optional<adapter::KeyEntry> found;
  if (const std::optional<adapter::KeyList> list = nics_->list(maker); list && maker != question.nic) {
    counters_.add(KeyCounter::kLists);
    found = list->find(question.key);
  }
  log(LogLevel::kDebug, "key {:#x} is unknown at NIC {}: {} by NIC {}", question.key, question.nic,
      found ? "handed over" : "not in the list", maker);
  if (!found) {
    counters_.add(KeyCounter::kInvalid);
    return nics_->declare_invalid(question.nic, question.key);
  }
  holders_[question.key] |= static_cast<uint16_t>(1U << question.nic);
  counters_.add(KeyCounter::kHandedOver);
  nics_->hand_over(question.nic, *found);
}

uint32_t KeyComponent::holders(uint32_t key) const noexcept {
  const auto found = holders_.find(key);
  return found == holders_.end() ? 0 : static_cast<uint32_t>(std::popcount(found->second));
}

void KeyComponent::withdraw(uint32_t key) noexcept {
  const auto found = holders_.find(key);
  if (found == holders_.end()) return;
  const uint16_t nics = found->second;
  holders_.erase(found);
  for (uint8_t nic = 0; nic < adapter::kNicsMax; ++nic) {
    if ((nics >> nic & 1) != 0) nics_->withdraw(nic, key);
  }
}

void KeyComponent::key_ended(uint32_t key) noexcept {
  counters_.add(KeyCounter::kEnds);
  withdraw(key);
}

void KeyComponent::key_used(uint32_t key) noexcept {
  nics_->use_up(key);  // its maker then reports the end
}

adapter::AccessFault KeyComponent::invalidate(uint8_t /*nic*/, const adapter::Accessor& who,
                                              Rkey key) noexcept {
  const adapter::AccessFault fault = nics_->invalidate(who, key);
  if (fault == adapter::AccessFault::kNone) counters_.add(KeyCounter::kInvalidated);
  return fault;
}

}  // namespace weft::node
