// rdma_cm/cm_texts.h -- why connection management has failed, in words: what WEFT_DEBUG=cm says of an event
// and of a request that is turned away.
#pragma once

#include <cstdint>
#include <string>

#include "messages/ids.h"
#include "rdma_cm/cm_id.h"

namespace weft::rdma_cm {

/// An event that tells a program of a failure, or a request that this side turns away.
struct CmFailure {
  CmEvent event = CmEvent::kAddressError;
  int32_t status = 0;
  IpAddress address{};       // that was asked for
  Lid peer{};                // kLidNone: no endnode has answered for the address
  bool turned_away = false;  // by us
};

/// The event means that something has failed.
[[nodiscard]] bool is_failure(CmEvent event, int32_t status) noexcept;
/// One line: the event as rdma_cm calls it, its status, what that means, what to do. May run out of memory.
[[nodiscard]] std::string describe(const CmFailure& failure);

}  // namespace weft::rdma_cm
