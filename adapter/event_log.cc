#include "adapter/event_log.h"

#include "base/log.h"

namespace weft::adapter {
namespace {

/// Part of a program's normal work; an operator need not see it.
bool is_routine(AsyncEventKind kind) {
  return kind == AsyncEventKind::kSqDrained || kind == AsyncEventKind::kSrqLimit ||
         kind == AsyncEventKind::kLastWqeReached || kind == AsyncEventKind::kCommEstablished;
}

void write_line(const std::string& name, const AsyncEvent& event) {
  switch (event.kind) {
    case AsyncEventKind::kQpFatal:
    case AsyncEventKind::kQpRequestError:
    case AsyncEventKind::kQpAccessError:
      log(LogLevel::kWarn, "{}: QP {:#x}: {}: {}", name, event.qpn.value(), to_string(event.kind),
          to_string(event.status));
      return;
    case AsyncEventKind::kCqOverrun:
      log(LogLevel::kError, "{}: a completion queue has overrun, QP {:#x} lost an entry; make it deeper",
          name, event.qpn.value());
      return;
    case AsyncEventKind::kSrqError:
      log(LogLevel::kError, "{}: the completion queue of a shared receive queue has overrun; make it deeper",
          name);
      return;
    case AsyncEventKind::kPathMigrated:
      log(LogLevel::kInfo, "{}: QP {:#x}: {}", name, event.qpn.value(), to_string(event.kind));
      return;
    case AsyncEventKind::kPathMigError:
      log(LogLevel::kWarn, "{}: QP {:#x}: {}", name, event.qpn.value(), to_string(event.kind));
      return;
    case AsyncEventKind::kClientReregister:
    case AsyncEventKind::kPkeyChange:
    case AsyncEventKind::kLidChange:
    case AsyncEventKind::kGidChange:
    case AsyncEventKind::kPortUp:
    case AsyncEventKind::kPortDown:
      log(LogLevel::kInfo, "{}: {} {}", name, to_string(event.kind), event.port);
      return;
    case AsyncEventKind::kPortExpired:
      log(LogLevel::kWarn, "{}: port {} stayed down too long; its connections have failed", name, event.port);
      return;
    case AsyncEventKind::kPageFault:
      log(LogLevel::kWarn, "{}: a peer's access was allowed and found no page mapped", name);
      return;
    case AsyncEventKind::kCommEstablished:
    case AsyncEventKind::kSqDrained:
    case AsyncEventKind::kSrqLimit:
    case AsyncEventKind::kLastWqeReached:
    case AsyncEventKind::kCount:
      return;
  }
}

}  // namespace

void EventLog::write(const AsyncEvent& event, Instant now) {
  if (is_routine(event.kind)) return;
  if (now >= second_ends_) {
    if (lines_ > kLinesPerSecond) {
      log(LogLevel::kWarn, "{}: {} more events of the same second", name_, lines_ - kLinesPerSecond);
    }
    second_ends_ = now + std::chrono::seconds(1);
    lines_ = 0;
  }
  if (++lines_ <= kLinesPerSecond) write_line(name_, event);
}

}  // namespace weft::adapter
