// hca/events.h -- asynchronous events for consumers. The numbers are those of enum ibv_event_type.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "adapter/events.h"

namespace weft::hca {

class Object;

enum class EventKind : uint8_t {
  kCqError = 0,
  kQpFatal = 1,
  kQpRequestError = 2,
  kQpAccessError = 3,
  kCommEstablished = 4,
  kSqDrained = 5,
  kPathMigrated = 6,
  kPathMigError = 7,
  kDeviceFatal = 8,
  kPortActive = 9,
  kPortError = 10,
  kLidChange = 11,
  kPkeyChange = 12,
  kSrqError = 14,
  kSrqLimitReached = 15,
  kLastWqeReached = 16,
  kClientReregister = 17,
  kGidChange = 18,
};
[[nodiscard]] std::string_view to_string(EventKind kind) noexcept;

struct AsyncEvent {
  EventKind kind{};
  Object* object = nullptr;  // the QP, CQ or SRQ; null for events of a port or of the device
  uint8_t port = 0;
};

/// The consumer's event for an adapter's event; nothing for events that only the operator sees.
[[nodiscard]] std::optional<EventKind> kind_of(adapter::AsyncEventKind kind) noexcept;

}  // namespace weft::hca
