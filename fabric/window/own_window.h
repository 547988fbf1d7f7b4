// fabric/window/own_window.h -- the owner's side of a window memory: lays out anchor record, FIFO and
// protection table, changes the table, and knows when an ended entry can no longer be used. docs/window.md.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "fabric/window/device.h"
#include "messages/window_layout.h"

namespace weft::fabric {

struct OwnWindowConfig {
  uint32_t slots = 256;           // of the FIFO: a power of two, 2..kFifoSlotsMax
  uint32_t slot_bytes = 1024;     // kFifoSlotBytesMin..kFifoSlotBytesMax, a multiple of 8
  uint32_t table_entries = 4096;  // 1..kTableEntriesMax
};

enum class PublishResult : uint8_t {
  kOk,
  kFull,       // table_entries are in use
  kDoubleKey,  // withdraw the entry of that key first
  kBadEntry,   // TableFault says why
};

/// Owner: the device's thread. Keeps the table in private memory too, and never reads the shared one.
class OwnWindow {
 public:
  /// Bytes of window memory that this takes, a multiple of 64.
  [[nodiscard]] static uint64_t bytes_for(const OwnWindowConfig& config) noexcept;

  /// Writes an empty table and FIFO into the device's own memory, of at least bytes_for(config) bytes. The
  /// peer finds them after open(). `device` outlives this.
  OwnWindow(DmaDevice& device, const OwnWindowConfig& config);

  /// Advertises the anchor record (NTB-ADV-02). `tell_place`: also where the window memory is mapped here.
  void open(bool tell_place) noexcept;

  /// Shows an entry to the peer. O(1), and a notification.
  [[nodiscard]] PublishResult publish(const WindowEntry& entry);
  /// Takes an entry away. From now on no access begins that was checked against it; settled() says when the
  /// last one has ended. @return the generation to ask settled() for; 0 when there is no such key
  [[nodiscard]] uint64_t withdraw(uint32_t key) noexcept;
  /// True when no DMA of the peer is under way that was checked against a table older than `generation`.
  /// Until then the memory of the entry must not be given back.
  [[nodiscard]] bool settled(uint64_t generation) const noexcept;

  /// Whether the current table lets the peer at [start, start + length); for requests that this side
  /// executes. `right` is kTableRead or kTableWrite. O(entries).
  [[nodiscard]] bool allows(uint64_t start, uint64_t length, TableRight right) const noexcept;

  [[nodiscard]] const WindowAnchor& anchor() const noexcept { return anchor_; }
  /// Control block and slots.
  [[nodiscard]] std::span<std::byte> fifo() const noexcept {
    return memory_.subspan(anchor_.fifo_offset, anchor_.fifo_bytes);
  }
  [[nodiscard]] uint64_t generation() const noexcept { return anchor_.generation; }
  [[nodiscard]] size_t published() const noexcept { return place_of_.size(); }

 private:
  void begin_change() noexcept;
  void end_change() noexcept;
  void write_entry(uint32_t place) noexcept;
  void write_anchor() noexcept;

  DmaDevice& device_;
  std::span<std::byte> memory_;
  WindowAnchor anchor_;
  std::vector<WindowEntry> entries_;
  std::vector<uint32_t> free_;
  std::unordered_map<uint32_t, uint32_t> place_of_;  // key -> place in the table
};

}  // namespace weft::fabric
