#include "hca/events.h"

namespace weft::hca {

std::string_view to_string(EventKind kind) noexcept {
  switch (kind) {
    case EventKind::kCqError:
      return "CQ error";
    case EventKind::kQpFatal:
      return "QP fatal";
    case EventKind::kQpRequestError:
      return "QP request error";
    case EventKind::kQpAccessError:
      return "QP access error";
    case EventKind::kCommEstablished:
      return "communication established";
    case EventKind::kSqDrained:
      return "SQ drained";
    case EventKind::kPathMigrated:
      return "path migrated";
    case EventKind::kPathMigError:
      return "path migration error";
    case EventKind::kDeviceFatal:
      return "device fatal";
    case EventKind::kPortActive:
      return "port active";
    case EventKind::kPortError:
      return "port error";
    case EventKind::kLidChange:
      return "LID change";
    case EventKind::kPkeyChange:
      return "P_Key change";
    case EventKind::kSrqError:
      return "SRQ error";
    case EventKind::kSrqLimitReached:
      return "SRQ limit reached";
    case EventKind::kLastWqeReached:
      return "last WQE reached";
    case EventKind::kClientReregister:
      return "client reregister";
    case EventKind::kGidChange:
      return "GID change";
  }
  return "unknown";
}

std::optional<EventKind> kind_of(adapter::AsyncEventKind kind) noexcept {
  switch (kind) {
    case adapter::AsyncEventKind::kCommEstablished:
      return EventKind::kCommEstablished;
    case adapter::AsyncEventKind::kPathMigrated:
      return EventKind::kPathMigrated;
    case adapter::AsyncEventKind::kPathMigError:
      return EventKind::kPathMigError;
    case adapter::AsyncEventKind::kClientReregister:
      return EventKind::kClientReregister;
    case adapter::AsyncEventKind::kQpFatal:
      return EventKind::kQpFatal;
    case adapter::AsyncEventKind::kQpRequestError:
      return EventKind::kQpRequestError;
    case adapter::AsyncEventKind::kQpAccessError:
      return EventKind::kQpAccessError;
    case adapter::AsyncEventKind::kSqDrained:
      return EventKind::kSqDrained;
    case adapter::AsyncEventKind::kCqOverrun:
      return EventKind::kCqError;
    case adapter::AsyncEventKind::kSrqError:
      return EventKind::kSrqError;
    case adapter::AsyncEventKind::kSrqLimit:
      return EventKind::kSrqLimitReached;
    case adapter::AsyncEventKind::kLastWqeReached:
      return EventKind::kLastWqeReached;
    case adapter::AsyncEventKind::kLidChange:
      return EventKind::kLidChange;
    case adapter::AsyncEventKind::kPkeyChange:
      return EventKind::kPkeyChange;
    case adapter::AsyncEventKind::kGidChange:
      return EventKind::kGidChange;
    case adapter::AsyncEventKind::kPortUp:
      return EventKind::kPortActive;
    case adapter::AsyncEventKind::kPortDown:
      return EventKind::kPortError;
    case adapter::AsyncEventKind::kPortExpired:  // each QP of the port has its own event
    case adapter::AsyncEventKind::kPageFault:    // for the driver; the QP has its own event
    case adapter::AsyncEventKind::kCount:
      break;
  }
  return std::nullopt;
}

}  // namespace weft::hca
