// node/endnode.h -- a process that is a node of the fabric: one link to a switch, one adapter, and the
// driver halves above it, polled in that order. What weft-host and weft-iou have in common, with the options
// they share.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "adapter/running_adapter.h"
#include "base/command_line.h"
#include "base/driver_half.h"
#include "base/pollable.h"
#include "base/result.h"
#include "base/rng.h"
#include "base/stats_page.h"
#include "fabric/link/link_cell_port.h"
#include "fabric/link/link_connect.h"
#include "node/node_options.h"
#include "session/netdev_session.h"

namespace weft::node {

/// Options of every endnode.
struct EndnodeOptions : NodeOptions {
  uint32_t lid = 0;
  std::string endpoint;      // of the switch
  std::string curve_server;  // file; CURVE when this and curve_secret are given
  std::vector<std::string> pools;
};
void declare_endnode_options(CommandLine& line, EndnodeOptions& out);
/// Checks what belongs together and sets up the log. The error text is for the user.
Status check_endnode_options(const std::string& program, const EndnodeOptions& options);

/// "2048x256": elements of 2048 bytes, 256 of them. The default when `texts` is empty.
Result<std::vector<session::PoolClass>> parse_pools(const std::vector<std::string>& texts);

/// Owner: the loop's thread.
class Endnode final : public Pollable {
 public:
  /// Prepares the link and attaches the adapter, an Hca or a Tca, to it; nothing is connected before the
  /// first poll(). `random` outlives the endnode.
  static Result<std::unique_ptr<Endnode>> create(const EndnodeOptions& options,
                                                 std::unique_ptr<adapter::RunningAdapter> adapter,
                                                 RandomSource& random);

  /// Polled after the adapter, in the order added; outlives the loop.
  void add(DriverHalf& half) { halves_.push_back(&half); }
  [[nodiscard]] adapter::ChannelAdapter& adapter() noexcept { return adapter_->adapter(); }
  [[nodiscard]] fabric::LinkCellPort& port() noexcept { return port_; }
  void publish(StatsPage& page);
  /// What every endnode program answers about itself on its control endpoint: who it is, ready while the link
  /// is up, else why it is not. Sessions and state are the caller's.
  [[nodiscard]] control::NodeInfo describe(const EndnodeOptions& options, const char* program) const;

  int poll(Instant now) noexcept override;
  void wait_fds(std::vector<pollfd>& out) const override;
  [[nodiscard]] bool prepare_sleep() noexcept override { return adapter_->prepare_sleep(); }
  void finish_sleep() noexcept override { adapter_->finish_sleep(); }
  [[nodiscard]] Instant deadline() const noexcept override;

 private:
  Endnode(std::unique_ptr<fabric::LinkConnection> link, std::unique_ptr<adapter::RunningAdapter> adapter);

  std::unique_ptr<fabric::LinkConnection> link_;
  fabric::LinkCellPort port_;
  std::unique_ptr<adapter::RunningAdapter> adapter_;
  std::vector<DriverHalf*> halves_;
};

}  // namespace weft::node
