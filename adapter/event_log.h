// adapter/event_log.h -- writes asynchronous events to the log, a line each, at most kLinesPerSecond.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "adapter/events.h"
#include "base/clock.h"

namespace weft::adapter {

/// Logs what wants an operator's eye: ports that come and go, QPs and CQs that failed and why. Owner: the
/// adapter's thread.
class EventLog {
 public:
  /// A peer that breaks one connection after the other fills no disk.
  static constexpr uint32_t kLinesPerSecond = 32;

  /// `name` is the adapter's, e.g. "hca".
  explicit EventLog(std::string name) : name_(std::move(name)) {}
  void write(const AsyncEvent& event, Instant now);

 private:
  std::string name_;
  Instant second_ends_ = Instant::min();
  uint32_t lines_ = 0;  // in this second
};

}  // namespace weft::adapter
