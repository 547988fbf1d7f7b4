#include "adapter/memory/tpt_entries.h"

#include "base/check.h"

namespace weft::adapter {

TptEntries::~TptEntries() {
  for (uint32_t index = 0; index < entries_.size(); ++index) {
    const TableEntry& entry = entries_[index];
    if (entry.taken && entry.type == EntryType::kRegion) drop(entry.backing);
  }
}

uint32_t TptEntries::take(const TableEntry& as) {
  if (as.pd.value() >= used_by_pd_.size()) used_by_pd_.resize(as.pd.value() + 1U);
  const std::optional<uint32_t> index = keys_.take();
  WEFT_CHECK(index.has_value(), "an entry is taken from a full table");
  if (*index == entries_.size()) entries_.grow();
  TableEntry& entry = entries_[*index];
  entry = as;
  entry.instance = keys_.instance_of(*index);
  entry.taken = true;
  ++used_by_pd_[as.pd.value()];
  return *index;
}

void TptEntries::release(uint32_t index) noexcept {
  TableEntry& entry = entries_[index];
  if (entry.type == EntryType::kRegion) drop(entry.backing);
  --used_by_pd_[entry.pd.value()];
  const uint8_t instance = entry.instance;
  entry = TableEntry{.instance = instance};
  keys_.give_back(index);
}

void TptEntries::move_to(PdId pd, uint32_t index) {
  if (pd.value() >= used_by_pd_.size()) used_by_pd_.resize(pd.value() + 1U);
  TableEntry& entry = entries_[index];
  --used_by_pd_[entry.pd.value()];
  ++used_by_pd_[pd.value()];
  entry.pd = pd;
}

void TptEntries::renew(uint32_t index) noexcept {
  keys_.renew(index);
  entries_[index].instance = keys_.instance_of(index);
}

AccessFault TptEntries::find_window(PdId pd, Rkey key, uint32_t& out) const noexcept {
  const std::optional<KeyParts> parts = keys_.find(key.value());
  if (!parts || !entries_[parts->index].taken) return AccessFault::kNotValid;
  const TableEntry& entry = entries_[parts->index];
  if (entry.type != EntryType::kWindow) return AccessFault::kWrongType;
  if (entry.pd != pd) return AccessFault::kWrongPd;
  if (entry.instance != parts->instance) return AccessFault::kWrongInstance;
  out = parts->index;
  return AccessFault::kNone;
}

const TableEntry* TptEntries::find_present(uint32_t key, uint32_t& index) const noexcept {
  const std::optional<KeyParts> parts = keys_.find(key);
  if (!parts) return nullptr;
  const TableEntry& entry = entries_[parts->index];
  if (!entry.taken || entry.instance != parts->instance) return nullptr;
  index = parts->index;
  return &entry;
}

AccessFault TptEntries::check_bind(PdId pd, const BindRequest& request, Admitted& region) const noexcept {
  const AccessFault fault = admit(pd, request.region.value(), EntryType::kRegion, region);
  if (fault != AccessFault::kNone) return fault;
  if (!has(region.entry->rights, Access::kWindowBind)) return AccessFault::kNoWindowBind;
  if (request.length == 0 || !region.entry->holds(request.addr, request.length))
    return AccessFault::kOutOfBounds;
  if (without(request.access, kWindowRights) != Access::kNone) return AccessFault::kBadFlags;
  if (!local_rights_suffice(region.entry->rights, request.access)) return AccessFault::kRightMissing;
  return AccessFault::kNone;
}

void TptEntries::bind(uint32_t window, const Admitted& region, const BindRequest& request) noexcept {
  TableEntry& entry = entries_[window];
  entry.start = has(request.access, Access::kZeroBased) ? 0 : request.addr;
  entry.length = request.length;
  entry.backing = region.entry->backing;
  entry.backing.origin += request.addr - region.entry->start;
  entry.rights = only(request.access, kRemoteRights | Access::kOneShot);
  entry.region = region.index;
  entry.binding = next_binding();
  entry.valid = true;
  ++entries_[region.index].windows;
}

void TptEntries::unbind(uint32_t window) noexcept {
  TableEntry& entry = entries_[window];
  if (entry.region != kNoEntry && entry.implicit == kNoEntry) {
    --entries_[entry.region].windows;
    entry.region = kNoEntry;
  }
  entry.valid = false;
  entry.touched = false;
  entry.binding = 0;
  entry.start = entry.length = 0;
  entry.backing = {};
  entry.rights = Access::kNone;
}

AccessFault TptEntries::find_reserved(PdId pd, Lkey key, uint32_t& out) const noexcept {
  const std::optional<KeyParts> parts = keys_.find(key.value());
  if (!parts || !entries_[parts->index].taken) return AccessFault::kNotValid;
  const TableEntry& entry = entries_[parts->index];
  if (entry.type != EntryType::kRegion) return AccessFault::kWrongType;
  if (entry.pd != pd) return AccessFault::kWrongPd;
  if (entry.instance != parts->instance) return AccessFault::kWrongInstance;
  if (entry.valid) return AccessFault::kAlreadyBound;
  out = parts->index;
  return AccessFault::kNone;
}

void TptEntries::hold(const Backing& backing) noexcept {
  if (backing.translation == nullptr) return;
  if (backing.translation->users++ == 0) page_entries_ += backing.translation->info().all_entries;
}

void TptEntries::drop(const Backing& backing) noexcept {
  Translation* translation = backing.translation;
  if (translation == nullptr) return;
  if (translation->users > 1) {
    --translation->users;
    return;
  }
  if (translation->users == 1) page_entries_ -= translation->info().all_entries;  // else it was only staged
  const std::unique_ptr<Translation> last(translation);
}

void TptEntries::set_aside(TableEntry& region) noexcept {
  Translation* translation = region.backing.translation;
  if (translation == nullptr) return;
  if (--translation->users == 0) {
    page_entries_ -= translation->info().all_entries;
  } else {
    region.backing = {};
    region.length = 0;
  }
}

}  // namespace weft::adapter
