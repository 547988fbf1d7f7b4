// node/endnode.h -- a process that is a node of the fabric: one link to a switch, one adapter, and the
// driver halves above it, polled in that order; what the halves post leaves in the same turn. What weft-host
// and weft-iou have in common.
#pragma once

#include <memory>
#include <vector>

#include "adapter/running_adapter.h"
#include "base/driver_half.h"
#include "base/pollable.h"
#include "base/result.h"
#include "base/rng.h"
#include "base/stats_page.h"
#include "control/management.h"
#include "fabric/link/link_cell_port.h"
#include "fabric/link/link_connect.h"
#include "node/spec.h"
#include "session/netdev_session.h"

namespace weft::node {

/// Checks what files the endpoint of the switch needs. The error text is for the user.
Status check_endpoint(const EndnodeSpec& spec);

/// The receive pools of the spec, or the session's own when it names none.
[[nodiscard]] std::vector<session::PoolClass> session_pools(const EndnodeSpec& spec);

/// Owner: the loop's thread.
class Endnode final : public Pollable {
 public:
  /// Prepares the link and attaches the adapter, an Hca or a Tca, to it; nothing is connected before the
  /// first poll(). `random` outlives the endnode.
  static Result<std::unique_ptr<Endnode>> create(const EndnodeSpec& spec,
                                                 std::unique_ptr<adapter::RunningAdapter> adapter,
                                                 RandomSource& random);

  /// Polled after the adapter, in the order added; outlives the loop.
  void add(DriverHalf& half) { halves_.push_back(&half); }
  [[nodiscard]] adapter::ChannelAdapter& adapter() noexcept { return adapter_->adapter(); }
  [[nodiscard]] fabric::LinkCellPort& port() noexcept { return port_; }
  void publish(StatsPage& page);
  /// True while cells were sent that are lost if this process ends now.
  [[nodiscard]] bool loses_at_end() const noexcept { return link_->link().loses_at_end(); }
  /// What every endnode program answers about itself on its control endpoint: who it is, ready while the link
  /// is up, else why it is not. Sessions and state are the caller's.
  [[nodiscard]] control::NodeInfo describe(const EndnodeSpec& spec, const char* program) const;

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
