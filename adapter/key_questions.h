// adapter/key_questions.h -- keys that the arriving NIC does not know, and the packets that wait for an
// answer. Only a computer with several NICs has this object (docs/key_migration.md).
//
// A QP whose packet names such a key waits as a whole: its later cells, except acknowledgements, queue
// behind, so that no service sees them out of order. QPs that meet the same key at the same NIC share one
// question.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "adapter/key_directory.h"
#include "adapter/limits.h"
#include "base/clock.h"
#include "messages/cell.h"

namespace weft::adapter {

class QueuePair;
struct Engine;

/// Owner: the adapter's thread. All memory is taken at construction.
class KeyQuestions final : public NicKeys {
 public:
  /// @param nics numbers of the NICs, at least two
  KeyQuestions(Engine& engine, std::span<const uint8_t> nics);
  ~KeyQuestions();
  KeyQuestions(const KeyQuestions&) = delete;
  KeyQuestions& operator=(const KeyQuestions&) = delete;

  /// `directory` outlives the adapter. Without one every unknown key is invalid.
  void use_directory(KeyDirectory& directory) noexcept;

  // ---- data path --------------------
  /// True when the key may be another NIC's: the refusal by the list of this QP's NIC is not the last word.
  [[nodiscard]] bool may_ask(const QueuePair& qp, uint32_t key) const noexcept;
  /// The cell that is being taken again has asked for `key`, and no NIC has it.
  [[nodiscard]] bool is_invalid(const QueuePair& qp, uint32_t key) const noexcept;
  /// Reports `key` unless it is reported already, and keeps the cell that names it. False when the cell was
  /// not kept, and counted as such: too many questions in this second, or no room.
  bool wait(QueuePair& qp, const CellView& cell, uint32_t key) noexcept;
  /// Keeps a later cell of a QP that waits, or drops it for want of room. The QP waits for a key.
  void queue_behind(QueuePair& qp, const CellView& cell) noexcept;
  /// The QP leaves the states in which it receives: its cells are dropped.
  void forget(QueuePair& qp) noexcept;
  [[nodiscard]] KeyDirectory* directory() noexcept { return directory_; }

  // ---- turn --------------------
  /// Calls `take(qp, cell, first)` for every cell whose question is answered, in the order of arrival.
  /// `first` is the cell that asked. Drops the cells of questions that were not answered in time.
  /// @return cells taken
  template <class Take>
  int take_answered(Take&& take) noexcept {
    int taken = 0;
    for (Waiting waiting; next_answered(waiting);) {
      for (bool first = true; waiting.first != kNone; first = false, ++taken) {
        const uint32_t slot = waiting.first;
        waiting.first = cells_[slot].next;
        take(*waiting.qp, cells_[slot].view, first);
        give_back(slot);
      }
      invalid_.reset();
    }
    return taken;
  }
  /// When take_answered() has something to do; kNever when nothing waits.
  [[nodiscard]] Instant deadline() const noexcept;

  // ---- NicKeys --------------------
  [[nodiscard]] std::span<const uint8_t> nics() const noexcept override { return nics_; }
  [[nodiscard]] std::optional<KeyList> list(uint8_t nic) noexcept override;
  void hand_over(uint8_t nic, const KeyEntry& key) noexcept override;
  void declare_invalid(uint8_t nic, uint32_t key) noexcept override;
  void withdraw(uint8_t nic, uint32_t key) noexcept override;
  [[nodiscard]] AccessFault invalidate(const Accessor& who, Rkey key) noexcept override;
  void use_up(uint32_t key) noexcept override;

 private:
  static constexpr uint32_t kNone = UINT32_MAX;

  enum class Answer : uint8_t { kFree, kOpen, kHandedOver, kInvalid, kDropped };
  struct Question {
    Answer answer = Answer::kFree;
    uint8_t nic = 0;
    uint32_t key = 0;
    uint32_t waiting = 0;  // QPs
    Instant asked_at{};
  };
  /// A QP that waits.
  struct Waiting {
    QueuePair* qp = nullptr;
    uint32_t question = 0;
    uint32_t first = kNone;  // its cells, a list
    uint32_t last = kNone;
    uint32_t cells = 0;
  };
  struct KeptCell {
    CellView view;
    uint32_t next = kNone;
    std::array<std::byte, kGlobalHeaderBytes> global_header;
  };

  [[nodiscard]] bool has_nic(uint8_t nic) const noexcept;
  [[nodiscard]] Waiting* find(const QueuePair& qp) noexcept;
  [[nodiscard]] uint32_t find_question(uint8_t nic, uint32_t key) const noexcept;
  [[nodiscard]] uint32_t ask(const QueuePair& qp, uint32_t key) noexcept;
  [[nodiscard]] bool keep(Waiting& waiting, const CellView& cell) noexcept;
  void settle(uint8_t nic, uint32_t key, Answer answer) noexcept;
  void leave(Waiting& waiting) noexcept;
  void drop_cells(Waiting& waiting) noexcept;
  void give_back(uint32_t slot) noexcept;
  /// Takes the next QP whose question is answered out of the list. False when there is none.
  [[nodiscard]] bool next_answered(Waiting& out) noexcept;
  void expire() noexcept;

  Engine& engine_;
  KeyDirectory* directory_ = nullptr;
  std::vector<uint8_t> nics_;
  std::array<Question, kKeyQuestionsMax> questions_{};
  std::vector<Waiting> waiting_;
  std::vector<KeptCell> cells_;
  std::unique_ptr<std::byte[]> payloads_;
  uint32_t free_ = 0;  // list of free cells
  uint32_t open_ = 0;  // questions without an answer
  uint32_t answered_ = 0;
  Instant second_begins_{};
  uint32_t asked_this_second_ = 0;
  uint32_t guessed_this_second_ = 0;
  std::vector<const QueuePair*> guessers_;  // QPs whose key was invalid in this second; may have ended
  std::optional<KeyReport> invalid_;        // the key of the cells being taken, if it is invalid
};

}  // namespace weft::adapter
