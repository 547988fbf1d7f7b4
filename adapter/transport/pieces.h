// adapter/transport/pieces.h -- the walk over a scatter/gather list: translates bytes of a message to pieces
// of memory, each checked.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "adapter/memory/memory_table.h"
#include "adapter/verbs.h"

namespace weft::adapter {

/// Bytes [begin, begin + bytes) of the memory that a list of segments names.
struct Stretch {
  uint64_t begin;
  uint64_t bytes;
};

/// The table that has a local key: the only one, or that of the NIC which made the key.
[[nodiscard]] inline const MemoryTable& table_with(const MemoryTable& only, Lkey /*key*/) noexcept {
  return only;
}
[[nodiscard]] inline const MemoryTable& table_with(const ComputerMemory& nics, Lkey key) noexcept {
  return nics.of(key.value());
}

/// Checks each piece of the stretch in order, then calls `action(address, bytes)` for it. Returns kNone, or
/// the fault at which it stopped; kOutOfBounds when the list is too short.
/// @param memory a MemoryTable, or the ComputerMemory of a computer
template <class Memory, class Action>
[[gnu::always_inline]] inline AccessFault for_each_piece(const Memory& memory, PdId pd,
                                                         std::span<const Sge> list, Stretch stretch,
                                                         AccessKind kind, Action action) noexcept {
  for (const Sge& sge : list) {
    if (stretch.bytes == 0) break;
    if (stretch.begin >= sge.length) {
      stretch.begin -= sge.length;
      continue;
    }
    const auto bytes = static_cast<uint32_t>(std::min<uint64_t>(sge.length - stretch.begin, stretch.bytes));
    const AccessFault fault =
        table_with(memory, sge.lkey)
            .checks.visit_local(pd, {sge.addr + stretch.begin, bytes, sge.lkey}, kind, action);
    if (fault != AccessFault::kNone) [[unlikely]]
      return fault;
    stretch.bytes -= bytes;
    stretch.begin = 0;
  }
  return stretch.bytes == 0 ? AccessFault::kNone : AccessFault::kOutOfBounds;
}

}  // namespace weft::adapter
