// adapter/memory/memory_table.h -- the memory translation and protection table of one adapter: regions and
// windows under keys (TPT-ENTRY, SAN-RMP). Says yes or no to every access and gives the address; touches no
// payload itself.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_set>

#include "adapter/memory/access.h"
#include "adapter/memory/address_table.h"
#include "adapter/memory/guarded_copy.h"
#include "adapter/memory/translation.h"
#include "adapter/memory/window_table.h"
#include "adapter/verbs.h"
#include "base/result.h"
#include "base/rng.h"

namespace weft::adapter {

struct Backing;

/// A registered region. `rkey` is valid when remote rights were asked for (decisions 1.4), or one key.
struct MemoryRegion {
  Lkey lkey{};
  Rkey rkey{};
  uint64_t addr = 0;    // first address as work requests and peers name it
  uint64_t length = 0;  // bytes
};

/// One entry as a query shows it (LAY-TPT).
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
  uint32_t bound_windows = 0;  // of a region, its implicit window not counted
  AttInfo att{};               // of its region, which a window uses
};

/// Options of a registration beyond the rights.
struct RegisterOptions {
  /// First address as peers and work requests name it; without one the memory's own address, 0 for a region
  /// of pages and with kZeroBased. Windows of the split driver use a random base, so that no process address
  /// is shown (SAN-LMP-13, decisions section 4).
  std::optional<uint64_t> base_addr{};
  /// What the entry becomes; anything but kRegion is refused.
  EntryType type = EntryType::kRegion;
  /// LKey and RKey are one number, as programs of libibverbs know it from other adapters. Without a remote
  /// right the key opens nothing to peers. A change of rights alone leaves it as it is (ibv_rereg_mr()). Not
  /// with kOneShot.
  bool one_key = false;
};

/// What a re-registration changes; what is not given stays.
struct RegionChange {
  std::optional<PdId> pd{};
  std::optional<std::span<std::byte>> memory{};
  std::optional<Access> access{};
  RegisterOptions options{};  // with `memory`
};

/// Hears of accesses to memory that has gone, where they succeed all the same.
class GoneMemory {
 public:
  virtual void missed() noexcept = 0;

 protected:
  ~GoneMemory() = default;
};

/// Owner: the adapter's thread. Checks are O(1): one table look-up, no hash (decisions P8). Nothing costs
/// more because more is registered; memory grows with the entries in use. All calls but registration and
/// allocation of keys are free of allocation.
class MemoryTable final : public WindowTable {
 public:
  /// @param keys   most entries, regions and windows together
  /// @param number adapter number, the top four bits of each key (LAY-STAG)
  /// @param pds    PDs that there is room for at once; others cost memory
  MemoryTable(uint32_t keys, uint8_t number, RandomSource& random, uint32_t pds = 0);

  /// Registers memory, which must outlive the registration (TPT-REG-01): one entry for local use and, when a
  /// remote right is asked for, a window over all of it (decisions 1.4). A remote right needs the local one
  /// (SAN-LMP-01).
  /// What is wrong with the arguments of reg_mr(), whatever there is room for; null when nothing is.
  [[nodiscard]] static const char* objection(PdId pd, std::span<std::byte> memory, Access access,
                                             const RegisterOptions& options) noexcept;
  Refusable<MemoryRegion> reg_mr(PdId pd, std::span<std::byte> memory, Access access,
                                 const RegisterOptions& options = {});
  /// A region made of pages, which need not lie side by side (TPT-ATT).
  Refusable<MemoryRegion> reg_pages(PdId pd, const PageList& pages, Access access,
                                    const RegisterOptions& options = {});
  /// A region whose bytes `translation` finds.
  Refusable<MemoryRegion> reg_translated(PdId pd, std::unique_ptr<Translation> translation, uint64_t length,
                                         Access access, const RegisterOptions& options = {});
  /// One more region over the memory of `existing`, with its translation: a new entry, no new table
  /// (TPT-REG-08). Its rights are within those of the existing one.
  Refusable<MemoryRegion> share_mr(PdId pd, Lkey existing, Access access,
                                   const RegisterOptions& options = {});
  /// Registers anew: memory, PD, rights or several of them. The region keeps its entry and gets new keys; the
  /// old ones are dead. Where its RKey lasts, and only the rights change, it keeps its keys, unless it is or
  /// was to serve once. Refused while windows are bound to it; when refused, nothing has changed.
  Refusable<MemoryRegion> rereg_mr(Lkey lkey, const RegionChange& change);
  /// Registration by work request: an entry is reserved, not valid, and its keys are given out at once
  /// (TPT-REG-03, C-27); with an RKey for those that are to be filled with remote rights.
  Refusable<MemoryRegion> reserve_mr(PdId pd, bool with_rkey);
  /// Sets memory aside for the next registration work request of a reserved entry, instead of what was staged
  /// before: pages, or one range of the process. An entry whose registration was invalidated gets new keys
  /// with that, so that the old ones stay dead. Refused while it is registered. Allocates.
  Refusable<MemoryRegion> stage(Lkey lkey, const PageList& pages);
  Refusable<MemoryRegion> stage(Lkey lkey, std::span<std::byte> memory);
  /// What the work request does when it is reached (TPT-REG-04): fills the entry with what was staged.
  /// Refused: no reserved entry of this key (kNotValid, kWrongType), another PD, an old instance, an entry
  /// filled already or not staged (kNotMapped), addresses beyond the last one, rights that it cannot have or
  /// without their key, no room for the page table. Nothing changes unless kNone.
  [[nodiscard]] AccessFault fill_reserved(PdId pd, const RegisterRequest& request) noexcept;
  /// Most entries that the page tables of all regions may have together (O-40); without limit at first.
  void limit_page_entries(uint64_t most) noexcept;
  /// From now on no request names memory of this PD by the addresses of this process (SAN-LMP-02,
  /// SAN-LMP-06): it takes regions whose bytes a Translation finds, no other, and no region goes from it to
  /// another PD or comes from one. Refused while something is registered under it. Lasts until free_pd().
  Refusable<> confine(PdId pd);
  /// The PD has ended, and its number may be another's.
  void free_pd(PdId pd) noexcept { confined_.erase(pd); }
  [[nodiscard]] bool is_confined(PdId pd) const noexcept { return confined_.contains(pd); }
  /// Ends the region and its implicit window. Refused while other windows are bound to it (TPT-REG-09).
  Refusable<> dereg_mr(Lkey lkey);

  /// Null, as at first: an access to memory that has gone fails. Otherwise it succeeds as on hardware, which
  /// holds the pages: bytes that are written there are dropped, bytes that a peer reads there are zero, and
  /// `gone` hears of it. What a work request sends from there still fails, because those bytes are gone.
  void tolerate_gone_memory(GoneMemory* gone) noexcept { gone_ = gone; }

  /// Checks one data segment (TPT-LOCAL-02a-f). On kNone `at` is where its bytes lie, null when they lie in
  /// pages.
  [[nodiscard]] AccessFault check_local(PdId pd, const Sge& sge, AccessKind kind,
                                        std::byte*& at) const noexcept;
  /// Checks one remote access (TPT-REMOTE-02a-f). A zero-length access needs a valid key too.
  [[nodiscard]] AccessFault check_remote(const Accessor& who, Rkey key, uint64_t va, uint64_t length,
                                         AccessKind kind, RemoteGrant& out) const noexcept;
  /// Lets `action` at memory of a region; kNotMapped when it has gone (guarded_copy.h).
  template <class Action>
  [[gnu::always_inline]] static AccessFault touch(Action&& action, std::byte* at, uint64_t bytes) noexcept {
    try {
      action(at, bytes);
    } catch (const MemoryFault&) {
      return AccessFault::kNotMapped;
    }
    return AccessFault::kNone;
  }
  /// The same where memory that has gone may be tolerated: anything but a local read.
  template <class Action>
  [[gnu::always_inline]] AccessFault reach(Action&& action, std::byte* at, uint64_t bytes) const noexcept {
    const AccessFault fault = touch(action, at, bytes);
    if (fault == AccessFault::kNone || gone_ == nullptr) [[likely]]
      return fault;
    return go_without(action, at, bytes);
  }
  /// Checks a data segment and calls `action(at, bytes)` for each of its pieces, in order: this and
  /// visit_granted() are how payload is reached. kNone, or why it went no further.
  template <class Action>
  [[gnu::always_inline]] AccessFault visit_local(PdId pd, const Sge& sge, AccessKind kind,
                                                 Action action) const noexcept {
    std::byte* at = nullptr;
    const AccessFault fault = check_local(pd, sge, kind, at);
    if (fault != AccessFault::kNone) [[unlikely]]
      return fault;
    if (at == nullptr) [[unlikely]]
      return visit(walk_local(sge, kind), kind, action);
    return kind == AccessKind::kLocalRead ? touch(action, at, sge.length) : reach(action, at, sge.length);
  }
  /// Likewise for bytes [begin, begin + bytes) of what was granted; within its room, while it stands.
  template <class Action>
  [[gnu::always_inline]] AccessFault visit_granted(const RemoteGrant& grant, uint64_t begin, uint64_t bytes,
                                                   AccessKind kind, Action action) const noexcept {
    if (bytes == 0) return AccessFault::kNone;
    if (grant.at == nullptr) [[unlikely]]
      return visit(walk_granted(grant, begin, bytes, kind), kind, action);
    return reach(action, grant.at + begin, bytes);
  }
  /// Tells the table that a granted operation is executed; a one-shot key dies here (SAN-RMP-12).
  void finish_remote(const RemoteGrant& grant) noexcept;
  /// The binding that granted this stands, though a one-shot key of it may have served: for an RDMA read
  /// whose data leaves after its execution.
  [[nodiscard]] bool still_bound(const RemoteGrant& grant) const noexcept;

  /// The entry of a local or remote key, in any PD; nothing for old keys and free entries. For tools and
  /// tests.
  [[nodiscard]] std::optional<TptEntry> query(uint32_t key) const noexcept;

  /// First address and bytes of the entry that a key names, for people; nothing changes when there is none.
  [[gnu::cold]] void show_range(uint32_t key, uint64_t& start, uint64_t& length) const noexcept;

  /// True while no region, window or key uses the PD.
  [[nodiscard]] bool pd_unused(PdId pd) const noexcept;

 private:
  struct RegionPlan;

  template <class Action>
  AccessFault visit(PageWalk walk, AccessKind kind, Action& action) const noexcept {
    AccessFault fault = AccessFault::kNone;
    for (MemoryPiece piece; fault == AccessFault::kNone && !walk.done();) {
      fault = walk.next(piece);
      if (fault != AccessFault::kNone) return fault;
      fault = kind == AccessKind::kLocalRead ? touch(action, piece.at, piece.bytes)
                                             : reach(action, piece.at, piece.bytes);
    }
    return fault;
  }
  /// The access once more, from its first byte, by copies that leave out what is not there.
  template <class Action>
  [[gnu::noinline, gnu::cold]] AccessFault go_without(Action& action, std::byte* at,
                                                      uint64_t bytes) const noexcept {
    gone_->missed();
    const FinishWithoutMemory finish;
    return touch(action, at, bytes);
  }
  /// The walk over a segment that check_local() has found good.
  [[nodiscard]] PageWalk walk_local(const Sge& sge, AccessKind kind) const noexcept;
  [[nodiscard]] PageWalk walk_granted(const RemoteGrant& grant, uint64_t begin, uint64_t bytes,
                                      AccessKind kind) const noexcept;
  /// What is wrong with a registration, but for the room in the table; null when nothing is.
  [[nodiscard]] static RegionPlan plan_of(PdId pd, std::span<std::byte> memory, Access access,
                                          const RegisterOptions& options) noexcept;
  [[nodiscard]] static const char* objection(const RegionPlan& plan) noexcept;
  /// Replaces what is staged for a reserved entry.
  [[nodiscard]] Refusable<MemoryRegion> stage_backing(Lkey lkey, const Backing& backing, uint64_t length);
  [[nodiscard]] Refusable<MemoryRegion> add_region(const RegionPlan& plan);
  [[nodiscard]] bool crosses(PdId from, PdId to) const noexcept;
  void open_region(uint32_t index, const RegionPlan& plan) noexcept;
  [[nodiscard]] MemoryRegion describe(uint32_t index) const noexcept;

  GoneMemory* gone_ = nullptr;
  std::unordered_set<PdId, StrongIdHash> confined_;  // of user processes
};

}  // namespace weft::adapter
