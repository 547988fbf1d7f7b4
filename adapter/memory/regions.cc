// How it works: every key names one entry of one table. A region is an entry of type region, which only work
// requests of this node may use (by its LKey). Its windows are entries that only peers may use (by their
// RKeys). Registering with remote rights also makes a window over the whole region, so that verbs users get
// an RKey, which is never equal to the LKey. A region with one key (RegisterOptions::one_key) has no such
// window: its entry also holds the remote rights, and its one key serves both uses.
#include "adapter/memory/regions.h"

#include <limits>
#include <new>
#include <utility>

#include "adapter/memory/computer_memory.h"
#include "adapter/memory/tpt_entries.h"
#include "base/out_of_memory.h"

namespace weft::adapter {
namespace {

/// Optional rights (IBV_ACCESS_OPTIONAL_RANGE): an adapter that does not know them ignores them.
constexpr auto kOptionalRights = static_cast<Access>(0x3FF0'0000U);

constexpr const char* kConfined =
    "reg_mr: the protection domain is a user process's: it names memory by effective addresses "
    "(reg_addresses)";

constexpr const char* kMoving = "a peer on this machine is moving data of the region; try again";

}  // namespace

/// A requested registration.
struct Regions::RegionPlan {
  PdId pd{};
  Backing backing{};
  uint64_t start = 0;
  uint64_t length = 0;
  Access access = Access::kNone;
  EntryType type = EntryType::kRegion;
  bool one_key = false;
  bool same_bytes = false;  // re-registration: only rights change

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

Refusable<> Regions::check(const RegionPlan& plan) noexcept {
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
void Regions::open_region(uint32_t index, const RegionPlan& plan) noexcept {
  TableEntry& region = entries_.at(index);
  region.start = plan.start;
  region.length = plan.length;
  region.backing = plan.backing;
  region.rights = only(plan.access, plan.one_key ? kRegionRights | kRemoteRights : kRegionRights);
  region.type = EntryType::kRegion;
  region.one_key = plan.one_key;
  // An access under way goes on by the new rights if its bytes are still those of the same key.
  if (!plan.same_bytes) region.binding = plan.one_key ? entries_.next_binding() : 0;
  region.valid = true;
  if (region.implicit == kNoEntry) return;
  TableEntry& window = entries_.at(region.implicit);
  window.start = plan.start;
  window.length = plan.length;
  window.backing = plan.backing;
  window.rights = only(plan.access, kRemoteRights | Access::kOneShot);
  window.type = EntryType::kWindow;
  window.region = index;
  window.implicit = region.implicit;
  window.binding = entries_.next_binding();
  window.touched = false;
  window.valid = true;
}

MemoryRegion Regions::describe(uint32_t index) const noexcept {
  const TableEntry& region = entries_.at(index);
  const uint32_t opens = region.one_key ? index : region.implicit;
  return {.lkey = Lkey(entries_.key_of(index)),
          .rkey = opens != kNoEntry ? Rkey(entries_.key_of(opens)) : Rkey(),
          .addr = region.start,
          .length = region.length};
}

TableEntry* Regions::find(Lkey lkey, uint32_t& index) noexcept {
  TableEntry* named = entries_.find_present(lkey.value(), index);
  return named != nullptr && named->type == EntryType::kRegion ? named : nullptr;
}

Refusable<MemoryRegion> Regions::add_region(const RegionPlan& plan) {
  if (const Refusable<> good = check(plan); !good) return good.error();
  if (entries_.free_count() < plan.keys())
    return Refusal{Reason::kTableFull,
                   "reg_mr: no free key; deregister something or raise AdapterLimits::keys"};
  const Translation* shared = plan.backing.translation;
  if (shared != nullptr && shared->users == 0 && !entries_.room_for(shared->info().all_entries))
    return Refusal{Reason::kTableFull,
                   "reg_mr: no room for its page table; deregister something or raise the limit"};
  const uint32_t index = entries_.take({.pd = plan.pd});
  if (plan.keys() == 2) {
    const bool taken = with_memory([&] { entries_.at(index).implicit = entries_.take({.pd = plan.pd}); });
    if (!taken) {
      (void)entries_.release(index);
      throw std::bad_alloc();
    }
  }
  entries_.hold(plan.backing);
  open_region(index, plan);
  return describe(index);
}

Refusable<MemoryRegion> Regions::reg_mr(PdId pd, std::span<std::byte> memory, Access access,
                                        const RegisterOptions& options) {
  computer_.note_call();
  if (computer_.is_confined(pd)) return Refusal{Reason::kConfined, kConfined};
  RegionPlan plan{.pd = pd,
                  .backing = {.origin = reinterpret_cast<uintptr_t>(memory.data())},
                  .length = memory.size(),
                  .access = access};
  plan.address_from(options);
  return add_region(plan);
}

Refusable<MemoryRegion> Regions::reg_translated(PdId pd, std::unique_ptr<Translation> translation,
                                                uint64_t length, Access access,
                                                const RegisterOptions& options) {
  computer_.note_call();
  return add_translated(pd, std::move(translation), length, access, options);
}

Refusable<MemoryRegion> Regions::add_translated(PdId pd, std::unique_ptr<Translation> translation,
                                                uint64_t length, Access access,
                                                const RegisterOptions& options) {
  Refusable<MemoryRegion> result = add_over(pd, *translation, length, access, options);
  if (result.ok()) static_cast<void>(translation.release());
  return result;
}

Refusable<MemoryRegion> Regions::add_over(PdId pd, Translation& translation, uint64_t length, Access access,
                                          const RegisterOptions& options) {
  RegionPlan plan{.pd = pd, .backing = {.translation = &translation}, .length = length, .access = access};
  plan.address_from(options);
  return add_region(plan);
}

Refusable<MemoryRegion> Regions::reg_pages(PdId pd, std::unique_ptr<AddressTable>&& table, Access access,
                                           const RegisterOptions& options) {
  computer_.note_call();
  if (computer_.is_confined(pd)) return Refusal{Reason::kConfined, kConfined};
  Refusable<MemoryRegion> result = add_over(pd, *table, table->length(), access, options);
  if (result.ok()) static_cast<void>(table.release());
  return result;
}

Refusable<MemoryRegion> Regions::share_mr(PdId pd, Lkey existing, Access access,
                                          const RegisterOptions& options) {
  computer_.note_call();
  uint32_t index = 0;
  const TableEntry* other = find(existing, index);
  if (other == nullptr || !other->valid)
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

Refusable<MemoryRegion> Regions::rereg_mr(Lkey lkey, const RegionChange& change,
                                          std::unique_ptr<Translation>* ended) {
  computer_.note_call();
  uint32_t index = 0;
  TableEntry* region = find(lkey, index);
  if (region == nullptr) return Refusal{Reason::kNoSuchKey, "rereg_mr: not the LKey of a region"};
  if (region->by_request)
    return Refusal{Reason::kWrongMoment, "rereg_mr: the region is registered by work requests"};
  const bool moves = change.pd && crosses(region->pd, *change.pd);
  if (moves || (change.memory && computer_.is_confined(region->pd)))
    return Refusal{Reason::kConfined, kConfined};
  if (region->has_windows())
    return Refusal{Reason::kBusy, "rereg_mr: windows are bound to the region; unbind them first"};
  const bool had_window = region->implicit != kNoEntry;
  const Access before = had_window ? region->rights | entries_.at(region->implicit).rights : region->rights;
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
  plan.same_bytes = region->one_key && !change.memory && !change.pd;
  if (with_window && !had_window && entries_.free_count() == 0)
    return Refusal{Reason::kTableFull, "rereg_mr: no free key for remote rights; deregister something"};
  if (!may_end(index)) return Refusal{Reason::kAgain, kMoving};

  computer_.end_grants();
  if (with_window && !had_window) region->implicit = entries_.take({.pd = plan.pd});
  if (!with_window && had_window) entries_.release(std::exchange(region->implicit, kNoEntry));
  entries_.move_to(plan.pd, index);
  if (with_window) entries_.move_to(plan.pd, region->implicit);
  entries_.hold(plan.backing);
  std::unique_ptr<Translation> unused = entries_.drop(region->backing);
  if (ended != nullptr) *ended = std::move(unused);
  if (!plan.same_bytes) entries_.renew(index);
  if (with_window && had_window) entries_.renew(region->implicit);
  open_region(index, plan);
  return describe(index);
}

Refusable<> Regions::confine(PdId pd) {
  if (entries_.used_by(pd) != 0)
    return Refusal{Reason::kWrongMoment, "confine: something is registered under the protection domain"};
  computer_.confine(pd);
  return {};
}

/// True when a region would pass from one PD to another, and one of the two belongs to a user process.
bool Regions::crosses(PdId from, PdId to) const noexcept {
  return from != to && (computer_.is_confined(from) || computer_.is_confined(to));
}

Refusable<MemoryRegion> Regions::reserve_mr(PdId pd, bool with_rkey) {
  computer_.note_call();
  if (computer_.is_confined(pd)) return Refusal{Reason::kConfined, kConfined};
  if (pd.value() >= kMemoryPdsMax)
    return Refusal{Reason::kNoSuchObject, "reserve_mr: no such protection domain"};
  if (entries_.free_count() < (with_rkey ? 2U : 1U))
    return Refusal{Reason::kTableFull,
                   "reserve_mr: no free key; deregister something or raise AdapterLimits::keys"};
  const uint32_t index = entries_.take({.pd = pd, .by_request = true});
  if (with_rkey) {
    const uint32_t window = entries_.take({.pd = pd, .region = index, .type = EntryType::kWindow});
    entries_.at(window).implicit = window;
    entries_.at(index).implicit = window;
  }
  return describe(index);
}

Refusable<MemoryRegion> Regions::stage_backing(Lkey lkey, const Backing& backing, uint64_t length) {
  computer_.note_call();
  uint32_t index = 0;
  TableEntry* region = find(lkey, index);
  if (region == nullptr || !region->by_request)
    return Refusal{Reason::kNoSuchKey, "stage: not the LKey of a reserved region"};
  if (region->valid)
    return Refusal{Reason::kWrongMoment, "stage: the region is registered; invalidate it first"};
  if (length == 0)
    return Refusal{Reason::kBadRange, "stage: no memory given; a region has at least one byte"};
  entries_.drop(region->backing);
  region->backing = backing;
  region->length = length;
  if (region->filled) {
    region->filled = false;
    entries_.renew(index);
    if (region->implicit != kNoEntry) entries_.renew(region->implicit);
  }
  return describe(index);
}

Refusable<MemoryRegion> Regions::stage(Lkey lkey, const PageList& pages) {
  Refusable<std::unique_ptr<AddressTable>> table = AddressTable::make(pages);
  if (!table.ok()) return table.error();
  Refusable<MemoryRegion> result = stage_backing(lkey, {.translation = table.value().get()}, pages.length);
  if (result.ok()) static_cast<void>(table.value().release());  // the entry owns it now
  return result;
}

Refusable<MemoryRegion> Regions::stage(Lkey lkey, std::span<std::byte> memory) {
  return stage_backing(lkey, {.origin = reinterpret_cast<uintptr_t>(memory.data())}, memory.size());
}

AccessFault Regions::fill_reserved(PdId pd, const RegisterRequest& request) noexcept {
  uint32_t index = 0;
  const AccessFault fault = entries_.find_reserved(pd, request.lkey, index);
  if (fault != AccessFault::kNone) return fault;
  TableEntry& region = entries_.at(index);
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
  if (table != nullptr && !entries_.room_for(table->info().all_entries)) return AccessFault::kNoRoom;
  entries_.hold(plan.backing);
  open_region(index, plan);
  region.filled = true;
  return AccessFault::kNone;
}

void Regions::limit_page_entries(uint64_t most) noexcept {
  entries_.limit_page_entries(most);
}

Refusable<> Regions::dereg_mr(Lkey lkey, std::unique_ptr<Translation>* ended) {
  computer_.note_call();
  uint32_t index = 0;
  const TableEntry* region = find(lkey, index);
  if (region == nullptr) return Refusal{Reason::kNoSuchKey, "dereg_mr: not the LKey of a region"};
  if (region->has_windows())
    return Refusal{Reason::kBusy, "dereg_mr: windows are bound to the region; unbind them first"};
  if (!may_end(index)) return Refusal{Reason::kAgain, kMoving};
  std::unique_ptr<Translation> unused = end_region(index);
  if (ended != nullptr) *ended = std::move(unused);
  return {};
}

std::unique_ptr<Translation> Regions::end_region(uint32_t index) noexcept {
  computer_.end_grants();
  const uint32_t window = entries_.at(index).implicit;
  if (window != kNoEntry) entries_.release(window);
  return entries_.release(index);
}

AccessFault Regions::invalidate_region(PdId pd, Lkey key) noexcept {
  if (!entries_.is_own(key.value())) return AccessFault::kNotValid;
  TptEntries::Admitted found;
  const AccessFault fault = entries_.admit(pd, key.value(), EntryType::kRegion, found);
  if (fault != AccessFault::kNone) return fault;
  TableEntry& region = entries_.at(found.index);
  if (!region.by_request) return AccessFault::kWrongType;
  if (region.has_windows()) return AccessFault::kAlreadyBound;
  computer_.end_grants();
  entries_.end_elsewhere(found.index);
  region.valid = false;
  entries_.set_aside(region);
  if (region.implicit != kNoEntry) entries_.unbind(region.implicit);
  return AccessFault::kNone;
}

}  // namespace weft::adapter
