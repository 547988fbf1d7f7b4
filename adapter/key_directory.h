// adapter/key_directory.h -- between the NICs of a computer and the program component that finds the owner of
// a key (docs/key_migration.md). Two interfaces without sockets: KeyDirectory is the component as an adapter
// sees it, NicKeys are the NICs as the component sees them. node/key_component.h is the product's component.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "adapter/memory/key_entry.h"
#include "adapter/memory/memory_table.h"
#include "adapter/verbs.h"
#include "base/clock.h"

namespace weft::adapter {

/// A NIC met a key that is not in its list, in a packet that has passed all transport checks (MIG-STATE-01).
struct KeyReport {
  uint8_t nic = 0;  // number of the NIC at which the packet arrived
  uint32_t key = 0;
};

/// The program component. Called by the adapter's thread.
class KeyDirectory : public KeyEnds {
 public:
  /// Asks for a key, once as long as there is no answer. The component answers by NicKeys::hand_over() or
  /// NicKeys::declare_invalid(), within this call or later. The packet waits at the NIC.
  virtual void report(const KeyReport& report) noexcept = 0;
  /// A packet that arrived at NIC `nic` invalidates a key of another NIC (MIG-INV-03). When the call returns
  /// kNone, no NIC has the key any more. Otherwise nothing has changed.
  [[nodiscard]] virtual AccessFault invalidate(uint8_t nic, const Accessor& who, Rkey key) noexcept = 0;
  /// Answers the reports that wait. Called by the adapter's owner, between turns. @return their number
  virtual int poll() noexcept = 0;

 protected:
  ~KeyDirectory() = default;
};

/// Passes on the keys that `keys` has found, then gives `adapter` another turn at once, in which it takes the
/// packets that wait for them. @return work done
template <class Adapter>
[[gnu::cold]] int answer_keys(KeyDirectory& keys, Adapter& adapter, Instant now) noexcept {
  const int answers = keys.poll();
  return answers == 0 ? 0 : answers + adapter.poll(now);
}

/// The list of valid keys of one NIC, as it answers the component. A view: valid until the table changes.
class KeyList {
 public:
  explicit KeyList(MemoryTable& table) noexcept : table_(&table) {}
  /// Searches the list. The entry that is found is about to be handed over: its end will be reported.
  [[nodiscard]] std::optional<KeyEntry> find(uint32_t key) const noexcept { return table_->hand_out(key); }
  /// Every key with its memory. O(entries of the table).
  void for_each(KeyVisitor& visit) const { table_->list_keys(visit); }

 private:
  MemoryTable* table_;
};

/// The NICs of one computer. Owner: the adapter's thread.
class NicKeys {
 public:
  /// Their numbers, in the order of AdapterConfig::nics.
  [[nodiscard]] virtual std::span<const uint8_t> nics() const noexcept = 0;
  /// The list of a NIC (MIG-STATE-02), also of one whose link is down (MIG-FAIL-01). Empty when there is no
  /// NIC with this number.
  [[nodiscard]] virtual std::optional<KeyList> list(uint8_t nic) noexcept = 0;
  /// Answers a question: NIC `nic` takes the key into its list and goes on with the packets that wait for it
  /// (MIG-STATE-03). Without memory or room in the list the packets are dropped and the key stays unknown.
  virtual void hand_over(uint8_t nic, const KeyEntry& key) noexcept = 0;
  /// Answers a question: no NIC has the key. The packet that asked is discarded (MIG-STATE-04).
  virtual void declare_invalid(uint8_t nic, uint32_t key) noexcept = 0;
  /// The key has ended at the NIC that made it: NIC `nic` drops it.
  virtual void withdraw(uint8_t nic, uint32_t key) noexcept = 0;
  /// Runs a peer's invalidation at the NIC that made the key.
  [[nodiscard]] virtual AccessFault invalidate(const Accessor& who, Rkey key) noexcept = 0;
  /// A key that serves one operation has served it at another NIC.
  virtual void use_up(uint32_t key) noexcept = 0;

 protected:
  ~NicKeys() = default;
};

}  // namespace weft::adapter
