// How it works: futex() reads a word of the program or changes it atomically, and fails with EFAULT if that
// is not possible. FUTEX_WAIT without time to wait reads it. FUTEX_WAKE_OP operates on a second word and so
// writes it; the operation used here sets no bit. No thread waits on the first word, which is our own. A
// thread that waits on the second word may be woken without need, which programs that use futex() must
// expect.
#include "adapter/memory/memory_probe.h"

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <ctime>

namespace weft::adapter {
namespace {

constexpr uint32_t kSetNoBit = FUTEX_OP(FUTEX_OP_OR, 0, FUTEX_OP_CMP_LT, 0x800);

[[nodiscard]] uintptr_t word_at(const std::byte* at) noexcept {
  return reinterpret_cast<uintptr_t>(at) & ~uintptr_t{sizeof(uint32_t) - 1};
}

}  // namespace

size_t page_bytes() noexcept {
  static const auto bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

bool can_read(const std::byte* at) noexcept {
  const timespec none{};
  const auto answer = syscall(SYS_futex, word_at(at), FUTEX_WAIT | FUTEX_PRIVATE_FLAG, 0, &none, nullptr, 0);
  return answer == 0 || errno != EFAULT;
}

bool can_write(std::byte* at) noexcept {
  uint32_t own = 0;
  return syscall(SYS_futex, &own, FUTEX_WAKE_OP | FUTEX_PRIVATE_FLAG, 0, 0, word_at(at), kSetNoBit) >= 0 ||
         errno != EFAULT;
}

bool is_mapped(const std::byte* at, size_t bytes) noexcept {
  const uintptr_t into = reinterpret_cast<uintptr_t>(at) % page_bytes();
  // MS_ASYNC writes nothing. The call only walks over the mappings.
  return bytes == 0 || msync(const_cast<std::byte*>(at) - into, bytes + into, MS_ASYNC) == 0 ||
         errno != ENOMEM;
}

}  // namespace weft::adapter
