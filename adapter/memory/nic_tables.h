// adapter/memory/nic_tables.h -- finds the list of valid keys that made a key, in a computer with one or more
// NICs.
#pragma once

#include <array>
#include <cstdint>

#include "adapter/memory/key_entry.h"
#include "adapter/memory/memory_table.h"

namespace weft::adapter {

/// The lists of valid keys of a computer's NICs.
class NicTables {
 public:
  /// Every number that no NIC has finds `first`, which has no such key.
  explicit NicTables(MemoryTable& first) noexcept { tables_.fill(&first); }
  void add(MemoryTable& table) noexcept { tables_[table.number()] = &table; }
  /// The list that made a key (LAY-STAG).
  [[nodiscard]] MemoryTable& of(uint32_t key) const noexcept { return *tables_[nic_of_key(key)]; }
  [[nodiscard]] MemoryTable& of_nic(uint8_t nic) const noexcept { return *tables_[nic % kNicsMax]; }
  [[nodiscard]] MemoryTable* const* all() const noexcept { return tables_.data(); }

 private:
  std::array<MemoryTable*, kNicsMax> tables_;
};

}  // namespace weft::adapter
