// adapter/memory/kernel_copy.h -- copies to and from regions by the kernel, which detects missing memory
// without a signal. Each is a system call of about 1 us. So they are used only if a fault of a plain copy
// would not reach our handler, and after a fault has occurred (guarded_copy.h).
#pragma once

#include <cstddef>
#include <cstdint>

namespace weft::adapter {

/// True when the kernel makes such copies for this process and no filter of system calls refuses them.
/// Without them the memory is checked before each copy, and may be unmapped in between.
[[nodiscard]] bool kernel_copies() noexcept;

/// The guarded copies of a thread that does not know whether faults reach our handler, or knows that they do
/// not.
[[gnu::cold]] void copy_carefully(std::byte* to, const std::byte* from, size_t bytes);
[[nodiscard, gnu::cold]] uint32_t crc_copy_carefully(uint32_t crc, std::byte* to, const std::byte* from,
                                                     size_t bytes);

/// These functions throw MemoryFault if memory is missing. With GuardWay::kFinish they skip the missing part.
[[gnu::cold]] void kernel_copy_in(std::byte* to, const std::byte* from, size_t bytes);
[[gnu::cold]] void kernel_copy_out(std::byte* to, const std::byte* from, size_t bytes);
[[nodiscard, gnu::cold]] uint32_t kernel_crc(uint32_t crc, const std::byte* from, size_t bytes);
/// True when the word can be read and written, checked just before. False (kFinish only): skip the operation.
[[nodiscard, gnu::cold]] bool may_write_word(std::byte* at);

}  // namespace weft::adapter
