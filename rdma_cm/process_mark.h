// rdma_cm/process_mark.h -- how a process is told from all others of its host, and whether it is still there.
#pragma once

#include <cstdint>

#include "messages/mad/endnode.h"
#include "rdma_cm/peer_watch.h"

namespace weft::rdma_cm {

/// A number for the namespace that `link` (below /proc/self/ns) leads to: the same for all processes in it,
/// and unpredictable on other machines. 0 when /proc does not show it.
[[nodiscard]] uint64_t namespace_number(const char* link);
/// This process. Where /proc does not show it, others cannot ask about it (`space` 0).
[[nodiscard]] MadProcess this_process(uint64_t incarnation);
/// kUnknown for processes that this one does not know by that number.
[[nodiscard]] Presence presence_of(const MadProcess& process, const MadProcess& self) noexcept;

}  // namespace weft::rdma_cm
