// bench/support/fabric_rig.h -- a fabric of three processes for a measurement: the product's weft-switch, and
// two endnodes inside the measurement program.
#pragma once

#include <boost/program_options/options_description.hpp>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/rng.h"
#include "bench/support/measure.h"
#include "fabric/link/link_cell_port.h"
#include "fabric/link/link_engine.h"
#include "messages/ids.h"

namespace weft::bench {

inline constexpr Lid kHostLid{1};
inline constexpr Lid kUnitLid{2};

struct RigConfig {
  uint32_t cell_payload_bytes = fabric::kCellPayloadBytesDefault;
  std::string link = "shm";  // or "zmq": ZeroMQ over ipc
  uint32_t credits = fabric::kCreditsPerLaneDefault;
  int host_core = 1;  // -1: any core
  int switch_core = 0;
  int unit_core = 1;
  int zmq_core = -1;  // core of ZeroMQ's threads in all three processes
};

/// --payload, --credits, --link, --host-core, --switch-core, --unit-core, --zmq-core.
void add_rig_options(boost::program_options::options_description& known, RigConfig& config);

/// The switch process and the directory with its sockets. Make it before the children fork; it ends both when
/// it is destroyed.
class Fabric {
 public:
  explicit Fabric(const RigConfig& config);
  Fabric(const Fabric&) = delete;
  Fabric& operator=(const Fabric&) = delete;
  ~Fabric();
  [[nodiscard]] const RigConfig& config() const noexcept { return config_; }
  /// The endpoint for endnodes: "shm:PATH" or "ipc://PATH".
  [[nodiscard]] std::string endpoint() const;

 private:
  RigConfig config_;
  std::filesystem::path directory_;
  Children switch_;
};

/// Link of one endnode. Owner: the process that made it, which is bound to the node's core.
class Endnode {
 public:
  Endnode(const Fabric& fabric, Lid lid);
  Endnode(const Endnode&) = delete;
  Endnode& operator=(const Endnode&) = delete;
  ~Endnode();
  /// Polls until the link is up; aborts after five seconds.
  void wait_up();
  [[nodiscard]] fabric::CellPort& port() noexcept;
  /// Ends a turn of a loop that did `work`. Without work it yields the core, and after a while sleeps until
  /// something arrives or until `due`, like the loops of Weft's programs.
  void end_turn(uint32_t work, Instant due) noexcept;
  /// Mean number of data flits per burst since the link came up.
  [[nodiscard]] double flits_per_burst() const noexcept;
  [[nodiscard]] static Instant now() noexcept { return MonotonicClock().now(); }

 private:
  class Core;
  std::unique_ptr<Core> core_;
};

}  // namespace weft::bench
