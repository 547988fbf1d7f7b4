// messages/cell_stream.h -- decodes cells that arrive one after the other. The cells of one sender mostly
// differ in few fields only: what a cell has in common with an earlier one is compared, and not checked and
// stored again.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/endian.h"
#include "messages/cell.h"

namespace weft {

class CellStream {
 public:
  /// Acknowledgements and other cells are remembered side by side, because they come in turns.
  enum Kind : uint8_t { kData, kAck, kKinds };

  /// As decode_cell(); the result is cell().
  [[nodiscard, gnu::always_inline]] CellError decode(std::span<const std::byte> cell, CrcCheck crc) noexcept {
    if (crc == CrcCheck::kAlreadyVerified && cell.size() >= kCellHeaderBytes) [[likely]] {
      const CellHead head(cell.data());
      if (is_like(kData, head, cell.size())) [[likely]] {
        take_data(head, cell);
        return repeated(kData);
      }
      if (is_like(kAck, head, cell.size()) && take_ack(head, cell)) return repeated(kAck);
    }
    repeats_ = false;
    return decode_other(cell, crc);
  }
  /// The last cell that was decoded without an error, and its kind.
  [[nodiscard]] const CellView& cell() const noexcept { return last_[kind_].view; }
  [[nodiscard]] Kind kind() const noexcept { return kind_; }
  /// True when the last cell has ends, partition, lane, operation and flags of the one before of its kind.
  [[nodiscard]] bool repeats() const noexcept { return repeats_; }

 private:
  struct Last {
    CellHead head;
    uint32_t around_bytes = 0;  // bytes of the cell around its payload; 0: no cell can be like it
    CellView view;
  };

  CellError repeated(Kind kind) noexcept {
    kind_ = kind;
    repeats_ = true;
    return CellError::kNone;
  }
  /// True when a cell can differ from the last one only in what take_data() and take_ack() take, unless it
  /// has an error in its parts.
  [[nodiscard, gnu::always_inline]] bool is_like(Kind kind, const CellHead& head,
                                                 size_t bytes) const noexcept {
    const Last& last = last_[kind];
    const uint64_t varying = head.word(3);
    const auto number = static_cast<uint16_t>(varying >> 16);
    return last.around_bytes != 0 && head.same_kind(last.head) &&
           bytes == last.around_bytes + (varying & 0xFFFF) &&
           static_cast<uint8_t>(varying >> 56) == last.view.flags2 && number < kCellsPerPacketMax &&
           (number == 0) == last.view.has(kCellFirst);
  }
  [[gnu::always_inline]] void take_data(const CellHead& head, std::span<const std::byte> cell) noexcept {
    CellView& view = last_[kData].view;
    const std::byte* at = cell.data() + kCellHeaderBytes;
    if (view.has(kCellVa)) {
      view.va = load_be<uint64_t>(at);
      view.rkey = Rkey(load_be<uint32_t>(at + 8));
      at += kVaBytes;
    }
    if (view.has(kCellIdata)) {
      view.idata = load_be<uint32_t>(at);
      at += kIdataBytes;
    }
    take_place(view, head, at);
  }
  [[nodiscard]] bool take_ack(const CellHead& head, std::span<const std::byte> cell) noexcept {
    CellView& view = last_[kAck].view;
    const std::byte* at = cell.data() + kCellHeaderBytes;
    AckBody body;
    if (decode_ack_body(at, static_cast<uint32_t>(head.word(3) & 0xFFFF), body) != CellError::kNone)
      return false;
    view.ack = body;
    take_place(view, head, at + kAckBodyBytes);
    return true;
  }
  static void take_place(CellView& view, const CellHead& head, const std::byte* payload) noexcept {
    const uint64_t varying = head.word(3);
    view.psn = Psn(static_cast<uint32_t>(varying >> 32));
    view.cell_number = static_cast<uint16_t>(varying >> 16);
    view.payload = {payload, static_cast<size_t>(varying & 0xFFFF)};
  }
  [[nodiscard]] CellError decode_other(std::span<const std::byte> cell, CrcCheck crc) noexcept;

  Kind kind_ = kData;
  bool repeats_ = false;
  std::array<Last, kKinds> last_;
};

}  // namespace weft
