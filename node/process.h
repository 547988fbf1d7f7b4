// node/process.h -- parts that every process of the fabric has around its cores: clock and random numbers,
// the loop and the guard that ends it, the counters' page, the control endpoint, and dropping of
// capabilities.
#pragma once

#include <initializer_list>
#include <memory>
#include <optional>

#include "base/clock.h"
#include "base/loop_runner.h"
#include "base/pollable.h"
#include "base/process_guard.h"
#include "base/result.h"
#include "base/rng.h"
#include "base/stats_page.h"
#include "control/control_server.h"
#include "fabric/link/link_handshake.h"
#include "node/spec.h"

namespace weft::node {

/// Owner: the thread that makes it and calls run(). Outlives the cores that publish on its page.
class Process {
 public:
  /// Sets up the log, takes the signals and makes the directory of the spec if it does not exist. Call it
  /// before any thread starts; `spec` outlives the process.
  static Result<std::unique_ptr<Process>> create(const ProcessSpec& spec, const char* program);

  /// Drops every capability. Call it after everything that needs one is open, and before the first byte from
  /// the fabric is read.
  Status drop_rights();
  /// Creates the page of the counters, replacing an earlier one of this name.
  Status open_page(uint32_t entries = kStatsEntriesDefault);
  /// Opens the control endpoint and polls `cores`, in this order, then control endpoint and guard, until the
  /// process is told to end. Binds the loop's thread to the CPU core of the spec. The threads of ZeroMQ run
  /// already and stay unbound. Cores and handler outlive the call.
  Status run(control::ControlHandler& handler, std::initializer_list<Pollable*> cores);

  [[nodiscard]] const Clock& clock() const noexcept { return clock_; }
  [[nodiscard]] RandomSource& random() noexcept { return random_; }
  /// Only after open_page().
  [[nodiscard]] StatsPage& page() noexcept { return *page_; }

 private:
  explicit Process(const ProcessSpec& spec) : spec_(spec), loop_(clock_) {}

  const ProcessSpec& spec_;
  const MonotonicClock clock_;
  SystemRandom random_;
  std::optional<StatsPage> page_;  // outlives the loop's counters on it
  LoopRunner loop_;
  std::unique_ptr<ProcessGuard> guard_;
};

/// The link parameters that this process offers to its peers.
[[nodiscard]] fabric::LinkConfig link_config(const ProcessSpec& spec) noexcept;
/// The node information of every program; the caller adds state, sessions and ports.
[[nodiscard]] control::NodeInfo describe_node(const ProcessSpec& spec, const char* program);
/// The exit code of main(): 0, or 1 after logging why the program ended.
[[nodiscard]] int exit_code_of(const Status& ended);
/// The exit code of main() for arguments that contradict each other or the files they name: 2, after printing
/// one line.
[[nodiscard]] int wrong_use(const char* program, const Error& fault);

}  // namespace weft::node
