// adapter/memory/memory_table.h -- the memory translation and protection table of one adapter: regions and
// windows with their keys (TPT-ENTRY, SAN-RMP). Allows or refuses each access and gives the address; does not
// access payload itself.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_set>

#include "adapter/memory/access.h"
#include "adapter/memory/address_table.h"
#include "adapter/memory/guarded_copy.h"
#include "adapter/memory/key_entry.h"
#include "adapter/memory/translation.h"
#include "adapter/memory/window_table.h"
#include "adapter/verbs.h"
#include "base/result.h"
#include "base/rng.h"

namespace weft::adapter {

struct Backing;

/// A registered region. `rkey` is valid when remote rights (decisions 1.4) or one key were requested.
struct MemoryRegion {
  Lkey lkey{};
  Rkey rkey{};
  uint64_t addr = 0;    // first address as work requests and peers name it
  uint64_t length = 0;  // bytes
};

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

/// Memory of this process that a key opens without conditions that only the table can check.
struct MemoryRange {
  uint64_t start = 0;  // an address of this process, and the one that peers name
  uint64_t length = 0;
  bool read = false;  // remote rights
  bool write = false;
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

/// Sees the keys of a list, one after the other.
class KeyVisitor {
 public:
  virtual void see(const KeyEntry& key) = 0;

 protected:
  ~KeyVisitor() = default;
};

/// Is informed of accesses to memory that has gone, if such accesses succeed.
class GoneMemory {
 public:
  virtual void missed() noexcept = 0;

 protected:
  ~GoneMemory() = default;
};

/// Owner: the adapter's thread. Checks are O(1): one table look-up without a hash (decisions P8). The cost
/// does not grow with the number of registrations; memory grows with the entries in use. Only registration
/// and allocation of keys allocate memory.
class MemoryTable final : public WindowTable {
 public:
  /// @param keys   most entries, regions and windows together
  /// @param number number of the NIC, the top four bits of each key (LAY-STAG)
  /// @param pds    PDs with preallocated room; further ones allocate memory
  MemoryTable(uint32_t keys, uint8_t number, RandomSource& random, uint32_t pds = 0);

  /// Registers memory, which must outlive the registration (TPT-REG-01): makes one entry for local use and,
  /// with a remote right, a window over all of it (decisions 1.4). A remote right needs the local one
  /// (SAN-LMP-01).
  Refusable<MemoryRegion> reg_mr(PdId pd, std::span<std::byte> memory, Access access,
                                 const RegisterOptions& options = {});
  /// Registers a region made of pages, which need not be contiguous (TPT-ATT).
  Refusable<MemoryRegion> reg_pages(PdId pd, const PageList& pages, Access access,
                                    const RegisterOptions& options = {});
  /// Registers a region whose bytes `translation` finds.
  Refusable<MemoryRegion> reg_translated(PdId pd, std::unique_ptr<Translation> translation, uint64_t length,
                                         Access access, const RegisterOptions& options = {});
  /// BindRKey on memory that is not registered: makes its region, for local use, and binds the key to all of
  /// it (C-17). No call of the kernel agent (SAN-RMP-05). `request.region` is ignored. Refused as by
  /// reg_translated() and bind_rkey(); then there is no region.
  Refusable<MemoryRegion> bind_translated(PdId pd, std::unique_ptr<Translation> translation,
                                          const BindRequest& request);
  /// Registers another region over the memory of `existing`, with the same translation: a new entry, no new
  /// table (TPT-REG-08). Its local rights must be within those of `existing`.
  Refusable<MemoryRegion> share_mr(PdId pd, Lkey existing, Access access,
                                   const RegisterOptions& options = {});
  /// Re-registers: changes memory, PD, rights or several of them. The region keeps its entry and gets new
  /// keys; the old keys become invalid. Exception: a region with one key keeps it when only the rights
  /// change. Refused, without any change, while windows are bound to the region.
  Refusable<MemoryRegion> rereg_mr(Lkey lkey, const RegionChange& change);
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
  /// PD. Refused while something is registered under the PD. Lasts until free_pd().
  Refusable<> confine(PdId pd);
  /// The PD has ended; its number may be reused.
  void free_pd(PdId pd) noexcept { confined_.erase(pd); }
  [[nodiscard]] bool is_confined(PdId pd) const noexcept { return confined_.contains(pd); }
  /// Ends the region and its implicit window. Refused while other windows are bound to it (TPT-REG-09).
  Refusable<> dereg_mr(Lkey lkey);

  /// Null (initially): an access to memory that has gone fails. Otherwise it succeeds as on hardware, which
  /// pins the pages: bytes written there are dropped, bytes that a peer reads there are zero, and `gone` is
  /// informed. A work request that sends from there still fails, because its bytes are gone.
  /// Holds for the tables of all NICs of the computer.
  void tolerate_gone_memory(GoneMemory* gone) noexcept;

  /// Checks one data segment (TPT-LOCAL-02a-f). On kNone `at` is the place of its bytes, or null when they
  /// lie in pages.
  [[nodiscard]] AccessFault check_local(PdId pd, const Sge& sge, AccessKind kind,
                                        std::byte*& at) const noexcept;
  /// Checks one remote access (TPT-REMOTE-02a-f). An access of zero bytes needs a valid key too.
  [[nodiscard]] AccessFault check_remote(const Accessor& who, Rkey key, uint64_t va, uint64_t length,
                                         AccessKind kind, RemoteGrant& out) const noexcept;
  /// Calls `action` on memory of a region. kNotMapped when the memory has gone (guarded_copy.h).
  template <class Action>
  [[gnu::always_inline]] static AccessFault touch(Action&& action, std::byte* at, uint64_t bytes) noexcept {
    try {
      action(at, bytes);
    } catch (const MemoryFault&) {
      return AccessFault::kNotMapped;
    }
    return AccessFault::kNone;
  }
  /// The same for accesses that tolerate_gone_memory() applies to: all but local reads.
  template <class Action>
  [[gnu::always_inline]] AccessFault reach(Action&& action, std::byte* at, uint64_t bytes) const noexcept {
    const AccessFault fault = touch(action, at, bytes);
    if (fault == AccessFault::kNone || gone_ == nullptr) [[likely]]
      return fault;
    return go_without(action, at, bytes);
  }
  /// Checks a data segment and calls `action(at, bytes)` for each of its pieces in order. Payload is accessed
  /// only through this function and visit_granted(). Returns kNone, or the reason why it stopped.
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
  /// The same for bytes [begin, begin + bytes) of a grant. They must be within its room, and the grant must
  /// be valid.
  template <class Action>
  [[gnu::always_inline]] AccessFault visit_granted(const RemoteGrant& grant, uint64_t begin, uint64_t bytes,
                                                   AccessKind kind, Action action) const noexcept {
    if (bytes == 0) return AccessFault::kNone;
    if (grant.at == nullptr) [[unlikely]]
      return visit(walk_granted(grant, begin, bytes, kind), kind, action);
    return reach(action, grant.at + begin, bytes);
  }
  /// A granted operation was executed; invalidates a one-shot key (SAN-RMP-12).
  void finish_remote(const RemoteGrant& grant) noexcept;
  /// True while the binding that gave the grant exists, even if its one-shot key has been used: for an RDMA
  /// read whose data leaves after its execution.
  [[nodiscard]] bool still_bound(const RemoteGrant& grant) const noexcept;

  /// The entry of a local or remote key, in any PD; empty for old keys and free entries. For tools and tests.
  [[nodiscard]] std::optional<TptEntry> query(uint32_t key) const noexcept;

  // ---- keys that move between the NICs of a computer (docs/key_migration.md) --------------------
  /// Number of the NIC whose list this is.
  [[nodiscard]] uint8_t number() const noexcept { return number_; }
  /// The tables of the computer, by NIC number; outlives this table. A grant may then be used with any of
  /// them.
  void join(MemoryTable* const* computer) noexcept { computer_ = computer; }
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

  /// First address and bytes of the entry that a key names, for failure texts. Without such an entry nothing
  /// is changed.
  [[gnu::cold]] void show_range(uint32_t key, uint64_t& start, uint64_t& length) const noexcept;

  /// The range of a key of `pd`; empty for one-shot keys, windows that a program has bound, regions that work
  /// requests register, and memory that has other addresses for peers or lies in pages.
  [[nodiscard]] std::optional<MemoryRange> own_range(PdId pd, Rkey key) const noexcept;
  /// `watcher` is asked before a region ends. It outlives the table's last such call.
  void watch_keys(KeyWatcher* watcher) noexcept { watcher_ = watcher; }

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
  /// Repeats the access from its first byte, with copies that skip missing memory.
  template <class Action>
  [[gnu::noinline, gnu::cold]] AccessFault go_without(Action& action, std::byte* at,
                                                      uint64_t bytes) const noexcept {
    gone_->missed();
    const FinishWithoutMemory finish;
    return touch(action, at, bytes);
  }
  /// The walk over a segment that check_local() has accepted.
  [[nodiscard]] PageWalk walk_local(const Sge& sge, AccessKind kind) const noexcept;
  [[nodiscard]] PageWalk walk_granted(const RemoteGrant& grant, uint64_t begin, uint64_t bytes,
                                      AccessKind kind) const noexcept;
  /// Checks everything about a registration but the room in the table.
  [[nodiscard]] static Refusable<> check(const RegionPlan& plan) noexcept;
  /// Replaces the staged memory of a reserved entry.
  [[nodiscard]] Refusable<MemoryRegion> stage_backing(Lkey lkey, const Backing& backing, uint64_t length);
  [[nodiscard]] Refusable<MemoryRegion> add_region(const RegionPlan& plan);
  [[nodiscard]] Refusable<MemoryRegion> add_translated(PdId pd, std::unique_ptr<Translation> translation,
                                                       uint64_t length, Access access,
                                                       const RegisterOptions& options);
  /// Ends a region to which no window is bound.
  void end_region(uint32_t index) noexcept;
  [[nodiscard]] bool crosses(PdId from, PdId to) const noexcept;
  void open_region(uint32_t index, const RegionPlan& plan) noexcept;
  [[nodiscard]] MemoryRegion describe(uint32_t index) const noexcept;

  /// False while a peer may be moving data of this region.
  [[nodiscard]] bool may_end(uint32_t index) const noexcept {
    return watcher_ == nullptr || watcher_->may_end(describe(index).rkey);
  }

  template <class Action>
  void for_computer(Action&& action);
  /// The table that gave a grant.
  [[nodiscard]] MemoryTable& table_of(const RemoteGrant& grant) noexcept {
    return computer_ == nullptr ? *this : *computer_[grant.nic];
  }
  [[nodiscard]] const MemoryTable& table_of(const RemoteGrant& grant) const noexcept {
    return computer_ == nullptr ? *this : *computer_[grant.nic];
  }

  uint8_t number_;
  MemoryTable* const* computer_ = nullptr;
  GoneMemory* gone_ = nullptr;
  KeyWatcher* watcher_ = nullptr;
  std::unordered_set<PdId, StrongIdHash> confined_;  // PDs of user processes
};

}  // namespace weft::adapter
