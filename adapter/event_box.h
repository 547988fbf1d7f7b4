// adapter/event_box.h -- pending asynchronous events, kept in the objects that they are about
// (base/pending_list.h).
#pragma once

#include <cstdint>

#include "adapter/events.h"
#include "base/pending_list.h"

namespace weft::adapter {

class CompletionQueue;
class QueuePair;
class SharedReceiveQueue;

/// Events of one object. At most one pending event per kind: repeats coalesce.
struct EventBox : PendingNews {
  enum class Of : uint8_t { kQp, kCq, kSrq, kPort };

  explicit EventBox(QueuePair& object) noexcept : of(Of::kQp), qp(&object) {}
  explicit EventBox(CompletionQueue& object) noexcept : of(Of::kCq), cq(&object) {}
  explicit EventBox(SharedReceiveQueue& object) noexcept : of(Of::kSrq), srq(&object) {}
  explicit EventBox(uint8_t number) noexcept : of(Of::kPort), port(number) {}
  EventBox(const EventBox&) = delete;
  EventBox& operator=(const EventBox&) = delete;

  /// Pointer of the adapter's owner for this object; it comes with each of its events.
  void* user = nullptr;
  Of of;
  WcStatus status = WcStatus::kSuccess;  // of the newest kQpFatal, kQpRequestError or kQpAccessError
  bool completed = false;                // AsyncEvent::completed of the same event
  union {
    QueuePair* qp;
    CompletionQueue* cq;
    SharedReceiveQueue* srq;
    uint8_t port;
  };
};

}  // namespace weft::adapter
