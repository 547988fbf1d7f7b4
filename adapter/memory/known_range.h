// adapter/memory/known_range.h -- the table's last answer, for further accesses with the same key: a QP with
// small messages names the same region repeatedly.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "adapter/memory/memory_table.h"

namespace weft::adapter {

/// A range that one key opened to one user for one kind of access, in one piece. Empty when constructed.
class KnownRange {
 public:
  /// Place of `bytes` bytes at `address`. Null when the table must be asked: another key, bytes outside the
  /// range, or a revocation since then (ComputerMemory::revision()).
  [[nodiscard]] std::byte* find(uint32_t key, uint64_t address, uint64_t bytes,
                                uint64_t revision) const noexcept {
    const uint64_t offset = address - start_;  // wraps to a huge value below the start
    const bool within = offset <= length_ && bytes <= length_ - offset;
    return key == key_ && revision == revision_ && within ? at_ + offset : nullptr;
  }

  /// Stores a grant of `key` that begins at `va`. Not for keys that serve once.
  void learn(const RemoteGrant& grant, uint32_t key, uint64_t va, uint64_t revision) noexcept {
    *this = KnownRange(grant.at, va, grant.room, key, revision);
  }
  /// Stores the region of a segment that was checked and found at `at`.
  [[gnu::noinline]] void learn(const MemoryTable& memory, const Sge& sge, std::byte* at) noexcept {
    const std::optional<TptEntry> region = memory.query(sge.lkey.value());
    if (at == nullptr || !region) return;
    *this = KnownRange(at - (sge.addr - region->start), region->start, region->length, sge.lkey.value(),
                       memory.computer().revision());
  }

  KnownRange() = default;

 private:
  KnownRange(std::byte* at, uint64_t start, uint64_t length, uint32_t key, uint64_t revision) noexcept
      : at_(at), start_(start), length_(length), revision_(revision), key_(key) {}

  std::byte* at_ = nullptr;  // place of the byte at `start_`
  uint64_t start_ = 0;       // first address as users of the key name it
  uint64_t length_ = 0;
  uint64_t revision_ = 0;  // a table's revision is never 0
  uint32_t key_ = 0;
};

}  // namespace weft::adapter
