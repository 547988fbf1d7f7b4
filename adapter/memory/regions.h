// adapter/memory/regions.h -- the regions of one table: registration, its change and its end, by call and by
// work request (TPT-REG, SAN-LMP).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "adapter/memory/access.h"
#include "adapter/memory/address_table.h"
#include "adapter/memory/translation.h"
#include "adapter/verbs.h"
#include "base/result.h"

namespace weft::adapter {

class ComputerMemory;
class TptEntries;
struct Backing;
struct TableEntry;

/// PD numbers are below this limit.
inline constexpr uint32_t kMemoryPdsMax = 1U << 20;

/// A registered region. `rkey` is valid when remote rights (decisions 1.4) or one key were requested.
struct MemoryRegion {
  Lkey lkey{};
  Rkey rkey{};
  uint64_t addr = 0;    // first address as work requests and peers name it
  uint64_t length = 0;  // bytes
};

/// Options of a registration beyond the rights.
struct RegisterOptions {
  /// First address as peers and work requests name it. Default: the memory's own address; 0 for a region of
  /// pages and with kZeroBased. Windows of the split driver use a random base, so that peers see no process
  /// address (SAN-LMP-13, decisions section 4).
  std::optional<uint64_t> base_addr{};
  /// Type of the entry. Only kRegion is accepted.
  EntryType type = EntryType::kRegion;
  /// LKey and RKey are one number, as programs of libibverbs know from other adapters. Without a remote right
  /// the key opens nothing to peers. A change of rights only (ibv_rereg_mr()) keeps the key. Not possible
  /// with kOneShot.
  bool one_key = false;
};

/// Changes of a re-registration. An empty member keeps its value.
struct RegionChange {
  std::optional<PdId> pd{};
  std::optional<std::span<std::byte>> memory{};
  std::optional<Access> access{};
  RegisterOptions options{};  // with `memory`
};

/// Knows which keys peers use without asking the table (memory windows, docs/window.md).
class KeyWatcher {
 public:
  /// A region with this remote key is about to end or to change. False: a peer may still be moving its data,
  /// and the caller has to try again later.
  [[nodiscard]] virtual bool may_end(Rkey key) noexcept = 0;

 protected:
  ~KeyWatcher() = default;
};

/// Owner: the adapter's thread. Only registration and staging allocate memory.
class Regions {
 public:
  /// Both outlive it.
  Regions(TptEntries& entries, ComputerMemory& computer) noexcept : entries_(entries), computer_(computer) {}

  /// Registers memory, which must outlive the registration (TPT-REG-01): makes one entry for local use and,
  /// with a remote right, a window over all of it (decisions 1.4). A remote right needs the local one
  /// (SAN-LMP-01).
  Refusable<MemoryRegion> reg_mr(PdId pd, std::span<std::byte> memory, Access access,
                                 const RegisterOptions& options = {});
  /// Registers a region made of the pages of `table`, which need not be contiguous (TPT-ATT). The region owns
  /// the table; a refused call leaves it with the caller. So an owner under whose lock others wait allocates
  /// and frees tables without the lock: AddressTable::make(), dereg_mr().
  Refusable<MemoryRegion> reg_pages(PdId pd, std::unique_ptr<AddressTable>&& table, Access access,
                                    const RegisterOptions& options = {});
  /// Registers a region whose bytes `translation` finds.
  Refusable<MemoryRegion> reg_translated(PdId pd, std::unique_ptr<Translation> translation, uint64_t length,
                                         Access access, const RegisterOptions& options = {});
  /// Registers another region over the memory of `existing`, with the same translation: a new entry, no new
  /// table (TPT-REG-08). Its local rights must be within those of `existing`.
  Refusable<MemoryRegion> share_mr(PdId pd, Lkey existing, Access access,
                                   const RegisterOptions& options = {});
  /// Re-registers: changes memory, PD, rights or several of them. The region keeps its entry and gets new
  /// keys; the old keys become invalid. Exception: a region with one key keeps it when only the rights
  /// change. A peer's operation under way goes on if the new rights allow it. Refused, without any change,
  /// while windows are bound to the region. A translation that no region uses any more goes to `ended`, or
  /// is freed if that is null.
  Refusable<MemoryRegion> rereg_mr(Lkey lkey, const RegionChange& change,
                                   std::unique_ptr<Translation>* ended = nullptr);
  /// Registration by work request: reserves an entry, which is not valid yet, and assigns its keys at once
  /// (TPT-REG-03, C-27). `with_rkey` for entries that will get remote rights.
  Refusable<MemoryRegion> reserve_mr(PdId pd, bool with_rkey);
  /// Stages memory for the next registration work request of a reserved entry, in place of earlier staged
  /// memory: pages, or one range of the process. If the entry's registration was invalidated, it gets new
  /// keys, so that the old ones stay invalid. Refused while the entry is registered. Allocates.
  Refusable<MemoryRegion> stage(Lkey lkey, const PageList& pages);
  Refusable<MemoryRegion> stage(Lkey lkey, std::span<std::byte> memory);
  /// Executes a registration work request (TPT-REG-04): fills the entry with the staged memory. Refused: no
  /// reserved entry with this key (kNotValid, kWrongType), another PD, an old instance, an entry that is
  /// filled already (kAlreadyBound) or has nothing staged (kNotMapped), addresses beyond the end of the
  /// address space, rights that the entry cannot have or that lack a key, no room for the page table. Nothing
  /// changes unless kNone.
  [[nodiscard]] AccessFault fill_reserved(PdId pd, const RegisterRequest& request) noexcept;
  /// Most entries that the page tables of all regions may have together (O-40). Initially without limit.
  void limit_page_entries(uint64_t most) noexcept;
  /// From now on no request can name memory of this PD by addresses of this process (SAN-LMP-02, SAN-LMP-06).
  /// The PD accepts only regions whose bytes a Translation finds, and no region passes between it and another
  /// PD. Refused while something is registered under the PD. Lasts until ComputerMemory::free_pd().
  Refusable<> confine(PdId pd);
  /// Ends the region and its implicit window. Refused while other windows are bound to it (TPT-REG-09).
  /// `ended` as for rereg_mr().
  Refusable<> dereg_mr(Lkey lkey, std::unique_ptr<Translation>* ended = nullptr);
  /// Ends a registration by work request: both keys become invalid, and the entry waits for stage() and the
  /// next such request. Refused while windows are bound to the region (kAlreadyBound), and for other regions
  /// (kWrongType).
  [[nodiscard]] AccessFault invalidate_region(PdId pd, Lkey key) noexcept;
  /// `watcher` is asked before a region ends. It outlives the table's last such call.
  void watch_keys(KeyWatcher* watcher) noexcept { watcher_ = watcher; }

  // ---- for Windows only --------------------
  /// reg_translated() that is no call of the kernel agent.
  [[nodiscard]] Refusable<MemoryRegion> add_translated(PdId pd, std::unique_ptr<Translation> translation,
                                                       uint64_t length, Access access,
                                                       const RegisterOptions& options);
  /// Ends a region to which no window is bound. @return its translation, unless other regions use it
  std::unique_ptr<Translation> end_region(uint32_t index) noexcept;

 private:
  struct RegionPlan;

  /// Checks everything about a registration but the room in the table.
  [[nodiscard]] static Refusable<> check(const RegionPlan& plan) noexcept;
  /// The region that a present LKey of this NIC names, registered or reserved; null when there is none.
  [[nodiscard]] TableEntry* find(Lkey lkey, uint32_t& index) noexcept;
  [[nodiscard]] Refusable<MemoryRegion> add_region(const RegionPlan& plan);
  /// The region owns `translation` unless the call is refused.
  [[nodiscard]] Refusable<MemoryRegion> add_over(PdId pd, Translation& translation, uint64_t length,
                                                 Access access, const RegisterOptions& options);
  /// Replaces the staged memory of a reserved entry.
  [[nodiscard]] Refusable<MemoryRegion> stage_backing(Lkey lkey, const Backing& backing, uint64_t length);
  void open_region(uint32_t index, const RegionPlan& plan) noexcept;
  [[nodiscard]] MemoryRegion describe(uint32_t index) const noexcept;
  [[nodiscard]] bool crosses(PdId from, PdId to) const noexcept;
  /// False while a peer may be moving data of this region.
  [[nodiscard]] bool may_end(uint32_t index) const noexcept {
    return watcher_ == nullptr || watcher_->may_end(describe(index).rkey);
  }

  TptEntries& entries_;
  ComputerMemory& computer_;
  KeyWatcher* watcher_ = nullptr;
};

}  // namespace weft::adapter
