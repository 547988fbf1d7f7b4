// fabric/switch/vl_buffer.h -- the flit buffers of one lane of one switch input: one per credit granted, with
// one queue per output, so that cells for a blocked output do not delay those for another (SAN-VL-04).
#pragma once

#include <cstring>
#include <memory>
#include <vector>

#include "base/endian.h"
#include "fabric/link/link.h"
#include "messages/cell.h"

namespace weft::fabric {

/// A flit on its way through the switch. Its bytes still lie in memory that its sender can change.
struct CheckedFlit {
  const RxFlit& flit;
  const CellHead* head = nullptr;  // of a head flit: the checked copy of its header
  bool whole_cell = false;         // the flit is a whole cell, and `flit.cell_crc` its verified CRC

  /// Copies flit.payload.size() bytes: header and CRC from the private copies, the rest from the flit. If the
  /// sender changed the cell meanwhile, the CRC fails at the next hop, which drops the cell
  /// (LinkCounter::kTornCells).
  void copy_to(std::byte* to) const noexcept {
    size_t from = 0;
    size_t until = flit.payload.size();
    if (head != nullptr) {
      head->store(to);
      from = kCellHeaderBytes;
    }
    if (whole_cell) {
      until -= kCrcBytes;
      store_be(to + until, flit.cell_crc);
    }
    if (from < until) std::memcpy(to + from, flit.payload.data() + from, until - from);
  }
};

/// A waiting flit; its payload lies in the buffer.
struct QueuedFlit {
  std::span<const std::byte> payload;
  uint32_t cell_crc = 0;
  bool head = false;
  bool tail = false;
  bool poison = false;
};

/// Owner: the switch's thread. All calls are O(1) except clear() and drop_unfinished().
class VlBuffer {
 public:
  /// @param flits      buffers, 1..kCreditsPerLaneMax
  /// @param flit_bytes largest payload
  /// @param outputs    queues
  VlBuffer(uint32_t flits, uint32_t flit_bytes, uint32_t outputs);

  [[nodiscard]] uint32_t capacity() const noexcept { return static_cast<uint32_t>(entries_.size()); }
  [[nodiscard]] uint32_t free_flits() const noexcept { return free_count_; }
  /// Copies the flit to the end of `output`'s queue. False when no buffer is free; then nothing is changed.
  [[nodiscard]] bool push(uint32_t output, const CheckedFlit& checked) noexcept;
  /// Number of flits that wait for `output`, and number of tails among them.
  [[nodiscard]] uint32_t flits(uint32_t output) const noexcept { return queues_[output].flits; }
  [[nodiscard]] uint32_t whole_cells(uint32_t output) const noexcept { return queues_[output].tails; }
  /// Number of heads among them.
  [[nodiscard]] uint32_t heads(uint32_t output) const noexcept { return queues_[output].heads; }
  /// Oldest flit for `output`; there must be one.
  [[nodiscard]] QueuedFlit front(uint32_t output) const noexcept;
  void pop(uint32_t output) noexcept;
  /// Drops all flits for `output`. @return their number; `heads` is the number of heads among them.
  uint32_t clear(uint32_t output, uint32_t& heads) noexcept;
  /// Drops the flits behind the last tail for `output`: a cell whose rest will not come. @return their
  /// number; `head` says whether the cell's head was among them.
  uint32_t drop_unfinished(uint32_t output, bool& head) noexcept;

 private:
  static constexpr uint32_t kEnd = UINT32_MAX;
  struct Entry {
    uint32_t next = kEnd;
    uint32_t bytes = 0;
    uint32_t cell_crc = 0;
    bool head = false;
    bool tail = false;
    bool poison = false;
  };
  struct Queue {
    uint32_t first = kEnd;
    uint32_t last = kEnd;
    uint32_t flits = 0;
    uint32_t heads = 0;
    uint32_t tails = 0;
  };
  void free_entry(uint32_t index) noexcept;

  uint32_t stride_;
  uint32_t free_ = kEnd;
  uint32_t free_count_;
  std::unique_ptr<std::byte[]> storage_;
  std::vector<Entry> entries_;
  std::vector<Queue> queues_;
};

}  // namespace weft::fabric
