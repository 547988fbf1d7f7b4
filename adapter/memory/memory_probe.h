// adapter/memory/memory_probe.h -- asks the kernel whether there is memory at an address, without a signal
// and without changing it.
#pragma once

#include <cstddef>

namespace weft::adapter {

[[nodiscard]] size_t page_bytes() noexcept;
/// Of the page in which the byte lies; the page is brought in. One system call of about 0.4 us.
[[nodiscard]] bool can_read(const std::byte* at) noexcept;
[[nodiscard]] bool can_write(std::byte* at) noexcept;
/// No address of the range is unmapped, whatever the rights there. Looks at mappings, not at pages.
[[nodiscard]] bool is_mapped(const std::byte* at, size_t bytes) noexcept;

}  // namespace weft::adapter
