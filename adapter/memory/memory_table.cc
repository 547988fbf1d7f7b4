// How it works: every key names one entry of one table. A region is an entry of type region, which only work
// requests of this node may use (by its LKey). Its windows are entries that only peers may use (by their
// RKeys). Registering with remote rights also makes a window over the whole region, so that verbs users get
// an RKey, which is never equal to the LKey. A region with one key (RegisterOptions::one_key) has no such
// window: its entry also holds the remote rights, and its one key serves both uses. Each check follows the
// letters of TPT-LOCAL-02 and TPT-REMOTE-02 in order: valid, type, PD, instance, bounds, right. Bounds are
// compared by subtraction, which cannot wrap: offset <= length and bytes <= length - offset.
//
// Authorisation comes first and reads one entry. Only then is an offset converted to an address. Most regions
// are one range of the process, and the entry holds the address of its first byte. A region of pages holds a
// Translation, which visit_local() and visit_granted() ask for each piece.
#include "adapter/memory/memory_table.h"

#include <array>
#include <limits>
#include <utility>

#include "adapter/memory/fault_handler.h"
#include "adapter/memory/tpt_entries.h"

namespace weft::adapter {
namespace {

/// Optional rights (IBV_ACCESS_OPTIONAL_RANGE): an adapter that does not know them ignores them.
constexpr auto kOptionalRights = static_cast<Access>(0x3FF0'0000U);

constexpr const char* kConfined =
    "reg_mr: the protection domain is a user process's: it names memory by effective addresses "
    "(reg_addresses)";

constexpr const char* kMoving = "a peer on this machine is moving data of the region; try again";

/// Translation for a grant in pages whose entry no longer has one: finds no memory.
class Nowhere final : public Translation {
 public:
  [[nodiscard]] AccessFault translate(uint64_t /*offset*/, AccessKind /*kind*/,
                                      MemoryPiece& /*out*/) const noexcept override {
    return AccessFault::kNotMapped;
  }
  [[nodiscard]] AccessFault check(uint64_t /*offset*/, uint64_t /*bytes*/,
                                  AccessKind /*kind*/) const noexcept override {
    return AccessFault::kNotMapped;
  }
};

[[nodiscard]] PageWalk walk_of(const Backing& backing, uint64_t offset, uint64_t bytes,
                               AccessKind kind) noexcept {
  static const Nowhere nowhere;
  const Translation* translation = backing.translation != nullptr ? backing.translation : &nowhere;
  return {*translation, backing.origin + offset, bytes, kind};
}

/// A region in one piece has no table: the pointer is the address of the memory itself.
[[nodiscard]] AttInfo att_of(const Backing& backing) noexcept {
  return backing.translation != nullptr ? backing.translation->info() : AttInfo{.pointer = backing.origin};
}

}  // namespace

/// A requested registration.
struct MemoryTable::RegionPlan {
  PdId pd{};
  Backing backing{};
  uint64_t start = 0;
  uint64_t length = 0;
  Access access = Access::kNone;
  EntryType type = EntryType::kRegion;
  bool one_key = false;

  [[nodiscard]] Access remote() const noexcept { return only(access, kRemoteRights); }
  [[nodiscard]] uint32_t keys() const noexcept { return remote() == Access::kNone || one_key ? 1 : 2; }
  [[nodiscard]] bool ends_in_address_space() const noexcept {
    return length - 1 <= std::numeric_limits<uint64_t>::max() - start;
  }
  /// Sets the first address: as requested, or the memory's own address.
  void address_from(const RegisterOptions& options) noexcept {
    const bool from_zero = backing.translation != nullptr || has(access, Access::kZeroBased);
    start = options.base_addr.value_or(from_zero ? 0 : backing.origin);
    type = options.type;
    one_key = one_key || options.one_key;
  }
};

MemoryTable::MemoryTable(uint32_t keys, uint8_t number, RandomSource& random, uint32_t pds)
    : WindowTable(keys, number, random, pds), number_(number) {
  static_cast<void>(install_fault_handler());
}

Refusable<> MemoryTable::check(const RegionPlan& plan) noexcept {
  if (plan.type != EntryType::kRegion)
    return Refusal{
        Reason::kBadOption,
        "reg_mr: makes RDMA regions only; iSCSI regions are not offered, entry type 3 is reserved"};
  if (plan.pd.value() >= kMemoryPdsMax)
    return Refusal{Reason::kNoSuchObject, "reg_mr: no such protection domain"};
  const Access unknown = without(plan.access, kRegionRights | kWindowRights | kOptionalRights);
  if (unknown != Access::kNone)
    return Refusal{Reason::kBadRights, "reg_mr: unknown access bits; give those of Access"};
  if (has(plan.access, Access::kZeroBased) && plan.start != 0)
    return Refusal{Reason::kBadOption, "reg_mr: zero-based and with a base address; choose one"};
  if (has(plan.access, Access::kOneShot) && plan.remote() == Access::kNone)
    return Refusal{Reason::kBadRights,
                   "reg_mr: one-shot limits a peer's operations; give a remote right too"};
  if (has(plan.access, Access::kOneShot) && plan.one_key)
    return Refusal{Reason::kBadRights,
                   "reg_mr: one-shot would end the owner's use of the one key too; choose one"};
  if (plan.length == 0)
    return Refusal{Reason::kBadRange, "reg_mr: no memory given; a region has at least one byte"};
  if (!local_rights_suffice(plan.access, plan.remote()))
    return Refusal{Reason::kBadRights,
                   has(plan.access, Access::kNoLocalRead)
                       ? "reg_mr: remote read and atomic need the local read that is withheld"
                       : "reg_mr: remote write and atomic need local write: add IBV_ACCESS_LOCAL_WRITE"};
  if (!plan.ends_in_address_space())
    return Refusal{Reason::kBadRange,
                   "reg_mr: the region would run past the end of the address space; choose a lower base "
                   "address"};
  return {};
}

/// Makes a taken entry the region of a plan; its implicit window, if any, covers the whole region.
void MemoryTable::open_region(uint32_t index, const RegionPlan& plan) noexcept {
  TableEntry& region = entries().at(index);
  region.start = plan.start;
  region.length = plan.length;
  region.backing = plan.backing;
  region.rights = only(plan.access, plan.one_key ? kRegionRights | kRemoteRights : kRegionRights);
  region.type = EntryType::kRegion;
  region.one_key = plan.one_key;
  region.binding = plan.one_key ? entries().next_binding() : 0;
  region.valid = true;
  if (region.implicit == kNoEntry) return;
  TableEntry& window = entries().at(region.implicit);
  window.start = plan.start;
  window.length = plan.length;
  window.backing = plan.backing;
  window.rights = only(plan.access, kRemoteRights | Access::kOneShot);
  window.type = EntryType::kWindow;
  window.region = index;
  window.implicit = region.implicit;
  window.binding = entries().next_binding();
  window.touched = false;
  window.valid = true;
}

MemoryRegion MemoryTable::describe(uint32_t index) const noexcept {
  const TableEntry& region = entries().at(index);
  const uint32_t opens = region.one_key ? index : region.implicit;
  return {.lkey = Lkey(entries().key_of(index)),
          .rkey = opens != kNoEntry ? Rkey(entries().key_of(opens)) : Rkey(),
          .addr = region.start,
          .length = region.length};
}

Refusable<MemoryRegion> MemoryTable::add_region(const RegionPlan& plan) {
  if (const Refusable<> good = check(plan); !good) return good.error();
  if (entries().free_count() < plan.keys())
    return Refusal{Reason::kTableFull,
                   "reg_mr: no free key; deregister something or raise AdapterLimits::keys"};
  const Translation* shared = plan.backing.translation;
  if (shared != nullptr && shared->users == 0 && !entries().room_for(shared->info().all_entries))
    return Refusal{Reason::kTableFull,
                   "reg_mr: no room for its page table; deregister something or raise the limit"};
  const uint32_t index = entries().take({.pd = plan.pd});
  if (plan.keys() == 2) entries().at(index).implicit = entries().take({.pd = plan.pd});
  entries().hold(plan.backing);
  open_region(index, plan);
  return describe(index);
}

Refusable<MemoryRegion> MemoryTable::reg_mr(PdId pd, std::span<std::byte> memory, Access access,
                                            const RegisterOptions& options) {
  note_call();
  if (is_confined(pd)) return Refusal{Reason::kConfined, kConfined};
  RegionPlan plan{.pd = pd,
                  .backing = {.origin = reinterpret_cast<uintptr_t>(memory.data())},
                  .length = memory.size(),
                  .access = access};
  plan.address_from(options);
  return add_region(plan);
}

Refusable<MemoryRegion> MemoryTable::reg_translated(PdId pd, std::unique_ptr<Translation> translation,
                                                    uint64_t length, Access access,
                                                    const RegisterOptions& options) {
  note_call();
  return add_translated(pd, std::move(translation), length, access, options);
}

Refusable<MemoryRegion> MemoryTable::add_translated(PdId pd, std::unique_ptr<Translation> translation,
                                                    uint64_t length, Access access,
                                                    const RegisterOptions& options) {
  RegionPlan plan{
      .pd = pd, .backing = {.translation = translation.get()}, .length = length, .access = access};
  plan.address_from(options);
  Refusable<MemoryRegion> result = add_region(plan);
  if (result.ok()) static_cast<void>(translation.release());  // the region owns it now
  return result;
}

Refusable<MemoryRegion> MemoryTable::bind_translated(PdId pd, std::unique_ptr<Translation> translation,
                                                     const BindRequest& request) {
  Refusable<MemoryRegion> region =
      add_translated(pd, std::move(translation), request.length, Access::kLocalWrite | Access::kWindowBind,
                     {.base_addr = request.addr});
  if (!region.ok()) return region;
  BindRequest bind = request;
  bind.region = region.value().lkey;
  const AccessFault fault = bind_rkey(pd, bind);
  if (fault == AccessFault::kNone) return region;
  uint32_t index = 0;
  if (entries().find_present(bind.region.value(), index) != nullptr) end_region(index);
  return Refusal{bind_reason(fault), "bind_rkey: ", to_string(fault)};
}

Refusable<MemoryRegion> MemoryTable::reg_pages(PdId pd, const PageList& pages, Access access,
                                               const RegisterOptions& options) {
  if (is_confined(pd)) return Refusal{Reason::kConfined, kConfined};
  Refusable<std::unique_ptr<AddressTable>> table = AddressTable::make(pages);
  if (!table.ok()) return table.error();
  return reg_translated(pd, std::move(table).value(), pages.length, access, options);
}

Refusable<MemoryRegion> MemoryTable::share_mr(PdId pd, Lkey existing, Access access,
                                              const RegisterOptions& options) {
  note_call();
  uint32_t index = 0;
  const TableEntry* other = entries().find_present(existing.value(), index);
  if (other == nullptr || other->type != EntryType::kRegion || !other->valid)
    return Refusal{Reason::kNoSuchKey, "share_mr: not the LKey of a region"};
  if (crosses(other->pd, pd)) return Refusal{Reason::kConfined, kConfined};
  const Access local = only(other->rights, Access::kLocalWrite | Access::kNoLocalRead);
  const bool more = (has(access, Access::kLocalWrite) && !has(local, Access::kLocalWrite)) ||
                    (has(local, Access::kNoLocalRead) && !has(access, Access::kNoLocalRead));
  if (more) return Refusal{Reason::kBadRights, "share_mr: more local rights than the existing region has"};
  RegionPlan plan{.pd = pd, .backing = other->backing, .length = other->length, .access = access};
  plan.address_from(options);
  return add_region(plan);
}

Refusable<MemoryRegion> MemoryTable::rereg_mr(Lkey lkey, const RegionChange& change) {
  note_call();
  uint32_t index = 0;
  TableEntry* region = entries().find_present(lkey.value(), index);
  if (region == nullptr || region->type != EntryType::kRegion)
    return Refusal{Reason::kNoSuchKey, "rereg_mr: not the LKey of a region"};
  if (region->by_request)
    return Refusal{Reason::kWrongMoment, "rereg_mr: the region is registered by work requests"};
  const bool moves = change.pd && crosses(region->pd, *change.pd);
  if (moves || (change.memory && is_confined(region->pd))) return Refusal{Reason::kConfined, kConfined};
  if (region->has_windows())
    return Refusal{Reason::kBusy, "rereg_mr: windows are bound to the region; unbind them first"};
  const bool had_window = region->implicit != kNoEntry;
  const Access before = had_window ? region->rights | entries().at(region->implicit).rights : region->rights;
  RegionPlan plan{.pd = change.pd.value_or(region->pd),
                  .backing = region->backing,
                  .start = region->start,
                  .length = region->length,
                  .access = change.access.value_or(before),
                  .one_key = region->one_key};
  if (change.memory) {
    plan.backing = {.origin = reinterpret_cast<uintptr_t>(change.memory->data())};
    plan.length = change.memory->size();
    plan.address_from(change.options);
  }
  if (const Refusable<> good = check(plan); !good) return good.error();
  const bool with_window = plan.keys() == 2;
  // If only rights change, a region with one key keeps it: the peer already has the key, and the key opens
  // what the owner now allows.
  const bool keeps_keys = region->one_key && !change.memory && !change.pd;
  if (with_window && !had_window && entries().free_count() == 0)
    return Refusal{Reason::kTableFull, "rereg_mr: no free key for remote rights; deregister something"};
  if (!may_end(index)) return Refusal{Reason::kAgain, kMoving};

  end_grants();
  if (with_window && !had_window) region->implicit = entries().take({.pd = plan.pd});
  if (!with_window && had_window) entries().release(std::exchange(region->implicit, kNoEntry));
  entries().move_to(plan.pd, index);
  if (with_window) entries().move_to(plan.pd, region->implicit);
  entries().hold(plan.backing);
  entries().drop(region->backing);
  if (!keeps_keys) entries().renew(index);
  if (!keeps_keys && with_window && had_window) entries().renew(region->implicit);
  open_region(index, plan);
  return describe(index);
}

template <class Action>
void MemoryTable::for_computer(Action&& action) {
  if (computer_ == nullptr) return action(*this);
  for (uint32_t nic = 0; nic < kNicsMax; ++nic) action(*computer_[nic]);
}

Refusable<> MemoryTable::confine(PdId pd) {
  if (!pd_unused(pd))
    return Refusal{Reason::kWrongMoment, "confine: something is registered under the protection domain"};
  for_computer([pd](MemoryTable& table) { table.confined_.insert(pd); });
  return {};
}

void MemoryTable::tolerate_gone_memory(GoneMemory* gone) noexcept {
  for_computer([gone](MemoryTable& table) { table.gone_ = gone; });
}

/// True when a region would pass from one PD to another, and one of the two belongs to a user process.
bool MemoryTable::crosses(PdId from, PdId to) const noexcept {
  return from != to && (is_confined(from) || is_confined(to));
}

Refusable<MemoryRegion> MemoryTable::reserve_mr(PdId pd, bool with_rkey) {
  note_call();
  if (is_confined(pd)) return Refusal{Reason::kConfined, kConfined};
  if (pd.value() >= kMemoryPdsMax)
    return Refusal{Reason::kNoSuchObject, "reserve_mr: no such protection domain"};
  if (entries().free_count() < (with_rkey ? 2U : 1U))
    return Refusal{Reason::kTableFull,
                   "reserve_mr: no free key; deregister something or raise AdapterLimits::keys"};
  const uint32_t index = entries().take({.pd = pd, .by_request = true});
  if (with_rkey) {
    const uint32_t window = entries().take({.pd = pd, .region = index, .type = EntryType::kWindow});
    entries().at(window).implicit = window;
    entries().at(index).implicit = window;
  }
  return describe(index);
}

Refusable<MemoryRegion> MemoryTable::stage_backing(Lkey lkey, const Backing& backing, uint64_t length) {
  note_call();
  uint32_t index = 0;
  TableEntry* region = entries().find_present(lkey.value(), index);
  if (region == nullptr || !region->by_request)
    return Refusal{Reason::kNoSuchKey, "stage: not the LKey of a reserved region"};
  if (region->valid)
    return Refusal{Reason::kWrongMoment, "stage: the region is registered; invalidate it first"};
  if (length == 0)
    return Refusal{Reason::kBadRange, "stage: no memory given; a region has at least one byte"};
  entries().drop(region->backing);
  region->backing = backing;
  region->length = length;
  if (region->filled) {
    region->filled = false;
    entries().renew(index);
    if (region->implicit != kNoEntry) entries().renew(region->implicit);
  }
  return describe(index);
}

Refusable<MemoryRegion> MemoryTable::stage(Lkey lkey, const PageList& pages) {
  Refusable<std::unique_ptr<AddressTable>> table = AddressTable::make(pages);
  if (!table.ok()) return table.error();
  Refusable<MemoryRegion> result = stage_backing(lkey, {.translation = table.value().get()}, pages.length);
  if (result.ok()) static_cast<void>(table.value().release());  // the entry owns it now
  return result;
}

Refusable<MemoryRegion> MemoryTable::stage(Lkey lkey, std::span<std::byte> memory) {
  return stage_backing(lkey, {.origin = reinterpret_cast<uintptr_t>(memory.data())}, memory.size());
}

AccessFault MemoryTable::fill_reserved(PdId pd, const RegisterRequest& request) noexcept {
  uint32_t index = 0;
  const AccessFault fault = entries().find_reserved(pd, request.lkey, index);
  if (fault != AccessFault::kNone) return fault;
  TableEntry& region = entries().at(index);
  if (region.length == 0) return AccessFault::kNotMapped;
  const RegionPlan plan{.pd = pd,
                        .backing = region.backing,
                        .start = request.addr,
                        .length = region.length,
                        .access = request.access};
  if (!plan.ends_in_address_space()) return AccessFault::kOutOfBounds;
  if ((plan.keys() == 2) != (region.implicit != kNoEntry)) return AccessFault::kBadFlags;
  if (!check(plan)) return AccessFault::kBadFlags;
  const Translation* table = region.backing.translation;
  if (table != nullptr && !entries().room_for(table->info().all_entries)) return AccessFault::kNoRoom;
  entries().hold(plan.backing);
  open_region(index, plan);
  region.filled = true;
  return AccessFault::kNone;
}

void MemoryTable::limit_page_entries(uint64_t most) noexcept {
  entries().limit_page_entries(most);
}

Refusable<> MemoryTable::dereg_mr(Lkey lkey) {
  note_call();
  uint32_t index = 0;
  const TableEntry* region = entries().find_present(lkey.value(), index);
  if (region == nullptr || region->type != EntryType::kRegion)
    return Refusal{Reason::kNoSuchKey, "dereg_mr: not the LKey of a region"};
  if (region->has_windows())
    return Refusal{Reason::kBusy, "dereg_mr: windows are bound to the region; unbind them first"};
  if (!may_end(index)) return Refusal{Reason::kAgain, kMoving};
  end_region(index);
  return {};
}

void MemoryTable::end_region(uint32_t index) noexcept {
  end_grants();
  const uint32_t window = entries().at(index).implicit;
  if (window != kNoEntry) entries().release(window);
  entries().release(index);
}

AccessFault MemoryTable::check_local(PdId pd, const Sge& sge, AccessKind kind,
                                     std::byte*& at) const noexcept {
  TptEntries::Admitted found;
  const AccessFault fault = entries().admit(pd, sge.lkey.value(), EntryType::kRegion, found);
  if (found.entry == nullptr) [[unlikely]]
    return fault;
  const TableEntry& entry = *found.entry;
  if (!entry.holds(sge.addr, sge.length)) [[unlikely]]
    return AccessFault::kOutOfBounds;
  if (!permits(entry.rights, kind)) [[unlikely]]
    return AccessFault::kRightMissing;
  const uint64_t offset = sge.addr - entry.start;
  if (const Translation* translation = entry.backing.translation; translation != nullptr) [[unlikely]] {
    const AccessFault missing = translation->check(entry.backing.origin + offset, sge.length, kind);
    if (missing != AccessFault::kNone) return missing;
  }
  at = entry.backing.at(offset);
  return AccessFault::kNone;
}

AccessFault MemoryTable::check_remote(const Accessor& who, Rkey key, uint64_t va, uint64_t length,
                                      AccessKind kind, RemoteGrant& out) const noexcept {
  TptEntries::Admitted found;
  const AccessFault fault = entries().admit(who.pd, key.value(), EntryType::kWindow, found);
  if (found.entry == nullptr) [[unlikely]]
    return fault;
  const TableEntry& entry = *found.entry;
  if (!entry.serves(who.qpn)) [[unlikely]]
    return AccessFault::kWrongQp;
  if (!entry.holds(va, length)) [[unlikely]]
    return AccessFault::kOutOfBounds;
  if (!permits(entry.rights, kind)) [[unlikely]]
    return AccessFault::kRightMissing;
  const uint64_t offset = va - entry.start;
  if (const Translation* translation = entry.backing.translation; translation != nullptr) [[unlikely]] {
    const AccessFault missing = translation->check(entry.backing.origin + offset, length, kind);
    if (missing != AccessFault::kNone) return missing;
  }
  out = {.at = entry.backing.at(offset),
         .room = entry.length - offset,
         .entry = found.index,
         .binding = entry.binding,
         .nic = number_,
         .one_shot = has(entry.rights, Access::kOneShot)};
  return AccessFault::kNone;
}

PageWalk MemoryTable::walk_local(const Sge& sge, AccessKind kind) const noexcept {
  uint32_t index = 0;
  const TableEntry* entry = entries().find_present(sge.lkey.value(), index);
  return entry == nullptr ? walk_of({}, 0, sge.length, kind)
                          : walk_of(entry->backing, sge.addr - entry->start, sge.length, kind);
}

PageWalk MemoryTable::walk_granted(const RemoteGrant& grant, uint64_t begin, uint64_t bytes,
                                   AccessKind kind) const noexcept {
  const TableEntry& entry = table_of(grant).entries().at(grant.entry);
  return walk_of(entry.backing, entry.length - grant.room + begin, bytes, kind);
}

void MemoryTable::finish_remote(const RemoteGrant& grant) noexcept {
  if (!grant.one_shot) [[likely]]
    return;
  TptEntries& of = table_of(grant).entries();
  TableEntry& entry = of.at(grant.entry);
  if (!entry.valid || entry.binding != grant.binding) return;
  entry.valid = false;
  entry.touched = true;
  end_grants();
  if (entry.adopted) {
    of.tell_used(entry.region);
  } else {
    of.end_elsewhere(grant.entry);
  }
}

bool MemoryTable::still_bound(const RemoteGrant& grant) const noexcept {
  return grant.binding != 0 && table_of(grant).entries().at(grant.entry).binding == grant.binding;
}

std::optional<TptEntry> MemoryTable::query(uint32_t key) const noexcept {
  uint32_t index = 0;
  const TableEntry* entry = entries().find_present(key, index);
  if (entry == nullptr) return std::nullopt;
  const bool region = entry->type == EntryType::kRegion;
  return TptEntry{.start = entry->start,
                  .length = entry->length,
                  .pd = entry->pd,
                  .instance = entry->instance(),
                  .type = entry->type,
                  .valid = entry->valid,
                  .local_read = region && permits(entry->rights, AccessKind::kLocalRead),
                  .local_write = has(entry->rights, Access::kLocalWrite),
                  .remote_read = has(entry->rights, Access::kRemoteRead),
                  .remote_write = has(entry->rights, Access::kRemoteWrite),
                  .remote_atomic = has(entry->rights, Access::kRemoteAtomic),
                  .window_binding = has(entry->rights, Access::kWindowBind),
                  .one_touch_enabled = has(entry->rights, Access::kOneShot),
                  .touched = entry->touched,
                  .bound_windows = region ? entry->tied : 0,
                  .att = att_of(entry->backing)};
}

std::optional<MemoryRange> MemoryTable::own_range(PdId pd, Rkey key) const noexcept {
  TptEntries::Admitted found;
  const AccessFault fault = entries().admit(pd, key.value(), EntryType::kWindow, found);
  if (fault != AccessFault::kNone || found.entry == nullptr || found.entry->adopted) return std::nullopt;
  const TableEntry& entry = *found.entry;
  const bool of_region = entry.one_key || entry.implicit != kNoEntry;
  const TableEntry& region = entry.one_key ? entry : entries().at(entry.region);
  const bool plain = of_region && !region.by_request && !has(entry.rights, Access::kOneShot);
  if (!plain || entry.backing.translation != nullptr || entry.backing.origin != entry.start)
    return std::nullopt;
  return MemoryRange{.start = entry.start,
                     .length = entry.length,
                     .read = has(entry.rights, Access::kRemoteRead),
                     .write = has(entry.rights, Access::kRemoteWrite)};
}

void MemoryTable::show_range(uint32_t key, uint64_t& start, uint64_t& length) const noexcept {
  uint32_t index = 0;
  const TableEntry* entry = entries().find_present(key, index);
  if (entry == nullptr) return;
  start = entry->start;
  length = entry->length;
}

bool MemoryTable::has_key(uint32_t key) const noexcept {
  uint32_t index = 0;
  return entries().find_present(key, index) != nullptr;
}

std::optional<KeyEntry> MemoryTable::hand_out(uint32_t key) noexcept {
  return entries().hand_out(key);
}

bool MemoryTable::adopt(const KeyEntry& key) {
  end_grants();
  return entries().adopt(key);
}

bool MemoryTable::disown(uint32_t key) noexcept {
  end_grants();
  return entries().disown(key);
}

void MemoryTable::use_up(uint32_t key) noexcept {
  uint32_t index = 0;
  TableEntry* entry = entries().find_present(key, index);
  if (entry == nullptr || !entry->valid) return;
  entry->valid = false;
  entry->touched = true;
  end_grants();
  entries().end_elsewhere(index);
}

uint32_t MemoryTable::adopted_count() const noexcept {
  return entries().adopted_count();
}

void MemoryTable::list_keys(KeyVisitor& visit) const {
  entries().for_each_key([&](const KeyEntry& key) { visit.see(key); });
}

void MemoryTable::report_ends_to(KeyEnds* ends) noexcept {
  entries().report_ends_to(ends);
}

bool MemoryTable::pd_unused(PdId pd) const noexcept {
  return entries().used_by(pd) == 0;
}

std::string_view to_string(AccessFault fault) noexcept {
  static constexpr std::array<std::string_view, static_cast<size_t>(AccessFault::kCount)> kNames{
      "none",          "not-valid",     "wrong-type",     "wrong-pd",      "wrong-instance",
      "out-of-bounds", "right-missing", "no-window-bind", "already-bound", "bad-flags",
      "no-room",       "not-mapped",    "wrong-qp"};
  return fault < AccessFault::kCount ? kNames[static_cast<size_t>(fault)] : "unknown";
}

}  // namespace weft::adapter
