// adapter/memory/guarded_copy.h -- the copies that access the memory of regions. A program may unmap memory
// that is still registered. A copy then ends with an exception instead of ending the process, and the access
// ends with an error completion. There are two ways. A plain copy: the process's signal handler turns its
// faults into exceptions (fault_handler.h). A copy by the kernel (kernel_copy.h): for threads whose faults
// would not reach that handler.
#pragma once

#include <cstddef>
#include <cstdint>

#include "adapter/memory/thread_guard.h"

namespace weft::adapter {

/// Copies into a region, the last word last, so that a program that polls the last bytes of a message finds
/// the rest in place. Bytes copied before a fault stay copied.
void copy_guarded(std::byte* to, const std::byte* from, size_t bytes);
/// Copies out of a region and continues a CRC32C over the copied bytes.
[[nodiscard]] uint32_t crc_copy_guarded(uint32_t crc, std::byte* to, const std::byte* from, size_t bytes);
/// Continues a CRC32C over bytes of a region.
[[nodiscard]] uint32_t crc_guarded(uint32_t crc, const std::byte* from, size_t bytes);

/// Atomic operations on an aligned word. Both return its former value.
[[nodiscard]] uint64_t fetch_add_guarded(std::byte* at, uint64_t addend);
[[nodiscard]] uint64_t compare_swap_guarded(std::byte* at, uint64_t compare, uint64_t swap);

}  // namespace weft::adapter
