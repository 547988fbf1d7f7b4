// adapter/memory/guarded_copy.h -- the copies that touch the memory of regions. A program may unmap memory
// that is still registered; then a copy ends with an exception instead of ending the process, and the access
// with an error completion. There are two ways: a plain copy, of whose faults the process's signal handler
// makes exceptions (fault_handler.h), and a copy by the kernel (kernel_copy.h) for threads to which a fault
// would not be reported so.
#pragma once

#include <cstddef>
#include <cstdint>

#include "adapter/memory/thread_guard.h"

namespace weft::adapter {

/// Copies into a region, the last word last: a program that waits for the last bytes of a message finds the
/// rest in place. What was copied before a fault stays copied.
void copy_guarded(std::byte* to, const std::byte* from, size_t bytes);
/// Copies out of a region and continues a CRC32C over what was copied.
[[nodiscard]] uint32_t crc_copy_guarded(uint32_t crc, std::byte* to, const std::byte* from, size_t bytes);
/// Continues a CRC32C over bytes of a region.
[[nodiscard]] uint32_t crc_guarded(uint32_t crc, const std::byte* from, size_t bytes);

/// Atomic operations on an aligned word; both return what it held before.
[[nodiscard]] uint64_t fetch_add_guarded(std::byte* at, uint64_t addend);
[[nodiscard]] uint64_t compare_swap_guarded(std::byte* at, uint64_t compare, uint64_t swap);

}  // namespace weft::adapter
