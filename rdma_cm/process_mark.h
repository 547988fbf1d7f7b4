// rdma_cm/process_mark.h -- how a process is told from all others of its host, and whether it is still there.
#pragma once

#include <cstdint>

#include "messages/cm_mad.h"
#include "rdma_cm/peer_watch.h"

namespace weft::rdma_cm {

/// This process. Where /proc does not show it, others cannot ask about it (`space` 0).
[[nodiscard]] MadProcess this_process(uint64_t incarnation);
/// kUnknown for processes that this one does not know by that number.
[[nodiscard]] Presence presence_of(const MadProcess& process, const MadProcess& self) noexcept;

}  // namespace weft::rdma_cm
