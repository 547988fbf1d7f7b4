// adapter/memory/memory_table.h -- the memory translation and protection table of one NIC (TPT-ENTRY,
// SAN-RMP): its list of valid keys, and the objects that work on it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "adapter/memory/access_checks.h"
#include "adapter/memory/computer_memory.h"
#include "adapter/memory/key_entry.h"
#include "adapter/memory/regions.h"
#include "adapter/memory/windows.h"
#include "adapter/verbs.h"
#include "base/rng.h"

namespace weft::adapter {

/// The state of one entry for queries (LAY-TPT).
struct TptEntry {
  uint64_t start = 0;
  uint64_t length = 0;
  PdId pd{};
  uint8_t instance = 0;
  EntryType type = EntryType::kRegion;
  bool valid = false;
  bool local_read = false;
  bool local_write = false;
  bool remote_read = false;
  bool remote_write = false;
  bool remote_atomic = false;
  bool window_binding = false;
  bool one_touch_enabled = false;
  bool touched = false;        // one-touch: its operation was executed (TPT-ENTRY-09)
  uint32_t bound_windows = 0;  // of a region, without its implicit window
  AttInfo att{};               // of the region; a window has that of its region
};

/// Sees the keys of a list, one after the other.
class KeyVisitor {
 public:
  virtual void see(const KeyEntry& key) = 0;

 protected:
  ~KeyVisitor() = default;
};

/// Memory of this process that a key opens without conditions that only the table can check.
struct MemoryRange {
  uint64_t start = 0;  // an address of this process, and the one that peers name
  uint64_t length = 0;
  bool read = false;  // remote rights
  bool write = false;
};

/// Owner: the adapter's thread. Memory grows with the entries in use.
class MemoryTable final {
  // First, because the objects below use them.
  std::unique_ptr<TptEntries> entries_;
  std::optional<ComputerMemory> own_;  // of a table that is alone
  ComputerMemory& computer_;

 public:
  /// @param keys     most entries, regions and windows together
  /// @param number   number of the NIC, the top four bits of each key (LAY-STAG)
  /// @param pds      PDs with preallocated room; further ones allocate memory
  /// @param computer what the NICs of the computer share; null for a table that is alone
  MemoryTable(uint32_t keys, uint8_t number, RandomSource& random, uint32_t pds = 0,
              ComputerMemory* computer = nullptr);
  ~MemoryTable();
  MemoryTable(const MemoryTable&) = delete;
  MemoryTable& operator=(const MemoryTable&) = delete;

  Regions regions;
  Windows windows;
  AccessChecks checks;

  /// Number of the NIC whose list this is.
  [[nodiscard]] uint8_t number() const noexcept { return checks.nic(); }
  [[nodiscard]] ComputerMemory& computer() noexcept { return computer_; }
  [[nodiscard]] const ComputerMemory& computer() const noexcept { return computer_; }

  /// The entry of a local or remote key, in any PD; empty for old keys and free entries. For tools and tests.
  [[nodiscard]] std::optional<TptEntry> query(uint32_t key) const noexcept;

  /// First address and bytes of the entry that a key names, for failure texts. Without such an entry nothing
  /// is changed.
  [[gnu::cold]] void show_range(uint32_t key, uint64_t& start, uint64_t& length) const noexcept;

  /// The range of a key of `pd`; empty for one-shot keys, windows that a program has bound, regions that work
  /// requests register, and memory that has other addresses for peers or lies in pages.
  [[nodiscard]] std::optional<MemoryRange> own_range(PdId pd, Rkey key) const noexcept;
  /// True while no region, window or key uses the PD.
  [[nodiscard]] bool pd_unused(PdId pd) const noexcept;
  /// True when the next registration would allocate memory that was not supplied (adapter/supplies.h).
  [[nodiscard]] bool lacks_room() const noexcept;

  // ---- keys that move between the NICs of a computer (docs/key_migration.md) --------------------
  /// True when the list has the key: one of its own, or one that was handed over.
  [[nodiscard]] bool has_key(uint32_t key) const noexcept;
  /// The whole entry of a key of this NIC that serves now, for other NICs; empty for all others. `ends` of
  /// report_ends_to() is told when it ends.
  [[nodiscard]] std::optional<KeyEntry> hand_out(uint32_t key) noexcept;
  /// Takes a key of another NIC into the list. False when the table is full. Allocates.
  [[nodiscard]] bool adopt(const KeyEntry& key);
  /// Drops a key of another NIC. False when the list does not have it.
  bool disown(uint32_t key) noexcept;
  /// The one operation of a key was executed through another NIC: the key ends here too (SAN-RMP-12).
  void use_up(uint32_t key) noexcept;
  /// Keys of other NICs in the list.
  [[nodiscard]] uint32_t adopted_count() const noexcept;
  /// Calls `visit(entry)` for every valid key of this NIC: the list that the program component asks for
  /// (MIG-STATE-02). O(entries).
  void list_keys(KeyVisitor& visit) const;
  /// `ends` outlives the table's last change.
  void report_ends_to(KeyEnds* ends) noexcept;

  // ---- for adapter/ only --------------------
  [[nodiscard]] TptEntries& entries() noexcept { return *entries_; }
};

}  // namespace weft::adapter
