// fabric/switch/switch.h -- the switch core: moves flits between its ports by DLID and lane, and never opens
// a payload (SAN-SW-01). No I/O, no threads: links and time come from outside. docs/flow_control.md.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "base/pollable.h"
#include "base/result.h"
#include "base/stats_page.h"
#include "fabric/link/link_handshake.h"
#include "fabric/switch/cell_taps.h"
#include "fabric/switch/forwarding_table.h"
#include "fabric/switch/live_faults.h"
#include "fabric/switch/port.h"
#include "fabric/switch/port_timers.h"

namespace weft::fabric {

/// Cells of lane 15 that wait at one input (decisions 1.15).
inline constexpr uint32_t kManagementCellsMax = 32;

struct SwitchConfig {
  LinkConfig link;  // what every port offers; link.cut_through: forward before the tail has come
  SubnetId subnet;
  uint32_t ports = 16;           // 1..254, not counting the management port 0
  bool table_per_input = false;  // SAN-SW-05
  bool one_cell_per_lane =
      false;                  // strict reading of SAN-VL-07 (C-32): one cell per lane in the whole switch
  VlArbitration arbitration;  // empty: every lane alike
  uint32_t management_per_second = 2000;   // lane 15, per input port
  uint32_t gsi_per_second = 2000;          // cells for QP1, per input port
  uint32_t copies_per_second = 1'000'000;  // of multicast cells, per input port: what one may cost the others
  // Links that are looked at in every turn though idle: so many cost less than being told of their cells.
  uint32_t links_awake = 8;
  Duration lifetime = kHeadOfQueueLifetime;
  Duration standstill = kOutputStandstill;
};

/// Owner: one thread. poll() and below neither allocate nor make system calls.
class Switch final : public Pollable {
 public:
  static constexpr uint32_t kPortsMax = 254;  // InfiniBand's; port 0 and the unused 255 come on top
  /// Says what is wrong with a configuration.
  static Status check(const SwitchConfig& config);
  explicit Switch(const SwitchConfig& config);
  ~Switch() override;
  Switch(const Switch&) = delete;
  Switch& operator=(const Switch&) = delete;

  /// Puts a link on a port: 1..ports, or 0 for the management endnode (C-15). The link may go up and down as
  /// it likes and must outlive the switch. Nobody else calls it.
  void attach(PortNumber port, LinkEngine& link);

  /// What ports 1.. offer in a handshake.
  [[nodiscard]] const LinkConfig& link_config() const noexcept { return config_.link; }
  [[nodiscard]] const SwitchConfig& config() const noexcept { return config_; }
  [[nodiscard]] ForwardingTable& forwarding() noexcept { return forwarding_; }
  [[nodiscard]] const ForwardingTable& forwarding() const noexcept { return forwarding_; }
  /// Faults on demand: rules may come and go at any time.
  [[nodiscard]] LiveFaults& faults() noexcept { return faults_; }
  /// Where captures take copies of cells.
  [[nodiscard]] CellTaps& taps() noexcept { return taps_; }

  /// True when links that are up wait for their bells: who hears for them must go on listening.
  [[nodiscard]] bool links_rest() const noexcept { return resting_ != 0; }
  /// How often poll() has looked at a link: what a turn costs.
  [[nodiscard]] uint64_t looks() const noexcept { return looks_; }
  [[nodiscard]] const Port& port(PortNumber number) const noexcept { return *ports_[number]; }
  [[nodiscard]] uint32_t ports() const noexcept { return static_cast<uint32_t>(ports_.size()) - 1; }
  /// Cells that wait or are on their way through, for the conservation check.
  [[nodiscard]] uint64_t cells_held() const noexcept;
  /// What publish() needs of a page.
  [[nodiscard]] uint32_t stats_entries() const noexcept;
  /// Puts all counters on `page`: PREFIX.N.NAME, PREFIX.N.link.NAME, PREFIX.N.link.vl.V.NAME.
  void publish(StatsPage& page, std::string_view prefix);

  // ---- Pollable --------------------
  int poll(Instant now) noexcept override;
  void wait_fds(std::vector<pollfd>& out) const override;
  [[nodiscard]] bool prepare_sleep() noexcept override;
  void finish_sleep() noexcept override;
  [[nodiscard]] Instant deadline() const noexcept override;

 private:
  static constexpr uint32_t kTurnsPerForwardMax = 64;
  // Input (switch_ingress.cc).
  int receive_flits(Port& in) noexcept;
  void take_flit(Port& in, const RxFlit& flit) noexcept;
  [[nodiscard]] SwitchPortCounter admit(Port& in, VirtualLane vl, const CellHead& head,
                                        PortNumber& output) noexcept;
  [[nodiscard]] SwitchPortCounter check_rates(Port& in, VirtualLane vl, Qpn dest_qpn) noexcept;
  [[nodiscard]] SwitchPortCounter check_output(const Port& in, VirtualLane vl, PortNumber output) noexcept;
  [[nodiscard]] SwitchPortCounter check_stalled(const Port& in, Port& out, VirtualLane vl) noexcept;
  [[nodiscard]] bool leads_back(const Port& in, PortNumber output, Lid slid) const noexcept;
  [[nodiscard]] bool pass_through(Port& in, Port& out, const CheckedFlit& checked) noexcept;
  void enqueue(Port& in, Port& out, const CheckedFlit& checked) noexcept;
  void copy_to_group(Port& in, const RxFlit& flit, const CellHead& head) noexcept;
  [[nodiscard]] bool copies_go(const Port& in, const Port& out, const CellHead& head) const noexcept;

  // Faults on demand and captures (switch_faults.cc).
  void inspect(Port& in, const RxFlit& flit, const CellHead& head) noexcept;
  void strike(Port& in, VirtualLane vl, const CellHead& head) noexcept;
  [[nodiscard]] bool copy_is_struck(const Port& in, const Port& out, VirtualLane vl,
                                    const CellHead& head) noexcept;
  void end_strike(Ingress& cell) noexcept;
  [[nodiscard]] bool keep_back(Port& in, const RxFlit& flit, const CellHead* head) noexcept;
  int release_held() noexcept;
  [[nodiscard]] bool send_held(const HeldCell& cell) noexcept;

  // Output (switch.cc).
  int forward(Port& out) noexcept;
  [[nodiscard]] uint32_t ready_lanes(Port& out) const noexcept;
  uint32_t send_turn(Port& out, VirtualLane vl, uint32_t bytes_wanted) noexcept;
  [[nodiscard]] bool send_front(Port& in, Port& out, VirtualLane vl) noexcept;
  void note_sent(Port& in, Port& out, const TxFlit& flit) noexcept;
  void send_poison(Port& out) noexcept;
  void update_ready(Port& in, Port& out, VirtualLane vl) noexcept;
  void lock(Port& in, Port& out, VirtualLane vl) noexcept;
  void unlock(Port& out, VirtualLane vl) noexcept;
  [[nodiscard]] bool lane_is_free(const Port& out, VirtualLane vl, PortNumber input) const noexcept;

  // Links and time (switch_upkeep.cc).
  void wake_links() noexcept;
  void wake(Port& port) noexcept;
  void rest_links() noexcept;
  [[nodiscard]] bool may_rest(const Port& port) const noexcept;
  bool rest(Port& port) noexcept;
  int receive_all() noexcept;
  void give_credit(Port& in, VirtualLane vl, uint32_t flits) noexcept;
  int watch_links(Instant now) noexcept;
  void take_link_up(Port& port) noexcept;
  void make_buffers(Port& port) noexcept;
  void forget_link(Port& port) noexcept;
  void return_credit(Port& in, VirtualLane vl, uint32_t flits) noexcept;
  void drop_queued(Port& out, VirtualLane vl, SwitchPortCounter reason) noexcept;
  [[nodiscard]] uint32_t drop_from(Port& in, Port& out, VirtualLane vl, SwitchPortCounter reason) noexcept;
  void drop_unfinished(Port& in, VirtualLane vl) noexcept;
  void tick() noexcept;
  void end_overdue_cells(Port& out) noexcept;
  [[nodiscard]] bool can_send(Port& out, VirtualLane vl) noexcept;
  [[nodiscard]] bool stands_still(Port& out, VirtualLane vl, Duration limit) noexcept;
  [[nodiscard]] bool crowded(const Port& in, VirtualLane vl, uint32_t more) const noexcept;
  void make_room(Port& out, VirtualLane vl) noexcept;

  SwitchConfig config_;
  uint32_t flits_per_cell_;
  ForwardingTable forwarding_;
  LiveFaults faults_;
  CellTaps taps_;
  std::vector<std::unique_ptr<Port>> ports_;
  std::vector<Port*> attached_;
  PortSet awake_;     // links that are looked at in this turn
  PortSet waiting_;   // outputs with flits queued, or that owe a poisoned tail
  PortSet begun_;     // outputs a cell has begun to cross, and maybe ended since
  PortTimers times_;  // of links that rest
  std::shared_ptr<LinkBells> bells_ = std::make_shared<LinkBells>();
  uint32_t resting_ = 0;  // links that are up and rest
  uint64_t looks_ = 0;
  std::array<PortNumber, kVlCount> lane_outputs_;  // one_cell_per_lane: where the lane's cell goes now
  Instant now_{};
  Instant next_tick_{};
  Instant next_down_poll_{};
  Instant next_rest_{};
  PortNumber first_ = 0;  // port that goes first this turn
};

}  // namespace weft::fabric
