#include "adapter/memory/memory_table.h"

#include <utility>

#include "adapter/memory/fault_handler.h"
#include "adapter/memory/tpt_entries.h"

namespace weft::adapter {
namespace {

/// A region in one piece has no table: the pointer is the address of the memory itself.
[[nodiscard]] AttInfo att_of(const Backing& backing) noexcept {
  return backing.translation != nullptr ? backing.translation->info() : AttInfo{.pointer = backing.origin};
}

}  // namespace

MemoryTable::MemoryTable(uint32_t keys, uint8_t number, RandomSource& random, uint32_t pds,
                         ComputerMemory* computer)
    : entries_(std::make_unique<TptEntries>(keys, number, random, pds)),
      computer_(computer == nullptr ? own_.emplace() : *computer),
      regions(*entries_, computer_),
      windows(*entries_, computer_, regions),
      checks(*entries_, computer_, number) {
  computer_.add(number, *this, *entries_);
  static_cast<void>(install_fault_handler());
}
MemoryTable::~MemoryTable() = default;

std::optional<TptEntry> MemoryTable::query(uint32_t key) const noexcept {
  uint32_t index = 0;
  const TableEntry* entry = std::as_const(*entries_).find_present(key, index);
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
  const AccessFault fault = entries_->admit(pd, key.value(), EntryType::kWindow, found);
  if (fault != AccessFault::kNone || found.entry == nullptr || found.entry->adopted) return std::nullopt;
  const TableEntry& entry = *found.entry;
  const bool of_region = entry.one_key || entry.implicit != kNoEntry;
  const TableEntry& region = entry.one_key ? entry : entries_->at(entry.region);
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
  const TableEntry* entry = std::as_const(*entries_).find_present(key, index);
  if (entry == nullptr) return;
  start = entry->start;
  length = entry->length;
}

bool MemoryTable::has_key(uint32_t key) const noexcept {
  uint32_t index = 0;
  return std::as_const(*entries_).find_present(key, index) != nullptr;
}

std::optional<KeyEntry> MemoryTable::hand_out(uint32_t key) noexcept {
  return entries_->hand_out(key);
}

bool MemoryTable::adopt(const KeyEntry& key) {
  computer_.end_grants();
  return entries_->adopt(key);
}

bool MemoryTable::disown(uint32_t key) noexcept {
  computer_.end_grants();
  return entries_->disown(key);
}

void MemoryTable::use_up(uint32_t key) noexcept {
  uint32_t index = 0;
  const TableEntry* entry = entries_->find_present(key, index);
  if (entry == nullptr || !entry->valid) return;
  computer_.end_grants();
  entries_->use_up(index);
}

uint32_t MemoryTable::adopted_count() const noexcept {
  return entries_->adopted_count();
}

void MemoryTable::list_keys(KeyVisitor& visit) const {
  entries_->for_each_key([&](const KeyEntry& key) { visit.see(key); });
}

void MemoryTable::report_ends_to(KeyEnds* ends) noexcept {
  entries_->report_ends_to(ends);
}

bool MemoryTable::pd_unused(PdId pd) const noexcept {
  return entries_->used_by(pd) == 0;
}

bool MemoryTable::lacks_room() const noexcept {
  return entries_->lacks_room();
}

}  // namespace weft::adapter
