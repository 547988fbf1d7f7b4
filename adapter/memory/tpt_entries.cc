#include "adapter/memory/tpt_entries.h"

#include <utility>

#include "base/check.h"

namespace weft::adapter {

TptEntries::TptEntries(uint32_t keys, uint8_t number, RandomSource& random, uint32_t pds)
    : keys_(keys, number, random) {
  entries_.expect(keys);
  used_by_pd_.reserve(pds);
}

void TptEntries::give_room(Room& room) noexcept {
  keys_.give_room(room.keys);
  if (spare_ == nullptr) spare_ = std::move(room.entries);
}

TptEntries::~TptEntries() {
  for (uint32_t index = 0; index < entries_.size(); ++index) {
    const TableEntry& entry = entries_[index];
    if (entry.taken && entry.type == EntryType::kRegion && !entry.adopted) drop(entry.backing);
  }
}

uint32_t TptEntries::take(const TableEntry& as) {
  if (as.pd.value() >= used_by_pd_.size()) used_by_pd_.resize(as.pd.value() + 1U);
  // No index is taken before there is memory for its entry.
  if (spare_ == nullptr && keys_.next() == entries_.size()) spare_ = ChunkedTable<TableEntry>::make();
  const std::optional<uint32_t> index = keys_.take();
  WEFT_CHECK(index.has_value(), "an entry is taken from a full table");
  if (*index == entries_.size()) entries_.grow(std::move(spare_));
  TableEntry& entry = entries_[*index];
  entry = as;
  entry.tag = keys_.instance_of(*index);
  entry.taken = true;
  ++used_by_pd_[as.pd.value()];
  return *index;
}

std::unique_ptr<Translation> TptEntries::release(uint32_t index) noexcept {
  end_elsewhere(index);
  TableEntry& entry = entries_[index];
  std::unique_ptr<Translation> unused;
  if (entry.type == EntryType::kRegion) unused = drop(entry.backing);
  --used_by_pd_[entry.pd.value()];
  const uint16_t tag = entry.tag;
  entry = TableEntry{.tag = tag};
  keys_.give_back(index);
  return unused;
}

void TptEntries::move_to(PdId pd, uint32_t index) {
  end_elsewhere(index);
  if (pd.value() >= used_by_pd_.size()) used_by_pd_.resize(pd.value() + 1U);
  TableEntry& entry = entries_[index];
  --used_by_pd_[entry.pd.value()];
  ++used_by_pd_[pd.value()];
  entry.pd = pd;
}

void TptEntries::renew(uint32_t index) noexcept {
  end_elsewhere(index);
  keys_.renew(index);
  entries_[index].tag = keys_.instance_of(index);
}

uint32_t TptEntries::present_chosen(uint32_t key) const noexcept {
  const std::optional<KeyParts> parts = keys_.find_chosen(key);
  if (!parts || entries_[parts->index].tag != (kChosenTag | parts->instance)) return kNoEntry;
  return parts->index;
}

AccessFault TptEntries::why_not(PdId pd, uint32_t key, EntryType type) const noexcept {
  std::optional<KeyParts> parts = keys_.find_chosen(key);
  if (!parts) parts = keys_.find(key);
  if (!parts || !entries_[parts->index].valid) return AccessFault::kNotValid;
  const TableEntry& entry = entries_[parts->index];
  if (!entry.is(type)) return AccessFault::kWrongType;
  return entry.pd != pd ? AccessFault::kWrongPd : AccessFault::kWrongInstance;
}

AccessFault TptEntries::find_taken(PdId pd, uint32_t key, EntryType type, uint32_t& out) const noexcept {
  if (!is_own(key)) return AccessFault::kNotValid;  // also if it was handed over: it is changed at its NIC
  const uint32_t index = present(key);
  const bool is_old = index == kNoEntry;
  std::optional<KeyParts> parts = is_old ? keys_.find_chosen(key) : std::nullopt;
  if (is_old && !parts) parts = keys_.find(key);
  if (is_old && !parts) return AccessFault::kNotValid;
  const uint32_t named = is_old ? parts->index : index;
  const TableEntry& entry = entries_[named];
  if (!entry.taken) return AccessFault::kNotValid;
  if (entry.type != type) return AccessFault::kWrongType;
  if (entry.pd != pd) return AccessFault::kWrongPd;
  if (is_old) return AccessFault::kWrongInstance;
  out = named;
  return AccessFault::kNone;
}

const TableEntry* TptEntries::find_present(uint32_t key, uint32_t& index) const noexcept {
  const uint32_t named = present(key);
  if (named == kNoEntry || !entries_[named].taken) return nullptr;
  index = named;
  return &entries_[named];
}

uint32_t TptEntries::find_typed(Rkey key) const noexcept {
  const std::optional<KeyParts> chosen = keys_.find_chosen(key.value());
  if (chosen) return chosen->index;
  const std::optional<KeyParts> parts = keys_.find(key.value());
  if (!parts) return kNoEntry;
  const TableEntry& entry = entries_[parts->index];
  return entry.taken && entry.kind == WindowKind::kType1 && keys_.promised(*parts) ? parts->index : kNoEntry;
}

void TptEntries::withdraw_behind(Rkey key) noexcept {
  if (const std::optional<KeyParts> parts = keys_.find(key.value()); parts) keys_.withdraw_behind(*parts);
}

bool TptEntries::take_block(uint32_t index) {
  if (!keys_.take_block(index)) return false;
  entries_[index].tag = kChosenTag | keys_.instance_of(index);
  return true;
}

void TptEntries::set_key(uint32_t index, Rkey key) noexcept {
  end_elsewhere(index);
  TableEntry& entry = entries_[index];
  if (entry.kind == WindowKind::kType2) {
    keys_.choose({index, static_cast<uint8_t>(key.value())});
    entry.tag = kChosenTag | keys_.instance_of(index);
  } else if (const std::optional<KeyParts> parts = keys_.find(key.value()); parts) {
    keys_.adopt(*parts);
    entry.tag = keys_.instance_of(index);
  }
}

AccessFault TptEntries::check_bind(PdId pd, const BindRequest& request, Admitted& region) const noexcept {
  if (!is_own(request.region.value())) return AccessFault::kNotValid;  // window and region are of one NIC
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
  ++entries_[region.index].tied;
}

void TptEntries::unbind(uint32_t window) noexcept {
  end_elsewhere(window);
  TableEntry& entry = entries_[window];
  if (entry.region != kNoEntry && entry.implicit == kNoEntry) {
    --entries_[entry.region].tied;
    entry.region = kNoEntry;
    entry.tied = 0;
  }
  entry.valid = false;
  entry.touched = false;
  entry.binding = 0;
  entry.start = entry.length = 0;
  entry.backing = {};
  entry.rights = Access::kNone;
}

std::optional<KeyEntry> TptEntries::describe_key(uint32_t key) const noexcept {
  if (!is_own(key)) return std::nullopt;
  const uint32_t index = present(key);
  if (index == kNoEntry || !entries_[index].valid || entries_[index].adopted) return std::nullopt;
  const TableEntry& entry = entries_[index];
  return KeyEntry{.key = key,
                  .start = entry.start,
                  .length = entry.length,
                  .pd = entry.pd,
                  .rights = entry.rights,
                  .type = entry.type,
                  .kind = entry.kind,
                  .serves_qp = entry.kind == WindowKind::kType2 ? Qpn(entry.tied) : Qpn(),
                  .one_key = entry.one_key,
                  .touched = entry.touched,
                  .binding = entry.binding,
                  .translation = entry.backing.translation,
                  .origin = entry.backing.origin};
}

std::optional<KeyEntry> TptEntries::hand_out(uint32_t key) noexcept {
  std::optional<KeyEntry> out = describe_key(key);
  if (out) entries_[present(key)].handed = true;
  return out;
}

bool TptEntries::adopt(const KeyEntry& key) {
  disown(key.key);
  if (is_own(key.key) || free_count() == 0) return false;
  const uint32_t index = take({.pd = key.pd});
  TableEntry& entry = entries_[index];
  entry.tag = kAdoptedTag;
  entry.start = key.start;
  entry.length = key.length;
  entry.backing = {.translation = key.translation, .origin = key.origin};
  entry.rights = key.rights;
  entry.region = key.key;
  entry.tied = key.kind == WindowKind::kType2 ? key.serves_qp.value() : 0;
  entry.binding = key.binding;
  entry.type = key.type;
  entry.kind = key.kind;
  entry.one_key = key.one_key;
  entry.touched = key.touched;
  entry.adopted = true;
  entry.valid = true;
  // The translation is the originator's: it lasts as long as this copy, and this table does not count it.
  adopted_.emplace(key.key, index);
  return true;
}

bool TptEntries::disown(uint32_t key) noexcept {
  const auto found = adopted_.find(key);
  if (found == adopted_.end()) return false;
  const uint32_t index = found->second;
  adopted_.erase(found);
  entries_[index].backing = {};  // not ours to free
  release(index);
  return true;
}

void TptEntries::use_up(uint32_t index) noexcept {
  TableEntry& entry = entries_[index];
  entry.valid = false;
  entry.touched = true;
  if (!entry.adopted) return end_elsewhere(index);
  if (ends_ != nullptr) ends_->key_used(entry.region);
}

void TptEntries::tell_end(uint32_t index) noexcept {
  entries_[index].handed = false;
  if (ends_ != nullptr) ends_->key_ended(keys_.key_of(index));
}

AccessFault TptEntries::find_reserved(PdId pd, Lkey key, uint32_t& out) const noexcept {
  const AccessFault fault = find_taken(pd, key.value(), EntryType::kRegion, out);
  if (fault != AccessFault::kNone) return fault;
  return entries_[out].valid ? AccessFault::kAlreadyBound : AccessFault::kNone;
}

void TptEntries::hold(const Backing& backing) noexcept {
  if (backing.translation == nullptr) return;
  if (backing.translation->users++ == 0) page_entries_ += backing.translation->info().all_entries;
}

std::unique_ptr<Translation> TptEntries::drop(const Backing& backing) noexcept {
  Translation* translation = backing.translation;
  if (translation == nullptr) return nullptr;
  if (translation->users > 1) {
    --translation->users;
    return nullptr;
  }
  if (translation->users == 1) page_entries_ -= translation->info().all_entries;  // 0: only staged
  return std::unique_ptr<Translation>(translation);
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
