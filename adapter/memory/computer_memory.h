// adapter/memory/computer_memory.h -- what the lists of keys of a computer's NICs share: when grants end, the
// PDs of user processes, and who is informed of calls and of memory that has gone.
#pragma once

#include <array>
#include <cstdint>
#include <unordered_set>

#include "adapter/memory/key_entry.h"
#include "adapter/verbs.h"

namespace weft::adapter {

class MemoryTable;
class TptEntries;

/// Is informed of calls that set up or end memory for the adapter, which a kernel agent makes in VI
/// (PUSH-WQ-07). Calls of the data path are not among them.
class AgentLog {
 public:
  virtual void called() noexcept = 0;

 protected:
  ~AgentLog() = default;
};

/// Is informed of accesses to memory that has gone, if such accesses succeed.
class GoneMemory {
 public:
  virtual void missed() noexcept = 0;

 protected:
  ~GoneMemory() = default;
};

/// Owner: the adapter's thread. Outlives the tables of the NICs.
class ComputerMemory {
 public:
  /// Steps whenever a grant may have ended: a region or key was retired, unbound, invalidated or used up.
  /// While it has not changed, a grant may be used again within its room (decisions P8). Never 0.
  [[nodiscard]] uint64_t revision() const noexcept { return revision_; }
  /// All accesses are checked again.
  void end_grants() noexcept { ++revision_; }

  /// `log` outlives the tables.
  void report_calls_to(AgentLog& log) noexcept { log_ = &log; }
  void note_call() noexcept {
    if (log_ != nullptr) log_->called();
  }

  /// Null (initially): an access to memory that has gone fails. Otherwise it succeeds as on hardware, which
  /// pins the pages: bytes written there are dropped, bytes that a peer reads there are zero, and `gone` is
  /// informed. A work request that sends from there still fails, because its bytes are gone.
  void tolerate_gone_memory(GoneMemory* gone) noexcept { gone_ = gone; }
  [[nodiscard]] GoneMemory* gone_memory() const noexcept { return gone_; }

  /// From now on no request can name memory of this PD by addresses of this process. Lasts until free_pd().
  void confine(PdId pd) { confined_.insert(pd); }
  [[nodiscard]] bool is_confined(PdId pd) const noexcept { return confined_.contains(pd); }
  /// The PD has ended; its number may be reused.
  void free_pd(PdId pd) noexcept { confined_.erase(pd); }

  /// Adds the table of NIC `nic`. Every number that no NIC has finds the first one, which has no such key.
  void add(uint8_t nic, MemoryTable& table, TptEntries& entries) noexcept {
    if (tables_.front() == nullptr) {
      tables_.fill(&table);
      entries_.fill(&entries);
    }
    tables_[nic] = &table;
    entries_[nic] = &entries;
  }
  /// The list that made a key (LAY-STAG).
  [[nodiscard]] MemoryTable& of(uint32_t key) const noexcept { return *tables_[nic_of_key(key)]; }
  [[nodiscard]] MemoryTable& of_nic(uint8_t nic) const noexcept { return *tables_[nic % kNicsMax]; }
  [[nodiscard]] TptEntries& entries_of(uint8_t nic) const noexcept { return *entries_[nic]; }

 private:
  uint64_t revision_ = 1;
  AgentLog* log_ = nullptr;
  GoneMemory* gone_ = nullptr;
  std::array<MemoryTable*, kNicsMax> tables_{};  // by number of the NIC
  std::array<TptEntries*, kNicsMax> entries_{};
  std::unordered_set<PdId, StrongIdHash> confined_;
};

}  // namespace weft::adapter
