// node/endnode_process.h -- the run of weft-host and weft-iou: capabilities, link, adapter, counters, control
// endpoint, loop and orderly end. A program adds its ports, sessions and driver halves.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/net/capture_port.h"
#include "base/net/capture_set.h"
#include "node/endnode.h"
#include "node/process.h"

namespace weft::node {

/// Longest orderly end, in which sessions flush their pools and disconnect.
inline constexpr Duration kOrderlyEndMax = std::chrono::milliseconds(800);

/// A program's objects above its adapter, and its answers on the control endpoint. Owner: the loop's thread.
class EndnodeProgram : public control::ControlHandler {
 public:
  /// The ports outlive the program.
  EndnodeProgram(const EndnodeSpec& spec, const char* name, const Endnode& endnode,
                 std::vector<CapturePort*> ports);

  /// Begins the orderly end.
  virtual void close() noexcept = 0;
  /// True when every session has ended.
  [[nodiscard]] virtual bool closed() const noexcept = 0;

  control::NodeInfo info() final;
  Status capture_start(const control::CaptureSpec& spec) final;
  Status capture_stop(const std::string& path) final;

 protected:
  /// Adds state and sessions to Endnode::describe().
  virtual void describe(control::NodeInfo& out) = 0;

 private:
  const EndnodeSpec& spec_;
  const char* name_;
  const Endnode& endnode_;
  std::vector<CapturePort*> ports_;
  CaptureSet captures_;
};

struct EndnodeParts {
  /// Makes the adapter, an Hca or a Tca; the random numbers outlive it.
  std::function<std::unique_ptr<adapter::RunningAdapter>(RandomSource& random)> make_adapter;
  /// Opens everything that may need a capability.
  std::function<Status(const Clock& clock)> open_ports;
  /// Makes sessions and driver halves, adds these to the endnode, and publishes their counters. Endnode,
  /// random numbers and page outlive the program.
  std::function<std::unique_ptr<EndnodeProgram>(Endnode& endnode, RandomSource& random, StatsPage& page)>
      build;
};

/// Runs until the process is told to end. `name` is the program's name.
Status run_endnode(const EndnodeSpec& spec, const char* name, const EndnodeParts& parts);

}  // namespace weft::node
