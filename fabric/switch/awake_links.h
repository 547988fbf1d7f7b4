// fabric/switch/awake_links.h -- which links of a switch are polled in a turn. A link with nothing to do
// rests: the switch does not poll it until its bell rings (something arrived, or its state changed), its own
// deadline comes, or a cell or a credit goes out by it. So a turn costs what the awake links cost, however
// many links there are.
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
  /// @param always while at most this many links are awake, idle ones do not rest
  AwakeLinks(PortTable& ports, uint32_t always) noexcept : ports_(ports), always_(always) {}

  /// A port that has just got its link.
  void add(Port& port) noexcept;
  [[nodiscard]] const PortSet& set() const noexcept { return awake_; }
  /// A flit goes out by `port`.
  void need(Port& port) noexcept {
    if (!awake_.contains(port.number)) [[unlikely]]
      wake(port);
  }
  /// Flits that came by `in` have left their buffers.
  void give_credit(Port& in, VirtualLane vl, uint32_t flits) noexcept {
    need(in);
    in.link->grant(vl, flits);
  }
  /// Those whose bell rang, and those whose time has come.
  void wake_due() noexcept;
  /// Now and then: those that have been idle for a while rest.
  void rest_idle() noexcept {
    if (ports_.now >= next_rest_) [[unlikely]]
      rest_links();
  }
  /// True when links that are up rest.
  [[nodiscard]] bool any_rests() const noexcept { return resting_ != 0; }

  // ---- Sleeper --------------------
  /// Of links without an acceptor; the acceptors wait for the others.
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
  PortTimers times_;  // of links that rest
};

}  // namespace weft::fabric
