// How it works: a change makes the generation odd, writes the entry, and makes it even again, so a peer that
// copies the table meanwhile finds another generation afterwards and copies again. To begin an access a peer
// writes "table use" and then reads the generation; we write the generation and then read "table use". These
// four accesses have one order (window_words.h), so at least one side sees the other's.
#include "fabric/window/own_window.h"

#include <cstring>

#include "base/check.h"
#include "fabric/window/window_words.h"

namespace weft::fabric {
namespace {

constexpr uint64_t kAnchorAt = 64;  // 0 in the scratchpad means "not ready"
constexpr uint64_t kFifoAt = kAnchorAt + kAnchorBytes;

constexpr uint64_t rounded(uint64_t bytes) noexcept {
  return (bytes + 63) / 64 * 64;
}
uint64_t fifo_bytes(const OwnWindowConfig& config) noexcept {
  return kFifoControlBytes + uint64_t{config.slots} * config.slot_bytes;
}

}  // namespace

uint64_t OwnWindow::bytes_for(const OwnWindowConfig& config) noexcept {
  return kFifoAt + rounded(fifo_bytes(config)) + rounded(config.table_entries * kTableEntryBytes);
}

OwnWindow::OwnWindow(DmaDevice& device, const OwnWindowConfig& config)
    : device_(device), memory_(device.own_memory()), entries_(config.table_entries) {
  anchor_.generation = 2;  // "table use" 0 means none
  anchor_.fifo_offset = kFifoAt;
  anchor_.fifo_bytes = fifo_bytes(config);
  anchor_.table_offset = kFifoAt + rounded(anchor_.fifo_bytes);
  anchor_.table_bytes = config.table_entries * kTableEntryBytes;
  anchor_.slot_bytes = config.slot_bytes;
  WEFT_CHECK(memory_.size() >= bytes_for(config), "the device's window memory holds what is configured");
  const auto record = encode_anchor(anchor_);
  WindowAnchor same;
  WEFT_CHECK(decode_anchor(record, kAnchorAt, memory_.size(), same) == AnchorFault::kNone,
             "configured slots, slot bytes and table entries are within their limits");
  for (uint32_t place = config.table_entries; place > 0; --place) free_.push_back(place - 1);
  place_of_.reserve(config.table_entries);
  std::memset(memory_.data(), 0, bytes_for(config));
  write_anchor();
}

void OwnWindow::open(bool tell_place) noexcept {
  if (tell_place) device_.set_scratchpad(kScratchpadMapped, reinterpret_cast<uint64_t>(memory_.data()));
  device_.set_scratchpad(kScratchpadAnchor, kAnchorAt);
  device_.notify();
}

PublishResult OwnWindow::publish(const WindowEntry& entry) {
  if (entry.is_free() || fault_of(entry) != TableFault::kNone) return PublishResult::kBadEntry;
  if (place_of_.contains(entry.key)) return PublishResult::kDoubleKey;
  if (free_.empty()) return PublishResult::kFull;
  const uint32_t place = free_.back();
  free_.pop_back();
  place_of_.emplace(entry.key, place);
  entries_[place] = entry;
  begin_change();
  write_entry(place);
  end_change();
  return PublishResult::kOk;
}

uint64_t OwnWindow::withdraw(uint32_t key) noexcept {
  const auto found = place_of_.find(key);
  if (found == place_of_.end()) return 0;
  const uint32_t place = found->second;
  place_of_.erase(found);
  free_.push_back(place);
  entries_[place] = {};
  begin_change();
  write_entry(place);
  end_change();
  return anchor_.generation;
}

bool OwnWindow::settled(uint64_t generation) const noexcept {
  if (device_.peer_ended()) return true;
  const uint64_t use = load_window_word(memory_.data() + anchor_.fifo_offset + kFifoTableUseAt);
  return use == 0 || use >= generation;
}

bool OwnWindow::allows(uint64_t start, uint64_t length, TableRight right) const noexcept {
  for (const WindowEntry& entry : entries_) {
    if ((entry.rights & right) != 0 && start >= entry.start &&
        lies_inside(start - entry.start, length, entry.length)) {
      return true;
    }
  }
  return false;
}

void OwnWindow::begin_change() noexcept {
  ++anchor_.generation;
  store_window_word(memory_.data() + kAnchorAt + kAnchorGenerationAt, anchor_.generation);
}

void OwnWindow::end_change() noexcept {
  ++anchor_.generation;
  write_anchor();
  device_.notify();
}

void OwnWindow::write_entry(uint32_t place) noexcept {
  const auto bytes = encode_entry(entries_[place]);
  std::memcpy(memory_.data() + anchor_.table_offset + place * kTableEntryBytes, bytes.data(), bytes.size());
}

/// The generation last, as one access: a peer that reads it even finds the entries written.
void OwnWindow::write_anchor() noexcept {
  const auto record = encode_anchor(anchor_);
  std::byte* const at = memory_.data() + kAnchorAt;
  constexpr size_t kBehind = kAnchorGenerationAt + kWindowWordBytes;
  std::memcpy(at, record.data(), kAnchorGenerationAt);
  std::memcpy(at + kBehind, record.data() + kBehind, kAnchorBytes - kBehind);
  store_window_word(at + kAnchorGenerationAt, anchor_.generation);
}

}  // namespace weft::fabric
