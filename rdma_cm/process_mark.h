// rdma_cm/process_mark.h -- how a process is distinguished from all others of its host, and whether it still
// exists.
#pragma once

#include <cstdint>

#include "messages/mad/endnode.h"
#include "rdma_cm/peer_watch.h"

namespace weft::rdma_cm {

/// A number for the namespace of `link` (below /proc/self/ns): equal for all processes in it, and
/// unpredictable on other machines. 0 if /proc does not show it.
[[nodiscard]] uint64_t namespace_number(const char* link);
/// This process. If /proc does not show it, other processes cannot ask about it (`space` is 0).
[[nodiscard]] MadProcess this_process(uint64_t incarnation);
/// kUnknown for processes of another PID namespace.
[[nodiscard]] Presence presence_of(const MadProcess& process, const MadProcess& self) noexcept;

}  // namespace weft::rdma_cm
