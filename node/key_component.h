// node/key_component.h -- the program component of a computer with several NICs: finds the NIC that made an
// unknown key, and carries the end of a key to every NIC (docs/key_migration.md; MIG-STATE-02 to 05).
#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "adapter/key_directory.h"
#include "base/counters.h"
#include "base/stats_page.h"

namespace weft::node {

enum class KeyCounter : uint8_t {
  kQuestions,    // reports of unknown keys
  kLists,        // lists asked for
  kHandedOver,   // found in the list of the NIC that made them
  kInvalid,      // not found, or no NIC has their number
  kEnds,         // keys that ended after they were handed over
  kInvalidated,  // ended by a packet that arrived at another NIC
  kNoMemory,     // questions without an answer
  kCount,
};
[[nodiscard]] constexpr CounterNames<KeyCounter> counter_labels(KeyCounter /*of*/) noexcept {
  return {"questions", "lists", "handed_over", "invalid", "ends", "invalidated", "no_memory"};
}

/// Owner: the thread of the adapter. One object orders hand-over and end of keys (O-35): a question is
/// answered from the list as it is in poll(), and key_ended() returns after every other NIC has dropped the
/// key. So no key is handed over after its end.
class KeyComponent final : public adapter::KeyDirectory {
 public:
  KeyComponent();
  /// Answers go to `nics`. Call before the first poll() of the adapter.
  void serve(adapter::NicKeys& nics) noexcept { nics_ = &nics; }
  /// False in a computer with one NIC.
  [[nodiscard]] bool serves() const noexcept { return nics_ != nullptr; }

  /// A question for which there is no memory has no answer: its packets are dropped, and the next packet with
  /// the key asks again.
  int poll() noexcept override;
  /// Shows the counters on a page as `keys.*`. False when the page is full. The page must outlive this.
  [[nodiscard]] bool publish(StatsPage& page) { return page.publish("keys", counters_); }
  /// Questions wait: poll() should be called.
  [[nodiscard]] bool has_work() const noexcept { return !questions_.empty(); }
  [[nodiscard]] const CounterSet<KeyCounter>& counters() const noexcept { return counters_; }
  /// Number of NICs, the originator apart, that have the key.
  [[nodiscard]] uint32_t holders(uint32_t key) const noexcept;

  void report(const adapter::KeyReport& report) noexcept override;
  [[nodiscard]] adapter::AccessFault invalidate(uint8_t nic, const adapter::Accessor& who,
                                                Rkey key) noexcept override;
  void key_ended(uint32_t key) noexcept override;
  void key_used(uint32_t key) noexcept override;

 private:
  void answer(const adapter::KeyReport& report);
  void withdraw(uint32_t key) noexcept;

  adapter::NicKeys* nics_ = nullptr;
  std::vector<adapter::KeyReport> questions_;       // oldest first; at most kKeyQuestionsMax
  std::vector<adapter::KeyReport> answering_;       // empty outside poll()
  std::unordered_map<uint32_t, uint16_t> holders_;  // NICs that a key was handed to, one bit each
  CounterSet<KeyCounter> counters_;
};

}  // namespace weft::node
