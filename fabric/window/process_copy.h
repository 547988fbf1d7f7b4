// fabric/window/process_copy.h -- the DMA engine between two processes of one machine: process_vm_writev and
// process_vm_readv, lists of requests in one call. docs/window.md.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <span>
#include <string>

#include "fabric/window/device.h"

namespace weft::fabric {

/// How the kernel took a copy.
enum class CopyWay : uint8_t {
  kDone,     // each request has its status
  kRefused,  // EPERM, ENOSYS or another refusal of the call itself; errno says which
  kGone,     // there is no such process
};

/// Carries out requests of the memory space, in order, by as few calls as possible. `statuses` has one place
/// for each; those from `done` on were not carried out when the result is not kDone.
/// A write of more than eight bytes moves its last bytes, as many as end an aligned word, last.
[[nodiscard]] CopyWay copy_between(pid_t process, std::span<const DmaRequest> requests,
                                   std::span<DmaStatus> statuses, size_t& done) noexcept;

/// Reads or writes one word of the other process. False with errno.
[[nodiscard]] bool read_process_word(pid_t process, uint64_t at, uint64_t& out) noexcept;
[[nodiscard]] bool write_process_word(pid_t process, uint64_t at, uint64_t value) noexcept;

/// Why the kernel refuses these calls, and what to change: one line.
[[nodiscard]] std::string refusal_text(int errno_value);

}  // namespace weft::fabric
