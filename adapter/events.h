// adapter/events.h -- asynchronous events: what an adapter tells its owner beside completions.
#pragma once

#include <cstdint>
#include <string_view>

#include "adapter/verbs.h"
#include "messages/ids.h"

namespace weft::adapter {

class CompletionQueue;
class SharedReceiveQueue;

/// What happens beside completions; the numbers of async events in libibverbs differ, the meaning does not.
enum class AsyncEventKind : uint8_t {
  kCommEstablished,   // the first packet of the peer came while the QP was in RTR
  kPathMigrated,      // the QP has gone over to its alternate path
  kPathMigError,      // it, or its peer, wanted to, and could not
  kQpFatal,           // the QP gave up: retries exceeded, local fault; `status` says why
  kQpRequestError,    // the peer asked for something this QP does not allow, or broke the protocol
  kQpAccessError,     // the peer's key, range or right did not fit
  kSqDrained,         // SQD, if it was asked for: everything that had begun has completed
  kCqOverrun,         // `cq`: a completion was lost; the QPs that complete there are in error
  kSrqLimit,          // `srq`: fewer WQEs wait than its limit, which is disarmed with that
  kSrqError,          // `srq`, of an XRC domain: a completion of what was taken from it was lost (kCqOverrun)
  kLastWqeReached,    // a QP on a shared receive queue is in error and takes and completes nothing more
  kPkeyChange,        // `port`: its table of partitions
  kLidChange,         // `port` came up with another LID
  kGidChange,         // `port` came up in another subnet or under another GUID
  kClientReregister,  // `port` has a new link: what its switch was asked for must be asked for again
  kPortUp,
  kPortDown,
  kPortExpired,  // down until the QPs of the port were failed (decisions 2.12)
  kPageFault,    // a peer was let in and found no page mapped (SAN-LMP-12)
  kCount,
};
[[nodiscard]] std::string_view to_string(AsyncEventKind kind) noexcept;

struct AsyncEvent {
  AsyncEventKind kind{};
  Qpn qpn{};
  WcStatus status = WcStatus::kSuccess;
  bool completed = false;  // kQpFatal: a completion with an error has said it already
  uint8_t port = 0;
  CompletionQueue* cq = nullptr;
  uint64_t address = 0;  // kPageFault: the virtual address
  SharedReceiveQueue* srq = nullptr;
  void* user = nullptr;  // what was hung on the QP, CQ or SRQ
};

}  // namespace weft::adapter
