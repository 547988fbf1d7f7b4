// adapter/memory/tpt_entries.h -- the entries of a MemoryTable: their content, look-up by key, binding and
// release. Internal to adapter/memory.
#pragma once

#include <limits>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "adapter/memory/access.h"
#include "adapter/memory/chunked_table.h"
#include "adapter/memory/key_entry.h"
#include "adapter/memory/key_table.h"
#include "adapter/memory/translation.h"
#include "adapter/verbs.h"

namespace weft::adapter {

inline constexpr uint32_t kNoEntry = std::numeric_limits<uint32_t>::max();
inline constexpr Access kRemoteRights = Access::kRemoteRead | Access::kRemoteWrite | Access::kRemoteAtomic;
inline constexpr Access kWindowRights = kRemoteRights | Access::kZeroBased | Access::kOneShot;
inline constexpr Access kRegionRights = Access::kLocalWrite | Access::kNoLocalRead | Access::kWindowBind;

[[nodiscard]] constexpr Access only(Access set, Access mask) noexcept {
  return static_cast<Access>(static_cast<uint32_t>(set) & static_cast<uint32_t>(mask));
}
[[nodiscard]] constexpr Access without(Access set, Access mask) noexcept {
  return static_cast<Access>(static_cast<uint32_t>(set) & ~static_cast<uint32_t>(mask));
}

/// True when `rights` contain the right that the access needs.
[[nodiscard]] constexpr bool permits(Access rights, AccessKind kind) noexcept {
  switch (kind) {
    case AccessKind::kLocalRead:
      return !has(rights, Access::kNoLocalRead);
    case AccessKind::kLocalWrite:
      return has(rights, Access::kLocalWrite);
    case AccessKind::kRemoteRead:
      return has(rights, Access::kRemoteRead);
    case AccessKind::kRemoteWrite:
      return has(rights, Access::kRemoteWrite);
    case AccessKind::kRemoteAtomic:
      return has(rights, Access::kRemoteAtomic);
  }
  return false;
}

/// A remote right must not exceed the local one (SAN-LMP-01; libibverbs: remote write and atomics need local
/// write).
[[nodiscard]] constexpr bool local_rights_suffice(Access local, Access remote) noexcept {
  const bool writes = has(remote, Access::kRemoteWrite) || has(remote, Access::kRemoteAtomic);
  if (writes && !has(local, Access::kLocalWrite)) return false;
  const bool reads = has(remote, Access::kRemoteRead) || has(remote, Access::kRemoteAtomic);
  return !reads || !has(local, Access::kNoLocalRead);
}

/// Place of an entry's bytes: from an address of this process on, or from an offset in a translation.
struct Backing {
  Translation* translation = nullptr;
  uint64_t origin = 0;  // address of the first byte; with a translation the offset in it

  [[nodiscard]] std::byte* at(uint64_t offset) const noexcept {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the origin is an address of this process
    return translation == nullptr ? reinterpret_cast<std::byte*>(origin + offset) : nullptr;
  }
};

inline constexpr uint16_t kChosenTag = 0x100;
/// Tag of an entry for a key of another NIC: no key of this NIC has it.
inline constexpr uint16_t kAdoptedTag = 0x200;

/// One region or window. One cache line, because a check reads one entry.
struct alignas(64) TableEntry {
  uint64_t start = 0;   // first address as its users name it
  uint64_t length = 0;  // bytes
  Backing backing{};
  PdId pd{};
  Access rights = Access::kNone;
  uint32_t region = kNoEntry;    // window: the region it is bound to; entry of another NIC's key: that key
  uint32_t tied = 0;             // region: explicit windows bound to it; type-2 window: its QP
  uint32_t implicit = kNoEntry;  // region: its implicit window; implicit window: itself
  uint32_t binding = 0;          // window, region with one key: number of the bind; 0: not bound
  EntryType type = EntryType::kRegion;
  WindowKind kind = WindowKind::kKey;
  uint16_t tag = 0;  // instance of the present key; with kChosenTag if the consumer chooses it
  bool taken = false;
  bool valid = false;
  bool by_request : 1 = false;  // region: registered by work requests; `backing` and `length` may be staged
  bool one_key : 1 = false;     // region: its LKey is also its RKey; `rights` include the remote ones
  bool filled : 1 = false;      // region: a registration was executed with its present key
  bool touched : 1 = false;     // window: its one operation was executed
  bool handed : 1 = false;      // other NICs have a copy, which must end with it (MIG-INV-03)
  bool adopted : 1 = false;     // a copy: the key is another NIC's

  [[nodiscard]] uint8_t instance() const noexcept { return static_cast<uint8_t>(tag); }
  /// True when it may be used as this type. A region with one key also serves peers, as a window does.
  [[nodiscard]] bool is(EntryType wanted) const noexcept { return type == wanted || one_key; }
  /// For regions.
  [[nodiscard]] bool has_windows() const noexcept { return tied != 0; }
  /// For windows: true when it may be used through this QP.
  [[nodiscard]] bool serves(Qpn qpn) const noexcept {
    return kind != WindowKind::kType2 || tied == qpn.value();
  }

  [[nodiscard]] bool holds(uint64_t addr, uint64_t bytes) const noexcept {
    const uint64_t offset = addr - start;  // wraps to a huge value below the start
    return offset <= length && bytes <= length - offset;
  }
};

class TptEntries {
  static_assert(sizeof(TableEntry) == 64);

 public:
  struct Admitted {
    const TableEntry* entry = nullptr;
    uint32_t index = 0;
  };

  /// @param pds PDs with preallocated room; further ones allocate memory
  TptEntries(uint32_t keys, uint8_t number, RandomSource& random, uint32_t pds);
  ~TptEntries();
  TptEntries(const TptEntries&) = delete;
  TptEntries& operator=(const TptEntries&) = delete;

  [[nodiscard]] TableEntry& at(uint32_t index) noexcept { return entries_[index]; }
  [[nodiscard]] const TableEntry& at(uint32_t index) const noexcept { return entries_[index]; }
  [[nodiscard]] uint32_t free_count() const noexcept { return keys_.free_count(); }
  [[nodiscard]] uint32_t key_of(uint32_t index) const noexcept { return keys_.key_of(index); }

  /// Memory that the table may need next. May be allocated by any thread at any time.
  struct Room {
    KeyTable::Room keys;
    ChunkedTable<TableEntry>::Chunk entries;
  };
  [[nodiscard]] static Room make_room() {
    Room out;
    out.keys = KeyTable::make_room();
    out.entries = ChunkedTable<TableEntry>::make();
    return out;
  }
  /// True when the next registration or new window would allocate memory in take() or take_block().
  [[nodiscard]] bool lacks_room() const noexcept { return keys_.lacks_room(kKeysPerRegion); }
  /// Takes the parts of `room` that are missing.
  void give_room(Room& room) noexcept;

  /// Takes a free entry and fills it with `as`, except the instance. An entry must be free. Allocates when
  /// the table grows and no room was given; without memory for that, the table stays as it is.
  [[nodiscard]] uint32_t take(const TableEntry& as);
  /// Gives a taken window a block of keys of which the consumer chooses one. False when no block is free.
  [[nodiscard]] bool take_block(uint32_t index);
  [[nodiscard]] uint32_t promise_key(uint32_t index) noexcept { return keys_.promise(index); }
  /// Withdraws all promises behind this key, which find_typed() has found.
  void withdraw_behind(Rkey key) noexcept;
  /// Sets the present key of a window of type 1 or 2.
  void set_key(uint32_t index, Rkey key) noexcept;
  /// Frees an entry. @return as for drop()
  std::unique_ptr<Translation> release(uint32_t index) noexcept;
  /// Moves a taken entry to another PD. Allocates.
  void move_to(PdId pd, uint32_t index);
  /// Makes the entry's present key an old one.
  void renew(uint32_t index) noexcept;
  /// Number of entries of a PD.
  [[nodiscard]] uint32_t used_by(PdId pd) const noexcept {
    return pd.value() < used_by_pd_.size() ? used_by_pd_[pd.value()] : 0;
  }

  /// The entry with this present key, taken or not; kNoEntry when there is none. Keys with a chosen instance
  /// and keys of other NICs are searched if no permuted key matches.
  [[nodiscard]] uint32_t present(uint32_t key) const noexcept {
    const std::optional<KeyParts> parts = keys_.find(key);
    if (parts && entries_[parts->index].tag == parts->instance) [[likely]]
      return parts->index;
    return is_own(key) ? present_chosen(key) : adopted(key);
  }
  /// True for a key with this NIC's number. Only such keys can be bound, invalidated or registered here.
  [[nodiscard]] bool is_own(uint32_t key) const noexcept { return keys_.is_own(key); }

  // ---- keys that move between the NICs of a computer (docs/key_migration.md) --------------------
  /// The whole entry of a key of this NIC that serves now; empty for other keys. Marks the entry, so that
  /// its end is reported.
  [[nodiscard]] std::optional<KeyEntry> hand_out(uint32_t key) noexcept;
  /// The same without the mark.
  [[nodiscard]] std::optional<KeyEntry> describe_key(uint32_t key) const noexcept;
  /// Adds a key of another NIC, or replaces its entry. False when the table is full. Allocates.
  [[nodiscard]] bool adopt(const KeyEntry& key);
  /// Drops a key of another NIC. False when the table does not have it.
  bool disown(uint32_t key) noexcept;
  /// The entry of a key of another NIC; kNoEntry when it was not handed over.
  [[nodiscard]] uint32_t adopted(uint32_t key) const noexcept {
    const auto found = adopted_.find(key);
    return found == adopted_.end() ? kNoEntry : found->second;
  }
  [[nodiscard]] uint32_t adopted_count() const noexcept { return static_cast<uint32_t>(adopted_.size()); }
  /// Calls `visit(entry)` for every key of this NIC that serves now.
  template <class Visit>
  void for_each_key(Visit&& visit) const {
    for (uint32_t index = 0; index < entries_.size(); ++index) {
      if (!entries_[index].valid || entries_[index].adopted) continue;
      visit(*describe_key(keys_.key_of(index)));
    }
  }
  void report_ends_to(KeyEnds* ends) noexcept { ends_ = ends; }
  /// The entry ends or changes: the other NICs that have its key must drop it first.
  void end_elsewhere(uint32_t index) noexcept {
    if (entries_[index].handed) [[unlikely]]
      tell_end(index);
  }
  /// The one operation of a key was executed: it serves no more, at no NIC.
  void use_up(uint32_t index) noexcept;
  /// Checks a to d: valid, type, PD, instance. Unbound windows are not valid.
  AccessFault admit(PdId pd, uint32_t key, EntryType type, Admitted& out) const noexcept {
    const uint32_t index = present(key);
    if (index == kNoEntry) [[unlikely]]
      return why_not(pd, key, type);
    const TableEntry& entry = entries_[index];
    if (!entry.valid) return AccessFault::kNotValid;
    if (!entry.is(type)) return AccessFault::kWrongType;
    if (entry.pd != pd) return AccessFault::kWrongPd;
    out = {&entry, index};
    return AccessFault::kNone;
  }
  /// The window that a key names, bound or not, for bind, unbind and invalidate.
  AccessFault find_window(PdId pd, Rkey key, uint32_t& out) const noexcept {
    return find_taken(pd, key.value(), EntryType::kWindow, out);
  }
  /// The window of type 1 or 2 that has this key or may get it; kNoEntry for others.
  [[nodiscard]] uint32_t find_typed(Rkey key) const noexcept;
  /// The reserved region that a key names, not yet filled.
  AccessFault find_reserved(PdId pd, Lkey key, uint32_t& out) const noexcept;
  /// Entry of a present key, in any PD.
  [[nodiscard]] const TableEntry* find_present(uint32_t key, uint32_t& index) const noexcept;
  /// The same for a caller that may change the entry: not for keys of other NICs.
  [[nodiscard]] TableEntry* find_present(uint32_t key, uint32_t& index) noexcept {
    const bool found = is_own(key) && std::as_const(*this).find_present(key, index) != nullptr;
    return found ? &entries_[index] : nullptr;
  }

  /// Checks whether `request` can be bound to a window of `pd`. Changes nothing.
  AccessFault check_bind(PdId pd, const BindRequest& request, Admitted& region) const noexcept;
  void bind(uint32_t window, const Admitted& region, const BindRequest& request) noexcept;
  /// Leaves a window allocated and without a range. No effect if it has none.
  void unbind(uint32_t window) noexcept;
  [[nodiscard]] bool is_implicit(uint32_t window) const noexcept {
    return entries_[window].implicit != kNoEntry;
  }
  /// Number of the next bind. Never 0.
  [[nodiscard]] uint32_t next_binding() noexcept {
    return bindings_ = bindings_ + 1 == 0 ? 1 : bindings_ + 1;
  }

  /// A region begins or ends to use a translation. @return the translation when that was its last user
  void hold(const Backing& backing) noexcept;
  std::unique_ptr<Translation> drop(const Backing& backing) noexcept;
  /// A region ends to use a translation, and keeps it for later unless other regions use it.
  void set_aside(TableEntry& region) noexcept;
  /// True when page tables may grow by `entries` entries.
  [[nodiscard]] bool room_for(uint64_t entries) const noexcept {
    return entries <= page_entries_max_ && page_entries_ <= page_entries_max_ - entries;
  }
  void limit_page_entries(uint64_t entries) noexcept { page_entries_max_ = entries; }

 private:
  [[nodiscard, gnu::cold]] uint32_t present_chosen(uint32_t key) const noexcept;
  [[gnu::cold]] void tell_end(uint32_t index) noexcept;
  /// The check of a to d that fails for `key`, which is not the present key of any entry.
  [[nodiscard, gnu::cold]] AccessFault why_not(PdId pd, uint32_t key, EntryType type) const noexcept;
  /// Checks b to d, and that the entry is taken.
  [[nodiscard]] AccessFault find_taken(PdId pd, uint32_t key, EntryType type, uint32_t& out) const noexcept;

  static constexpr uint32_t kKeysPerRegion = 2;

  KeyTable keys_;
  ChunkedTable<TableEntry> entries_;
  ChunkedTable<TableEntry>::Chunk spare_;  // memory for the next chunk, if supplied
  std::vector<uint32_t> used_by_pd_;
  std::unordered_map<uint32_t, uint32_t> adopted_;  // entries of other NICs' keys
  KeyEnds* ends_ = nullptr;
  uint64_t page_entries_ = 0;  // entries of the translations in use
  uint64_t page_entries_max_ = std::numeric_limits<uint64_t>::max();
  uint32_t bindings_ = 0;  // number of binds so far
};

}  // namespace weft::adapter
