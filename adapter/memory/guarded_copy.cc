// Compiled without exceptions, as are the checksum functions called here. Their frames have nothing to clean
// up and no tables that forbid unwinding. So an exception of the signal handler passes through from any
// instruction.
#include "adapter/memory/guarded_copy.h"

#include <atomic>
#include <cstring>

#include "adapter/memory/fault_handler.h"
#include "adapter/memory/kernel_copy.h"
#include "adapter/memory/plain_copy.h"
#include "base/crc32c.h"
#include "base/crc32c_few.h"

namespace weft::adapter {

namespace {

constexpr size_t kWord = sizeof(uint64_t);
#if defined(__x86_64__)
constexpr bool kOrderedStores = true;  // other cores see stores in program order
#else
constexpr bool kOrderedStores = false;
#endif

}  // namespace

void copy_guarded(std::byte* to, const std::byte* from, size_t bytes) {
  if (thread_guard.way != GuardWay::kSignals) [[unlikely]]
    return copy_carefully(to, from, bytes);
  if (!kOrderedStores || bytes != kWord) return copy_by_signals(to, from, bytes);
  enter_copy();  // inline for the smallest messages
  std::memcpy(to, from, kWord);
  leave_copy();
}

uint32_t crc_copy_guarded(uint32_t crc, std::byte* to, const std::byte* from, size_t bytes) {
  if (thread_guard.way != GuardWay::kSignals) [[unlikely]]
    return crc_copy_carefully(crc, to, from, bytes);
  enter_copy();
  crc = crc32c_copy_of_few(crc, to, from, bytes);
  leave_copy();
  return crc;
}

uint32_t crc_guarded(uint32_t crc, const std::byte* from, size_t bytes) {
  if (!ask_for_signals()) return kernel_crc(crc, from, bytes);
  enter_copy();
  crc = crc32c_extend(crc, from, bytes);
  leave_copy();
  return crc;
}

uint64_t fetch_add_guarded(std::byte* at, uint64_t addend) {
  if (!ask_for_signals() && !may_write_word(at)) return 0;
  enter_copy();
  const uint64_t before = std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(at)).fetch_add(addend);
  leave_copy();
  return before;
}

uint64_t compare_swap_guarded(std::byte* at, uint64_t compare, uint64_t swap) {
  if (!ask_for_signals() && !may_write_word(at)) return 0;
  enter_copy();
  (void)std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(at)).compare_exchange_strong(compare, swap);
  leave_copy();
  return compare;
}

}  // namespace weft::adapter
