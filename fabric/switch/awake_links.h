// fabric/switch/awake_links.h -- the links of a switch that are polled in a turn. A link without work rests:
// the switch does not poll it until its bell rings (a flit arrived or its state changed), its deadline comes,
// or a cell or a credit is sent by it. So the cost of a turn depends on the awake links, not on the number of
// links.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/pollable.h"
#include "fabric/link/link_bells.h"
#include "fabric/switch/port.h"
#include "fabric/switch/port_timers.h"

namespace weft::fabric {

/// Owner: the switch's thread.
class AwakeLinks final : public Sleeper {
 public:
  /// @param always number of links up to which idle links stay awake
  AwakeLinks(PortTable& ports, uint32_t always) noexcept : ports_(ports), always_(always) {}

  /// Adds a port that has just got its link.
  void add(Port& port) noexcept;
  [[nodiscard]] const PortSet& set() const noexcept { return awake_; }
  /// A flit is sent by `port`: wakes its link.
  void need(Port& port) noexcept {
    if (!awake_.contains(port.number)) [[unlikely]]
      wake(port);
  }
  /// `flits` flits that came by `in` have left their buffers.
  void give_credit(Port& in, VirtualLane vl, uint32_t flits) noexcept {
    need(in);
    in.link->grant(vl, flits);
  }
  /// Wakes the links whose bell rang or whose deadline has come.
  void wake_due() noexcept;
  /// Every kRestInterval: lets links rest that have been idle for kRestAfter.
  void rest_idle() noexcept {
    if (ports_.now >= next_rest_) [[unlikely]]
      rest_links();
  }
  /// True when at least one link that is up rests.
  [[nodiscard]] bool any_rests() const noexcept { return resting_ != 0; }

  // ---- Sleeper --------------------
  /// Descriptors of awake links; the acceptors wait for the others.
  void wait_fds(std::vector<pollfd>& out) const override;
  [[nodiscard]] bool prepare_sleep() noexcept override;
  void finish_sleep() noexcept override;
  [[nodiscard]] Instant deadline() const noexcept override;

 private:
  void wake(Port& port) noexcept;
  void rest_links() noexcept;
  [[nodiscard]] static bool may_rest(const Port& port) noexcept;
  bool rest(Port& port) noexcept;

  PortTable& ports_;
  PortSet awake_;
  uint32_t always_;
  uint32_t resting_ = 0;  // links that are up and rest
  Instant next_rest_{};
  std::shared_ptr<LinkBells> bells_ = std::make_shared<LinkBells>();
  PortTimers times_;  // deadlines of resting links
};

}  // namespace weft::fabric
