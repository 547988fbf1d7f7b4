// adapter/event_log.h -- writes asynchronous events to the log, one line each, at most kLinesPerSecond per
// second.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "adapter/events.h"
#include "base/clock.h"

namespace weft::adapter {

/// Logs events that an operator should see: ports that come and go, QPs and CQs that failed, with the reason.
/// Owner: the adapter's thread.
class EventLog {
 public:
  /// Limit, so that a peer that breaks many connections does not fill the disk.
  static constexpr uint32_t kLinesPerSecond = 32;

  /// `name` is the adapter's name, e.g. "hca".
  explicit EventLog(std::string name) : name_(std::move(name)) {}
  void write(const AsyncEvent& event, Instant now);

 private:
  std::string name_;
  Instant second_ends_ = Instant::min();
  uint32_t lines_ = 0;  // in this second
};

}  // namespace weft::adapter
