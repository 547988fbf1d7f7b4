// base/crc32c.h -- CRC32C (Castagnoli, reflected, initial and final XOR all ones), the one checksum of cells,
// packets and flits (decisions 1.11). Chosen once at start: CPU instruction where present, table elsewhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace weft {

/// CRC of `data` continued from `crc`, the CRC of what went before (0 for nothing): header and payload are
/// hashed without joining them.
[[nodiscard]] uint32_t crc32c_extend(uint32_t crc, const void* data, size_t bytes) noexcept;

[[nodiscard]] inline uint32_t crc32c(std::span<const std::byte> data) noexcept {
  return crc32c_extend(0, data.data(), data.size());
}

/// Copies `bytes` bytes and returns the CRC continued over them: one pass over the payload (decisions P1).
/// The ranges must not overlap.
[[nodiscard]] uint32_t crc32c_copy(uint32_t crc, void* to, const void* from, size_t bytes) noexcept;

/// CRC of A followed by B from crc(A), crc(B) and B's length, in O(log length).
[[nodiscard]] uint32_t crc32c_combine(uint32_t crc_a, uint32_t crc_b, uint64_t bytes_b) noexcept;

/// The portable version, for tests and for CPUs without the instruction.
[[nodiscard]] uint32_t crc32c_extend_table(uint32_t crc, const void* data, size_t bytes) noexcept;

}  // namespace weft
