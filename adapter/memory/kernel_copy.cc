// How it works: process_vm_readv() and process_vm_writev() on the own process access pages as the kernel does
// for a device: a page that is missing or read-only ends the copy with EFAULT. A filter of system calls may
// refuse them. Then futex() tells whether a word can be read (FUTEX_WAIT without time to wait) or written
// (FUTEX_WAKE_OP that adds no bit), because it reports a fault in the same way. A plain copy follows.
#include "adapter/memory/kernel_copy.h"

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "adapter/memory/fault_handler.h"
#include "adapter/memory/memory_probe.h"
#include "adapter/memory/plain_copy.h"
#include "adapter/memory/thread_guard.h"
#include "base/crc32c.h"

namespace weft::adapter {
namespace {

constexpr size_t kPieceBytes = 1024;  // hashed at a time; lies on the stack of a program's thread

[[nodiscard]] bool finishing() noexcept {
  return thread_guard.way == GuardWay::kFinish;
}

/// True when all bytes were copied.
[[nodiscard]] bool write_in(std::byte* to, const std::byte* from, size_t bytes) noexcept {
  const size_t word = last_word_bytes(to, bytes);
  const iovec source{const_cast<std::byte*>(from), bytes};  // NOLINT(cppcoreguidelines-pro-type-const-cast)
  const std::array<iovec, 2> target{{{to, bytes - word}, {to + (bytes - word), word}}};
  return process_vm_writev(getpid(), &source, 1, target.data(), target.size(), 0) ==
         static_cast<ssize_t>(bytes);
}
[[nodiscard]] bool read_out(std::byte* to, const std::byte* from, size_t bytes) noexcept {
  const iovec target{to, bytes};
  const iovec source{const_cast<std::byte*>(from), bytes};  // NOLINT(cppcoreguidelines-pro-type-const-cast)
  return process_vm_readv(getpid(), &target, 1, &source, 1, 0) == static_cast<ssize_t>(bytes);
}

/// Calls `action(offset, bytes)` for the part of [at, at + bytes) in each page.
template <class Action>
void for_each_page(const std::byte* at, size_t bytes, Action action) {
  const size_t page = page_bytes();
  for (size_t offset = 0; offset < bytes;) {
    const size_t left = page - (reinterpret_cast<uintptr_t>(at) + offset) % page;
    const size_t piece = std::min(left, bytes - offset);
    action(offset, piece);
    offset += piece;
  }
}

/// Copies within one page of a region. True when the memory was there.
[[nodiscard]] bool copy_piece_in(std::byte* to, const std::byte* from, size_t bytes) {
  if (kernel_copies()) return write_in(to, from, bytes);
  if (!can_write(to)) return false;
  copy_by_signals(to, from, bytes);
  return true;
}
[[nodiscard]] bool copy_piece_out(std::byte* to, const std::byte* from, size_t bytes) {
  if (kernel_copies()) return read_out(to, from, bytes);
  if (!can_read(from)) return false;
  copy_by_signals(to, from, bytes);
  return true;
}

[[nodiscard]] bool try_kernel() noexcept {
  const std::byte from{1};
  std::byte to{};
  return read_out(&to, &from, 1) && write_in(&to, &from, 1);
}

}  // namespace

bool kernel_copies() noexcept {
  static const bool works = try_kernel();
  return works;
}

void copy_carefully(std::byte* to, const std::byte* from, size_t bytes) {
  if (ask_for_signals()) return copy_by_signals(to, from, bytes);
  kernel_copy_in(to, from, bytes);
}

uint32_t crc_copy_carefully(uint32_t crc, std::byte* to, const std::byte* from, size_t bytes) {
  if (ask_for_signals()) return crc_copy_by_signals(crc, to, from, bytes);
  kernel_copy_out(to, from, bytes);
  return crc32c_extend(crc, to, bytes);
}

void kernel_copy_in(std::byte* to, const std::byte* from, size_t bytes) {
  if (bytes == 0 || (!finishing() && kernel_copies() && write_in(to, from, bytes))) return;
  for_each_page(to, bytes, [&](size_t offset, size_t piece) {
    if (!copy_piece_in(to + offset, from + offset, piece) && !finishing()) throw MemoryFault{};
  });
}

void kernel_copy_out(std::byte* to, const std::byte* from, size_t bytes) {
  if (bytes == 0 || (!finishing() && kernel_copies() && read_out(to, from, bytes))) return;
  for_each_page(from, bytes, [&](size_t offset, size_t piece) {
    if (copy_piece_out(to + offset, from + offset, piece)) return;
    if (!finishing()) throw MemoryFault{};
    std::memset(to + offset, 0, piece);
  });
}

uint32_t kernel_crc(uint32_t crc, const std::byte* from, size_t bytes) {
  std::array<std::byte, kPieceBytes> copied;
  for (size_t done = 0; done < bytes;) {
    const size_t piece = std::min(copied.size(), bytes - done);
    kernel_copy_out(copied.data(), from + done, piece);
    crc = crc32c_extend(crc, copied.data(), piece);
    done += piece;
  }
  return crc;
}

bool may_write_word(std::byte* at) {
  if (can_write(at)) return true;
  if (!finishing()) throw MemoryFault{};
  return false;
}

}  // namespace weft::adapter
