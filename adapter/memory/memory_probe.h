// adapter/memory/memory_probe.h -- asks the kernel whether there is memory at an address, without a signal
// and without a change of the memory.
#pragma once

#include <cstddef>

namespace weft::adapter {

[[nodiscard]] size_t page_bytes() noexcept;
/// Test the page of the byte, which is paged in. One system call of about 0.4 us.
[[nodiscard]] bool can_read(const std::byte* at) noexcept;
[[nodiscard]] bool can_write(std::byte* at) noexcept;
/// True when no address of the range is unmapped; access rights are ignored. Checks mappings, not pages.
[[nodiscard]] bool is_mapped(const std::byte* at, size_t bytes) noexcept;

}  // namespace weft::adapter
