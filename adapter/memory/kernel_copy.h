// adapter/memory/kernel_copy.h -- copies to and from regions by the kernel, which finds missing memory by
// itself and raises no signal. A system call of about 1 us each, so only where a fault of a plain copy would
// not reach our handler, and after one has been met (guarded_copy.h).
#pragma once

#include <cstddef>
#include <cstdint>

namespace weft::adapter {

/// The kernel makes such copies for this process: no filter of system calls refuses them. Without them memory
/// is looked at before it is copied to, and may go in between.
[[nodiscard]] bool kernel_copies() noexcept;

/// Ways of the guarded copies of a thread that does not know, or knows that no fault reaches our handler.
[[gnu::cold]] void copy_carefully(std::byte* to, const std::byte* from, size_t bytes);
[[nodiscard, gnu::cold]] uint32_t crc_copy_carefully(uint32_t crc, std::byte* to, const std::byte* from,
                                                     size_t bytes);

/// All of these throw MemoryFault where memory is missing; with GuardWay::kFinish they leave out what is.
[[gnu::cold]] void kernel_copy_in(std::byte* to, const std::byte* from, size_t bytes);
[[gnu::cold]] void kernel_copy_out(std::byte* to, const std::byte* from, size_t bytes);
[[nodiscard, gnu::cold]] uint32_t kernel_crc(uint32_t crc, const std::byte* from, size_t bytes);
/// True when the word can be read and written, which is looked at just before. False to leave it out.
[[nodiscard, gnu::cold]] bool may_write_word(std::byte* at);

}  // namespace weft::adapter
