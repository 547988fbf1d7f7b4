// adapter/events.h -- asynchronous events: what an adapter reports to its owner besides completions.
#pragma once

#include <cstdint>
#include <string_view>

#include "adapter/verbs.h"
#include "messages/ids.h"

namespace weft::adapter {

class CompletionQueue;
class SharedReceiveQueue;

/// Events besides completions. The numbers differ from those of libibverbs; the meanings are the same.
enum class AsyncEventKind : uint8_t {
  kCommEstablished,   // the first packet of the peer came while the QP was in RTR
  kPathMigrated,      // the QP has switched to its alternate path
  kPathMigError,      // the QP or its peer tried to migrate and could not
  kQpFatal,           // the QP failed: retries exceeded, local fault; `status` has the reason
  kQpRequestError,    // the peer requested an operation that this QP does not allow, or broke the protocol
  kQpAccessError,     // the peer's key, range or right was wrong
  kSqDrained,         // SQD, if requested: all requests that had begun have completed
  kCqOverrun,         // `cq`: a completion was lost; the QPs that complete there move to the error state
  kSrqLimit,          // `srq`: fewer WQEs wait than its limit; the limit is disarmed
  kSrqError,          // `srq` of an XRC domain: a completion of one of its receives was lost (kCqOverrun)
  kLastWqeReached,    // a QP with a shared receive queue is in error and takes and completes no more WQEs
  kPkeyChange,        // `port` has another table of partitions
  kLidChange,         // `port` came up with another LID
  kGidChange,         // `port` came up in another subnet or under another GUID
  kClientReregister,  // `port` has a new link: requests to its switch must be made again
  kPortUp,
  kPortDown,
  kPortExpired,  // the port stayed down and its QPs have failed (decisions 2.12)
  kPageFault,    // a peer's access was allowed and found no page mapped (SAN-LMP-12)
  kCount,
};
[[nodiscard]] std::string_view to_string(AsyncEventKind kind) noexcept;

struct AsyncEvent {
  AsyncEventKind kind{};
  Qpn qpn{};
  WcStatus status = WcStatus::kSuccess;
  bool completed = false;  // kQpFatal, kQpRequestError, kQpAccessError: a completion has already reported it
  uint8_t port = 0;
  CompletionQueue* cq = nullptr;
  uint64_t address = 0;  // kPageFault: the virtual address
  SharedReceiveQueue* srq = nullptr;
  void* user = nullptr;  // owner's pointer of the QP, CQ or SRQ
};

}  // namespace weft::adapter
