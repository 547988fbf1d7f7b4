// iou_driver/iou_netdev.h -- the unit half of the split network driver (PUSH-DRV-03): shares one LAN NIC, a
// FramePort, among the hosts whose sessions the acceptor holds. Frames go by MAC address: to the host that
// has the destination, else to the LAN; broadcast and multicast go to the LAN and to all hosts whose filters
// match (decisions 2.22).
//
// Back-pressure loses nothing: while the NIC is busy or a host has no free element, the frame stays where it
// is and the frames behind it wait. A host that takes no frame for kSlowHostMax stops delaying its
// neighbours, and one that takes few of them delays them for a small part of the time (WaitBudget).
#pragma once

#include <poll.h>

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/counters.h"
#include "base/net/driver_half.h"
#include "base/net/frame_port.h"
#include "base/net/frame_writer.h"
#include "base/net/segmenter.h"
#include "base/stats_page.h"
#include "iou_driver/nic_config_service.h"
#include "iou_driver/unit_client.h"
#include "iou_driver/wait_budget.h"
#include "session/netdev_session.h"

namespace weft::iou {

inline constexpr uint32_t kUnitReadsPerPoll = 8;
inline constexpr uint32_t kUnitWritesPerPoll = 32;  // per session

enum class UnitCounter : uint8_t {
  kFramesToLan,
  kFramesToHosts,
  kFramesBetweenHosts,
  kNicBusyTurns,      // the NIC took nothing; the element was kept
  kHostBusyTurns,     // a host had no free element; the frame waits
  kSegmentedForHost,  // GSO frames cut, or checksums filled in, because the host lacks the offload
  kLinkEvents,        // link state told to a host
  kHostsAdmitted,
  kBadVnetHeader,      // invalid flags, checksum position or GSO type
  kForeignSource,      // source address is not the host's, and the unit does not bridge
  kGroupSource,        // a group address as source
  kTooLongForMtu,      // longer than the MTU, whole or as pieces of a GSO frame
  kNicRefused,         // the NIC refused the frame for good
  kNicDown,            // the NIC is down; the frame is lost
  kNoHostFor,          // a LAN frame that no host wants
  kLanReadRefused,     // the NIC offered a frame that fits no element
  kLanBadVnetHeader,   // as kBadVnetHeader, from the NIC
  kUncuttableForHost,  // a frame to be cut for a host: headers contradict each other, or too many pieces
  kTooLongForHost,     // a frame no element of that session can hold, or too long to be cut for it
  kSlowHostDrops,      // its WaitBudget is used up
  kHostsRefusedMac,    // address taken, a group or zero
  kNicOffloadErrors,   // the NIC refused the offloads that all hosts have
  kCount,
};
[[nodiscard]] constexpr CounterNames<UnitCounter> counter_labels(UnitCounter /*of*/) noexcept {
  return {"frames_to_lan",        "frames_to_hosts",
          "frames_between_hosts", "nic_busy_turns",
          "host_busy_turns",      "segmented_for_host",
          "link_events",          "hosts_admitted",
          "bad_vnet_header",      "foreign_source",
          "group_source",         "too_long_for_mtu",
          "nic_refused",          "nic_down",
          "no_host_for",          "lan_read_refused",
          "lan_bad_vnet_header",  "uncuttable_for_host",
          "too_long_for_host",    "slow_host_drops",
          "hosts_refused_mac",    "nic_offload_errors"};
}

/// Owner: the unit's thread, which polls the adapter before each poll() of this. Acceptor and NIC outlive it.
class IouNetdev final : public session::AcceptorEvents, public DriverHalf {
 public:
  IouNetdev(session::SessionAcceptor& acceptor, FramePort& nic, const NicPolicy& policy);
  ~IouNetdev() override;
  IouNetdev(const IouNetdev&) = delete;
  IouNetdev& operator=(const IouNetdev&) = delete;

  int poll(Instant now) noexcept override;
  [[nodiscard]] Instant deadline() const noexcept override;
  /// The NIC's descriptors; none while no frame could be taken from it.
  void wait_fds(std::vector<pollfd>& out) const override;

  [[nodiscard]] FramePort& nic() noexcept { return nic_; }
  [[nodiscard]] std::span<const UnitClient> clients() const noexcept {
    return {clients_.data(), client_count_};
  }
  [[nodiscard]] CounterSet<UnitCounter>& counters() noexcept { return counters_; }
  [[nodiscard]] NicConfigService& config() noexcept { return config_; }
  /// Puts all counters of this half on the page. False when it is full.
  bool publish(StatsPage& page, std::string_view prefix);

  session::SessionRefusal admit(const session::SessionPeer& peer) noexcept override;
  void on_state(session::NetdevSession& session, session::SessionState state) noexcept override;
  void on_config_request(session::NetdevSession& session, const session::CfgRequest& request,
                         session::CfgReply& reply) noexcept override;
  void on_config_reply(session::NetdevSession& session, uint64_t transaction,
                       const session::CfgReply& reply) noexcept override;

 private:
  static constexpr uint32_t kToNic = 1U << kUnitClientsMax;

  /// A LAN frame in private memory that some hosts have yet to get.
  struct HeldFrame {
    std::vector<std::byte> bytes;  // vnet header and frame
    FrameHead head;
    uint32_t length = 0;       // 0: nothing held
    uint32_t targets = 0;      // clients that still want it, a bit each
    uint32_t cutting_for = 0;  // bit of the client that the segmenter works for; 0: none
  };
  enum class Handed : uint8_t {
    kDone,
    kBusy,        // the host has no room
    kMemoryBusy,  // the frame has to be cut, and held_ is in use or the LAN's turn
  };

  // Host -> LAN and other hosts.
  int take_from_hosts() noexcept;
  int take_from(uint32_t index) noexcept;
  [[nodiscard]] bool forward_front(uint32_t index, const session::InboundFrame& frame) noexcept;
  [[nodiscard]] bool head_allowed(UnitClient& from, const session::InboundFrame& frame) noexcept;
  void refuse(UnitClient& from, UnitCounter reason) noexcept;
  [[nodiscard]] bool may_wait_for(UnitClient& to) noexcept;
  [[nodiscard]] bool write_to_nic(UnitClient& from, std::span<const std::byte> rest) noexcept;
  [[nodiscard]] uint32_t targets_for(const MacAddress& destination, uint32_t except) const noexcept;

  // LAN -> hosts.
  int take_from_nic() noexcept;
  [[nodiscard]] bool read_one() noexcept;
  void route(std::span<const std::byte> bytes, uint32_t landing, uint32_t targets) noexcept;
  [[nodiscard]] bool is_waited_for(UnitClient& to, uint32_t bytes) noexcept;
  [[nodiscard]] uint32_t hand_to_all(std::span<const std::byte> bytes, uint32_t targets) noexcept;
  void hold(std::span<const std::byte> bytes, uint32_t targets) noexcept;
  void serve_held() noexcept;
  void drop_for_slow_hosts() noexcept;
  [[nodiscard]] Handed serve_held_to(uint32_t index) noexcept;
  [[nodiscard]] Handed cut_held_for(UnitClient& to) noexcept;
  [[nodiscard]] Handed hand_over(uint32_t to, const FrameHead& head,
                                 std::span<const std::byte> rest) noexcept;
  [[nodiscard]] bool fits_as_it_is(const UnitClient& to, const FrameHead& head) const noexcept;
  [[nodiscard]] std::span<std::byte> claim_landing(uint32_t& client) noexcept;
  [[nodiscard]] uint32_t active_count() const noexcept;
  [[nodiscard]] bool holds_frames() const noexcept;
  void count_taken(UnitClient& to, uint32_t frame_bytes) noexcept;
  [[nodiscard]] WaitBudget& budget_of(Lid lid) noexcept;

  void tell_link_state() noexcept;
  void update_nic_offloads() noexcept;
  [[nodiscard]] UnitClient* client_of(const session::NetdevSession& session) noexcept;

  session::SessionAcceptor& acceptor_;
  FramePort& nic_;
  NicPolicy policy_;
  NicConfigService config_;
  FrameWriter nic_writer_;
  Segmenter segmenter_;  // for held_
  FrameHead head_;
  std::array<UnitClient, kUnitClientsMax> clients_;
  uint32_t client_count_ = 0;
  uint32_t first_ = 0;    // client whose turn it is
  uint32_t landing_ = 0;  // client that got the last LAN frame; the next one is read into its memory
  HeldFrame held_;
  bool nic_held_ = false;  // LAN frames must wait
  bool lan_turn_ =
      false;  // a host's frame has kept the LAN out of held_; the LAN is read before the next one
  std::array<WaitBudget, kUnitClientsMax> budgets_;
  Instant now_{};
  Instant last_turn_{};
  Offload nic_offloads_ = Offload::kNone;
  CounterSet<UnitCounter> counters_;
};

}  // namespace weft::iou
