// node/endnode.h -- a process that is a node of the fabric: its links to switches, one adapter, and the
// driver halves above it, polled in that order. Work that the halves post is sent in the same turn. Shared by
// weft-host and weft-iou.
#pragma once

#include <memory>
#include <vector>

#include "adapter/running_adapter.h"
#include "base/net/driver_half.h"
#include "base/pollable.h"
#include "base/result.h"
#include "base/rng.h"
#include "base/stats_page.h"
#include "control/management.h"
#include "fabric/carrier/link_connect.h"
#include "fabric/link/link_cell_port.h"
#include "node/key_component.h"
#include "node/spec.h"
#include "session/netdev_session.h"
#include "session/session_port.h"

namespace weft::node {

/// Checks the files that the switches' endpoints need. The error text is for the user.
Status check_endpoint(const EndnodeSpec& spec);

/// AdapterConfig::nics of the node: a NIC for each link if each is an adapter of its own.
[[nodiscard]] std::vector<uint8_t> nics_of(const EndnodeSpec& spec);

/// The receive pools of the spec, or the session's own when it names none.
[[nodiscard]] std::vector<session::PoolClass> session_pools(const EndnodeSpec& spec);

/// Owner: the loop's thread.
class Endnode final : public Pollable {
 public:
  /// Prepares the links and attaches the adapter, an Hca or a Tca, to them; nothing is connected before the
  /// first poll(). `random` outlives the endnode.
  static Result<std::unique_ptr<Endnode>> create(const EndnodeSpec& spec,
                                                 std::unique_ptr<adapter::RunningAdapter> adapter,
                                                 RandomSource& random);

  /// Polled after the adapter, in the order added; outlives the loop.
  void add(DriverHalf& half) { halves_.push_back(&half); }
  [[nodiscard]] adapter::ChannelAdapter& adapter() noexcept { return adapter_->adapter(); }
  /// For the sessions, which end before the endnode.
  [[nodiscard]] session::SessionPorts& session_ports() noexcept { return session_ports_; }
  /// Port `number` of the adapter, from 1.
  [[nodiscard]] fabric::LinkCellPort& port(size_t number = 1) noexcept { return links_[number - 1]->cells; }
  void publish(StatsPage& page);
  /// True while cells are in flight that would be lost if this process ended now.
  [[nodiscard]] bool loses_at_end() const noexcept;
  /// The node information of every endnode program: identity, and `ready` while all links are up, else the
  /// reason. The caller adds sessions and state.
  [[nodiscard]] control::NodeInfo describe(const EndnodeSpec& spec, const char* program) const;

  int poll(Instant now) noexcept override;
  void wait_fds(std::vector<pollfd>& out) const override;
  [[nodiscard]] bool prepare_sleep() noexcept override { return adapter_->prepare_sleep(); }
  void finish_sleep() noexcept override { adapter_->finish_sleep(); }
  [[nodiscard]] Instant deadline() const noexcept override;

 private:
  /// A link, which is a port of the adapter.
  struct Link {
    explicit Link(std::unique_ptr<fabric::LinkConnection> made)
        : connection(std::move(made)), cells(connection->link()) {}
    std::unique_ptr<fabric::LinkConnection> connection;
    fabric::LinkCellPort cells;
  };
  Endnode(std::vector<std::unique_ptr<Link>> links, std::unique_ptr<adapter::RunningAdapter> adapter);

  std::vector<std::unique_ptr<Link>> links_;
  KeyComponent keys_;  // in use with several NICs
  std::unique_ptr<adapter::RunningAdapter> adapter_;
  session::SessionPorts session_ports_;
  std::vector<DriverHalf*> halves_;
};

}  // namespace weft::node
