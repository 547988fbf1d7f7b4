// How it works: a check that finds no key in the list of the arriving NIC asks may_ask(). If the key has
// another NIC's number, the service calls wait() and leaves its own state as if the cell had not come. The
// cell is copied, because its slot in the link is needed. Answers only mark the question; the adapter's next
// turn takes the cells out and gives them to the service again, which finds the key, or refuses it.
//
// Limits: kKeyQuestionsMax questions at a time and kKeyQuestionsPerSecond in a second, of which a QP whose
// key was invalid gets few; kKeyCellsMax cells and kKeyCellsPerQp of one QP. A cell beyond a limit is dropped
// and counted. The peer of an acknowledged service repeats it.
#include "adapter/key_questions.h"

#include <algorithm>
#include <cstring>

#include "adapter/adapter_engine.h"
#include "adapter/queues/queue_pair.h"
#include "base/out_of_memory.h"

namespace weft::adapter {

KeyQuestions::KeyQuestions(Engine& engine, std::span<const uint8_t> nics)
    : engine_(engine),
      nics_(nics.begin(), nics.end()),
      cells_(kKeyCellsMax),
      payloads_(std::make_unique_for_overwrite<std::byte[]>(size_t{kKeyCellsMax} * kCellPayloadBytesMax)) {
  waiting_.reserve(kKeyWaitersMax);
  guessers_.reserve(kKeyWaitersMax);
  for (uint32_t i = 0; i < kKeyCellsMax; ++i) cells_[i].next = i + 1 < kKeyCellsMax ? i + 1 : kNone;
}
KeyQuestions::~KeyQuestions() = default;

void KeyQuestions::use_directory(KeyDirectory& directory) noexcept {
  directory_ = &directory;
  for (const uint8_t nic : nics_) engine_.computer.of_nic(nic).report_ends_to(&directory);
}

bool KeyQuestions::has_nic(uint8_t nic) const noexcept {
  return std::find(nics_.begin(), nics_.end(), nic) != nics_.end();
}

// ---- data path --------------------

bool KeyQuestions::is_invalid(const QueuePair& qp, uint32_t key) const noexcept {
  return invalid_ && invalid_->nic == qp.memory->number() && invalid_->key == key;
}

bool KeyQuestions::may_ask(const QueuePair& qp, uint32_t key) const noexcept {
  return directory_ != nullptr && nic_of_key(key) != qp.memory->number() && !is_invalid(qp, key) &&
         !qp.memory->has_key(key);
}

KeyQuestions::Waiting* KeyQuestions::find(const QueuePair& qp) noexcept {
  const auto found =
      std::find_if(waiting_.begin(), waiting_.end(), [&](const Waiting& at) { return at.qp == &qp; });
  return found == waiting_.end() ? nullptr : &*found;
}

uint32_t KeyQuestions::find_question(uint8_t nic, uint32_t key) const noexcept {
  for (uint32_t i = 0; i < kKeyQuestionsMax; ++i) {
    const Question& at = questions_[i];
    if (at.answer != Answer::kFree && at.nic == nic && at.key == key) return i;
  }
  return kNone;
}

/// A new question, reported to the component. kNone when there are too many.
uint32_t KeyQuestions::ask(const QueuePair& qp, uint32_t key) noexcept {
  if (engine_.now - second_begins_ >= std::chrono::seconds(1)) {
    second_begins_ = engine_.now;
    asked_this_second_ = guessed_this_second_ = 0;
    guessers_.clear();
  }
  const auto place = std::find_if(questions_.begin(), questions_.end(),
                                  [](const Question& at) { return at.answer == Answer::kFree; });
  const bool guesses = std::find(guessers_.begin(), guessers_.end(), &qp) != guessers_.end();
  if (asked_this_second_ >= kKeyQuestionsPerSecond || place == questions_.end()) return kNone;
  if (guesses && guessed_this_second_ >= kKeyGuessesPerSecond) return kNone;
  guessed_this_second_ += guesses ? 1U : 0U;
  ++asked_this_second_;
  ++open_;
  *place = {.answer = Answer::kOpen, .nic = qp.memory->number(), .key = key, .asked_at = engine_.now};
  engine_.count(AdapterCounter::kKeyQuestions);
  return static_cast<uint32_t>(place - questions_.begin());
}

bool KeyQuestions::keep(Waiting& waiting, const CellView& cell) noexcept {
  const uint32_t slot = free_;
  if (slot == kNone || waiting.cells >= kKeyCellsPerQp) {
    engine_.count(AdapterCounter::kKeyHoldFull);
    return false;
  }
  KeptCell& kept = cells_[slot];
  free_ = kept.next;
  kept.next = kNone;
  kept.view = cell;
  std::byte* to = &payloads_[size_t{slot} * kCellPayloadBytesMax];
  if (!cell.payload.empty()) std::memcpy(to, cell.payload.data(), cell.payload.size());
  kept.view.payload = {to, cell.payload.size()};
  if (cell.global_header != nullptr) {
    std::memcpy(kept.global_header.data(), cell.global_header, kGlobalHeaderBytes);
    kept.view.global_header = kept.global_header.data();
  }
  (waiting.last == kNone ? waiting.first : cells_[waiting.last].next) = slot;
  waiting.last = slot;
  ++waiting.cells;
  engine_.count(AdapterCounter::kKeyCellsHeld);
  return true;
}

bool KeyQuestions::wait(QueuePair& qp, const CellView& cell, uint32_t key) noexcept {
  const uint8_t nic = qp.memory->number();
  uint32_t question = find_question(nic, key);
  const bool is_new = question == kNone;
  if (waiting_.size() == kKeyWaitersMax || free_ == kNone) {
    engine_.count(AdapterCounter::kKeyHoldFull);
    return false;
  }
  if (is_new) question = ask(qp, key);
  if (question == kNone) {
    engine_.count(AdapterCounter::kKeyQuestionsLimited);
    return false;
  }
  waiting_.push_back({.qp = &qp, .question = question});
  ++questions_[question].waiting;
  qp.watch |= kWatchKey;
  const bool kept = keep(waiting_.back(), cell);
  if (is_new) directory_->report({nic, key});  // may answer at once
  return kept;
}

void KeyQuestions::queue_behind(QueuePair& qp, const CellView& cell) noexcept {
  Waiting* waiting = find(qp);
  if (waiting != nullptr) (void)keep(*waiting, cell);
}

void KeyQuestions::forget(QueuePair& qp) noexcept {
  Waiting* waiting = find(qp);
  if (waiting == nullptr) return;
  drop_cells(*waiting);
  leave(*waiting);
}

void KeyQuestions::drop_cells(Waiting& waiting) noexcept {
  while (waiting.first != kNone) {
    const uint32_t slot = waiting.first;
    waiting.first = cells_[slot].next;
    give_back(slot);
  }
}

void KeyQuestions::give_back(uint32_t slot) noexcept {
  cells_[slot].next = free_;
  free_ = slot;
}

/// The QP waits no more. Without another QP an answered question is forgotten.
void KeyQuestions::leave(Waiting& waiting) noexcept {
  waiting.qp->watch &= static_cast<uint8_t>(~kWatchKey);
  Question& question = questions_[waiting.question];
  if (--question.waiting == 0 && question.answer != Answer::kOpen) {
    question.answer = Answer::kFree;
    --answered_;
  }
  waiting_.erase(waiting_.begin() + (&waiting - waiting_.data()));
}

// ---- turn --------------------

bool KeyQuestions::next_answered(Waiting& out) noexcept {
  if (open_ != 0) expire();
  if (answered_ == 0) return false;
  for (Waiting& waiting : waiting_) {
    const Question& question = questions_[waiting.question];
    if (question.answer == Answer::kOpen) continue;
    if (question.answer == Answer::kInvalid) {
      invalid_ = KeyReport{question.nic, question.key};
      engine_.count(AdapterCounter::kKeyCellsDiscarded);
      if (guessers_.size() < kKeyWaitersMax) guessers_.push_back(waiting.qp);
    }
    if (question.answer == Answer::kDropped) drop_cells(waiting);
    out = waiting;
    leave(waiting);
    return true;
  }
  return false;
}

void KeyQuestions::expire() noexcept {
  for (Question& question : questions_) {
    if (question.answer != Answer::kOpen || engine_.now - question.asked_at < kKeyAnswerTime) continue;
    engine_.count(AdapterCounter::kKeyUnanswered);
    settle(question.nic, question.key, Answer::kDropped);
  }
}

Instant KeyQuestions::deadline() const noexcept {
  if (answered_ != 0) return Instant::min();
  Instant at = kNever;
  if (open_ == 0) return at;
  for (const Question& question : questions_) {
    if (question.answer == Answer::kOpen) at = std::min(at, question.asked_at + kKeyAnswerTime);
  }
  return at;
}

// ---- answers --------------------

void KeyQuestions::settle(uint8_t nic, uint32_t key, Answer answer) noexcept {
  const uint32_t place = find_question(nic, key);
  if (place == kNone || questions_[place].answer != Answer::kOpen) return;
  Question& question = questions_[place];
  --open_;
  if (question.waiting == 0) {
    question.answer = Answer::kFree;
    return;
  }
  question.answer = answer;
  ++answered_;
}

std::optional<KeyList> KeyQuestions::list(uint8_t nic) noexcept {
  if (!has_nic(nic)) return std::nullopt;
  return KeyList(engine_.computer.of_nic(nic));
}

void KeyQuestions::hand_over(uint8_t nic, const KeyEntry& key) noexcept {
  if (!has_nic(nic) || nic_of_key(key.key) == nic) return;
  bool taken = false;
  static_cast<void>(with_memory([&] { taken = engine_.computer.of_nic(nic).adopt(key); }));
  engine_.count(taken ? AdapterCounter::kKeysHandedOver : AdapterCounter::kKeyHoldFull);
  settle(nic, key.key, taken ? Answer::kHandedOver : Answer::kDropped);
}

void KeyQuestions::declare_invalid(uint8_t nic, uint32_t key) noexcept {
  engine_.count(AdapterCounter::kKeysInvalid);
  settle(nic, key, Answer::kInvalid);
}

void KeyQuestions::withdraw(uint8_t nic, uint32_t key) noexcept {
  if (has_nic(nic) && engine_.computer.of_nic(nic).disown(key)) engine_.count(AdapterCounter::kKeysWithdrawn);
}

AccessFault KeyQuestions::invalidate(const Accessor& who, Rkey key) noexcept {
  const uint8_t nic = nic_of_key(key.value());
  return has_nic(nic) ? engine_.computer.of_nic(nic).windows.invalidate_for_peer(who, key)
                      : AccessFault::kNotValid;
}

void KeyQuestions::use_up(uint32_t key) noexcept {
  if (has_nic(nic_of_key(key))) engine_.computer.of_nic(nic_of_key(key)).use_up(key);
}

}  // namespace weft::adapter
