// Compiled without exceptions, like the checksum code that is called here: their frames hold nothing to clean
// up and no tables that forbid unwinding, so an exception that the signal handler throws passes through from
// any instruction.
#include "adapter/memory/guarded_copy.h"

#include <atomic>
#include <cstring>
#include <utility>

#include "base/crc32c.h"
#include "base/crc32c_few.h"

namespace weft::adapter {
namespace {

/// Set while this thread touches memory of a region. Two stores a copy is all that the guard costs.
[[gnu::tls_model("initial-exec")]] constinit thread_local bool in_guarded_copy = false;

void enter() noexcept {
  in_guarded_copy = true;
  std::atomic_signal_fence(std::memory_order_seq_cst);
}
void leave() noexcept {
  std::atomic_signal_fence(std::memory_order_seq_cst);
  in_guarded_copy = false;
}

}  // namespace

void copy_guarded(std::byte* to, const std::byte* from, size_t bytes) {
  enter();
  if (bytes == sizeof(uint64_t)) {  // no call for the smallest messages
    std::memcpy(to, from, sizeof(uint64_t));
  } else {
    std::memcpy(to, from, bytes);
  }
  leave();
}

uint32_t crc_copy_guarded(uint32_t crc, std::byte* to, const std::byte* from, size_t bytes) {
  enter();
  crc = crc32c_copy_of_few(crc, to, from, bytes);
  leave();
  return crc;
}

uint32_t crc_guarded(uint32_t crc, const std::byte* from, size_t bytes) {
  enter();
  crc = crc32c_extend(crc, from, bytes);
  leave();
  return crc;
}

uint64_t fetch_add_guarded(std::byte* at, uint64_t addend) {
  enter();
  const uint64_t before = std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(at)).fetch_add(addend);
  leave();
  return before;
}

uint64_t compare_swap_guarded(std::byte* at, uint64_t compare, uint64_t swap) {
  enter();
  (void)std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(at)).compare_exchange_strong(compare, swap);
  leave();
  return compare;
}

bool leave_guarded_copy() noexcept {
  return std::exchange(in_guarded_copy, false);
}

}  // namespace weft::adapter
