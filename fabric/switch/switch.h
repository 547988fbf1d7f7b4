// fabric/switch/switch.h -- the switch core: forwards flits between its ports by DLID and lane, and never
// reads a payload (SAN-SW-01). No I/O, no threads: links and time come from outside. docs/flow_control.md.
#pragma once

#include <string_view>
#include <vector>

#include "base/pollable.h"
#include "base/result.h"
#include "base/stats_page.h"
#include "fabric/switch/awake_links.h"
#include "fabric/switch/cell_check.h"
#include "fabric/switch/cell_outputs.h"
#include "fabric/switch/cell_taps.h"
#include "fabric/switch/fault_gate.h"
#include "fabric/switch/forwarding_table.h"
#include "fabric/switch/live_faults.h"
#include "fabric/switch/port.h"
#include "fabric/switch/standstill.h"
#include "fabric/switch/switch_config.h"

namespace weft::fabric {

/// Cells of lane 15 that may wait at one input (decisions 1.15).
inline constexpr uint32_t kManagementCellsMax = 32;

/// Owner: one thread. poll() and below neither allocate nor make system calls.
class Switch final : public Pollable {
 public:
  static constexpr uint32_t kPortsMax = 254;  // InfiniBand's limit, without port 0 and the unused port 255
  /// Checks a configuration. The error says what is wrong with it.
  static Status check(const SwitchConfig& config);
  explicit Switch(const SwitchConfig& config);
  Switch(const Switch&) = delete;
  Switch& operator=(const Switch&) = delete;

  /// Puts a link on a port: 1..ports, or 0 for the management endnode (C-15). The link may go up and down at
  /// any time and must outlive the switch. Only the switch calls it.
  void attach(PortNumber port, LinkEngine& link);

  /// The offer of ports 1.. in a handshake.
  [[nodiscard]] const LinkConfig& link_config() const noexcept { return config_.link; }
  [[nodiscard]] const SwitchConfig& config() const noexcept { return config_; }
  [[nodiscard]] ForwardingTable& forwarding() noexcept { return forwarding_; }
  [[nodiscard]] const ForwardingTable& forwarding() const noexcept { return forwarding_; }
  /// Faults on demand: rules may come and go at any time.
  [[nodiscard]] LiveFaults& faults() noexcept { return faults_; }
  /// Capture points for copies of cells.
  [[nodiscard]] CellTaps& taps() noexcept { return taps_; }

  /// True when links that are up rest: their acceptors must then go on polling for wake-ups.
  [[nodiscard]] bool links_rest() const noexcept { return awake_.any_rests(); }
  /// Number of link polls so far: the cost of the turns.
  [[nodiscard]] uint64_t looks() const noexcept { return looks_; }
  [[nodiscard]] const Port& port(PortNumber number) const noexcept { return ports_[number]; }
  /// The port of the endnode with this GUID; kPortNone when no link has it.
  [[nodiscard]] PortNumber port_of(Guid guid) const noexcept;
  [[nodiscard]] uint32_t ports() const noexcept { return static_cast<uint32_t>(ports_.all.size()) - 1; }
  /// Cells that wait or are partly sent, for the conservation check.
  [[nodiscard]] uint64_t cells_held() const noexcept;
  /// Number of entries that publish() needs on a page.
  [[nodiscard]] uint32_t stats_entries() const noexcept;
  /// Puts all counters on `page`: PREFIX.N.NAME, PREFIX.N.link.NAME, PREFIX.N.link.vl.V.NAME.
  void publish(StatsPage& page, std::string_view prefix);

  // ---- Pollable --------------------
  int poll(Instant now) noexcept override;
  void wait_fds(std::vector<pollfd>& out) const override { awake_.wait_fds(out); }
  [[nodiscard]] bool prepare_sleep() noexcept override { return awake_.prepare_sleep(); }
  void finish_sleep() noexcept override { awake_.finish_sleep(); }
  [[nodiscard]] Instant deadline() const noexcept override;

 private:
  int receive_all() noexcept;
  int receive_flits(Port& in) noexcept;
  /// Whole cells of one input with the same ends, one after the other in one burst, that pass from ring to
  /// ring. The first is checked for all, and what each of them changes is noted once.
  struct CellRun {
    CellHead head;  // of the first
    VirtualLane vl;
    Port* out = nullptr;  // null: no run
    uint32_t cells = 0;   // not yet noted
  };
  [[nodiscard]] bool pass_along(Port& in, const RxFlit& flit, CellRun& run) noexcept;
  [[nodiscard]] bool begin_run(Port& in, const RxFlit& flit, const CellHead& head, CellRun& run) noexcept;
  void end_run(Port& in, CellRun& run) noexcept;
  void take_flit(Port& in, const RxFlit& flit) noexcept;
  [[gnu::cold]] void refuse(Port& in, const RxFlit& flit, SwitchPortCounter reason) noexcept;
  void copy_to_group(Port& in, const RxFlit& flit, const CellHead& head) noexcept;

  int watch_links(Instant now) noexcept;
  void take_link_up(Port& port) noexcept;
  void make_buffers(Port& port) noexcept;
  void forget_link(Port& port) noexcept;

  SwitchConfig config_;
  uint32_t flits_per_cell_;
  ForwardingTable forwarding_;
  LiveFaults faults_;
  CellTaps taps_;
  PortTable ports_;
  AwakeLinks awake_;
  CellOutputs outputs_;
  Standstill standstill_;
  CellCheck check_;
  FaultGate gate_;
  uint64_t looks_ = 0;
  Instant next_down_poll_{};
  PortNumber first_ = 0;  // port that goes first in this turn
};

}  // namespace weft::fabric
