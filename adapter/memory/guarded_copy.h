// adapter/memory/guarded_copy.h -- the copies that touch the memory of regions. A program may unmap memory
// that is still registered; then a copy ends with an exception instead of ending the process, and the access
// with an error completion (fault_handler.h).
#pragma once

#include <cstddef>
#include <cstdint>

namespace weft::adapter {

/// There is no memory behind an address of a region. Thrown out of the functions below and by nothing else.
struct MemoryFault {};

/// The process's answer to SIGSEGV and SIGBUS, while its handler is ours, can throw out of these: not
/// noexcept on purpose. What was copied before the fault stays copied.
void copy_guarded(std::byte* to, const std::byte* from, size_t bytes);
/// Copies and continues a CRC32C over what was copied.
[[nodiscard]] uint32_t crc_copy_guarded(uint32_t crc, std::byte* to, const std::byte* from, size_t bytes);
/// Continues a CRC32C.
[[nodiscard]] uint32_t crc_guarded(uint32_t crc, const std::byte* from, size_t bytes);

/// Atomic operations on an aligned word; both return what it held before.
[[nodiscard]] uint64_t fetch_add_guarded(std::byte* at, uint64_t addend);
[[nodiscard]] uint64_t compare_swap_guarded(std::byte* at, uint64_t compare, uint64_t swap);

/// For the handler: was this thread in one of them? It counts as outside from now on.
[[nodiscard]] bool leave_guarded_copy() noexcept;

}  // namespace weft::adapter
