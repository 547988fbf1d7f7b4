// adapter/transport/unwritten.h -- the bytes of a piece of memory that later packets have not written. A late
// cell may meet 511 later packets, most of which cover the same place or another one entirely. A write at
// either end of the piece therefore only moves that end; a write in the middle is marked byte by byte in a
// bitmap.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "messages/cell.h"

namespace weft::adapter {

class Unwritten {
 public:
  /// @param piece at most kCellPayloadBytesMax bytes, all unwritten
  explicit Unwritten(std::span<const std::byte> piece) noexcept
      : base_(reinterpret_cast<uintptr_t>(piece.data())), end_(piece.size()) {}

  /// Every byte is written. May stay false when several writes in the middle together cover the piece.
  [[nodiscard]] bool none() const noexcept { return begin_ >= end_; }
  /// The piece from its first to its last unwritten byte.
  [[nodiscard]] uintptr_t first_address() const noexcept { return base_ + begin_; }
  [[nodiscard]] uintptr_t end_address() const noexcept { return base_ + end_; }

  /// Marks the part of [at, at + bytes) that lies in the piece as written.
  void write(uintptr_t at, uint64_t bytes) noexcept {
    const uint64_t from = std::max(at, base_ + begin_) - base_;
    const uint64_t to = std::max(std::min(at + bytes, base_ + end_), base_) - base_;
    if (from >= to) return;
    if (from == begin_) {
      begin_ = to;
    } else if (to == end_) {
      end_ = from;
    } else {
      mark(from, to);
    }
  }

  /// Calls `action(offset, bytes)` for each stretch of unwritten bytes, in order.
  template <class Action>
  void for_each(Action action) const {
    for (uint64_t from = begin_; from < end_;) {
      from = next(from, false);
      const uint64_t to = next(from, true);
      if (from < to) action(from, to - from);
      from = to;
    }
  }

 private:
  static constexpr uint32_t kWordBits = 64;

  void mark(uint64_t from, uint64_t to) noexcept {
    const uint64_t first = from / kWordBits;
    const uint64_t last = (to - 1) / kWordBits;
    const uint64_t head = ~uint64_t{0} << (from % kWordBits);
    const uint64_t tail = ~uint64_t{0} >> (kWordBits - 1 - (to - 1) % kWordBits);
    if (first == last) {
      marks_[first] |= head & tail;
      return;
    }
    marks_[first] |= head;
    for (uint64_t word = first + 1; word < last; ++word) marks_[word] = ~uint64_t{0};
    marks_[last] |= tail;
  }
  /// The next byte from `from` on whose mark equals `marked`.
  [[nodiscard]] uint64_t next(uint64_t from, bool marked) const noexcept {
    while (from < end_) {
      const uint64_t marks = marks_[from / kWordBits];
      const uint64_t left = (marked ? marks : ~marks) >> (from % kWordBits);
      if (left != 0) return std::min(end_, from + static_cast<uint64_t>(std::countr_zero(left)));
      from = (from / kWordBits + 1) * kWordBits;
    }
    return end_;
  }

  uintptr_t base_;
  uint64_t begin_ = 0;
  uint64_t end_;
  std::array<uint64_t, kCellPayloadBytesMax / kWordBits> marks_{};  // one bit per byte
};

}  // namespace weft::adapter
