// control/control_server.h -- the control endpoint of a process: a ZeroMQ ROUTER at ipc://DIR/NAME.ctl that
// answers the requests of control/management.h. DIR must be ours with mode 0700, so that only processes of
// this user can connect.
//
//   class HostControl final : public ControlHandler { NodeInfo info() override { ... } ... };
//   auto control = ControlServer::open(dir + "/" + name + ".ctl", handler);   // after privileges were
//   dropped loop.add(*control.value());
#pragma once

#include <memory>
#include <string>

#include "base/counters.h"
#include "base/pollable.h"
#include "control/management.h"

namespace weft::control {

/// Answers the requests. Called from ControlServer::poll() on its thread; must not block. May allocate and
/// throw (an exception becomes an error reply), because requests come from people, a few per second.
class ControlHandler {
 public:
  virtual ~ControlHandler() = default;
  [[nodiscard]] virtual NodeInfo info() = 0;
  /// Starts a run of the generator; fails if one is running, there is no generator, or the spec is invalid.
  virtual Status traffic_start(const TrafficRun& run);
  virtual Result<TrafficFigures> traffic_stop();
  virtual Result<TrafficFigures> traffic_report();
  virtual Status capture_start(const CaptureSpec& spec);
  virtual Status capture_stop(const std::string& path);
  /// Sends the wished settings to the unit and requests the state of its NIC; nic_report() returns the
  /// answers later.
  virtual Result<NicReport> nic_ask(const NicWish& wish);
  virtual Result<NicReport> nic_report(const std::string& interface);
  /// Faults on demand, of a switch. Each answers with the rules in force afterwards; id 0 clears all.
  virtual Result<std::vector<FaultInfo>> fault_add(const FaultRule& wish);
  virtual Result<std::vector<FaultInfo>> fault_clear(uint32_t id);
  virtual Result<std::vector<FaultInfo>> fault_list();
};

enum class ControlCounter : uint8_t { kRequests, kMalformed, kRefused, kReplyLost, kCount };
[[nodiscard]] constexpr CounterNames<ControlCounter> counter_labels(ControlCounter /*of*/) noexcept {
  return {"requests", "malformed", "refused", "reply_lost"};
}

/// Owner: the loop's thread. Polls its socket at most every millisecond, so that its cost in a busy loop is
/// negligible; handles at most 4 requests of at most kControlMessageBytesMax per turn.
class ControlServer : public Pollable {
 public:
  /// `handler` must outlive the server. Opens a ZeroMQ context of its own, whose two threads inherit the
  /// caller's rights: call it after privileges were dropped. Replaces a socket that a dead process left at
  /// `path`. Fails when the directory is not ours and private, the path is too long (107 bytes), or a live
  /// process answers there.
  static Result<std::unique_ptr<ControlServer>> open(const std::string& path, ControlHandler& handler);

  [[nodiscard]] virtual CounterSet<ControlCounter>& counters() noexcept = 0;
};

}  // namespace weft::control
