// node/endnode_process.h -- the run of weft-host and weft-iou: rights, link, adapter, counters, control
// endpoint, loop and orderly end, which are the same for both. A program adds its ports and what it puts on
// the adapter.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/capture_port.h"
#include "base/capture_set.h"
#include "node/endnode.h"
#include "node/process.h"

namespace weft::node {

/// How long the orderly end may take: pools are flushed, sessions say good-bye.
inline constexpr Duration kOrderlyEndMax = std::chrono::milliseconds(800);

/// What a program has above the adapter of its endnode, and what it answers on its control endpoint. Owner:
/// the loop's thread.
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
  /// Adds state and sessions to what every endnode says.
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
  /// Opens what may need a right.
  std::function<Status(const Clock& clock)> open_ports;
  /// Makes sessions and driver halves, adds these to the endnode, and publishes their counters. Endnode,
  /// random numbers and page outlive the program.
  std::function<std::unique_ptr<EndnodeProgram>(Endnode& endnode, RandomSource& random, StatsPage& page)>
      build;
};

/// Runs until the process is told to end. `name` is the program's.
Status run_endnode(const EndnodeSpec& spec, const char* name, const EndnodeParts& parts);

}  // namespace weft::node
