// rdma_cm/wait_texts.h -- WEFT_DEBUG=cm: what a program waits for that has been in rdma_get_cm_event or
// rdma_destroy_id for seconds.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "rdma_cm/cm_id.h"

namespace weft::rdma_cm {

struct WaitText {
  std::string line;
  bool normal = true;  // a server without clients, or an established connection, may wait for hours
};
/// What the identifiers of an event channel wait for. May throw for lack of memory.
[[nodiscard]] WaitText describe_wait(const CmFile& file);

/// True if the thread sleeps in librdmacm until the events of an identifier are acknowledged.
/// @param uid  the program's number of the identifier: the address of librdmacm's struct, which holds the
/// condition variable. @param call  the thread's line of /proc/self/task/TID/syscall
[[nodiscard]] bool waits_in(uint64_t uid, std::string_view call) noexcept;
[[nodiscard]] std::string describe_destroy(uint32_t events);

}  // namespace weft::rdma_cm
