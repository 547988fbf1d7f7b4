// rdma_cm/cm_texts.h -- texts for failures of connection management: the lines of WEFT_DEBUG=cm for failure
// events and for refused requests.
#pragma once

#include <cstdint>
#include <string>

#include "messages/ids.h"
#include "rdma_cm/cm_id.h"

namespace weft::rdma_cm {

/// Why this side refuses a connection request.
enum class TurnedAway : uint8_t {
  kNo,
  kNobody,        // no identifier of this process is near
  kNotListening,  // one is bound there, and rdma_listen was not called
  kBacklogFull,
  kOtherAddress,  // one listens at the port of another address
  kOtherService,  // one listens at this port of another port space
  kOtherQpType,   // one listens there for queue pairs of another type
  kFalseSource,   // the peer names an address as its own that it cannot have
  kSwappedPort,   // one listens at the port with its two bytes exchanged
};

/// An event that reports a failure to a program, or a request that this side refuses.
struct CmFailure {
  CmEvent event = CmEvent::kAddressError;
  int32_t status = 0;
  IpAddress address{};  // the requested address
  Lid peer{};           // kLidNone: no endnode has answered for the address
  TurnedAway turned_away = TurnedAway::kNo;
  IpAddress listener{};  // kOtherAddress, kSwappedPort: the address of the listener; kFalseSource: the peer's
};

/// True when the event means a failure.
[[nodiscard]] bool is_failure(CmEvent event, int32_t status) noexcept;
/// One line: the event's name in rdma_cm, its status, the meaning, what to do. May throw for lack of memory.
[[nodiscard]] std::string describe(const CmFailure& failure);

}  // namespace weft::rdma_cm
