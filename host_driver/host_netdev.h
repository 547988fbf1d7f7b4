// host_driver/host_netdev.h -- the host half of the split network driver (PUSH-DRV-02): joins an OS
// interface, a FramePort, to one session with an I/O unit. The session hides the channel adapter; no adapter
// header is included here (PUSH-DRV-05).
//
// Frames from the OS are read straight into the session's registered memory; frames from the unit are written
// from the pool element, behind a private copy of their first bytes. Without a session nothing is read, and
// after 5 s the interface loses its carrier.
#pragma once

#include <poll.h>

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/counters.h"
#include "base/net/driver_half.h"
#include "base/net/frame_port.h"
#include "base/net/frame_writer.h"
#include "base/stats_page.h"
#include "host_driver/nic_controller.h"
#include "session/netdev_session.h"

namespace weft::host {

/// Most frames read from the OS per poll (decisions P9).
inline constexpr uint32_t kHostReadsPerPoll = 4;
inline constexpr uint32_t kHostWritesPerPoll = 32;
/// After this long without a session the OS interface loses its carrier (decisions 2.13).
inline constexpr Duration kCarrierGrace = std::chrono::seconds(5);

enum class HostCounter : uint8_t {
  kFramesToUnit,
  kFramesToOs,
  kOsBusyTurns,     // the OS interface took nothing; the element was kept
  kNoElementTurns,  // the peer had no free element; the OS was not read
  kCarrierUp,
  kCarrierDown,
  kBadVnetHeader,    // from the unit: invalid flags, checksum position or GSO type
  kOsRefused,        // the OS interface refused the frame for good
  kOsDown,           // the OS interface is down; the frame is lost, as with any NIC
  kReadRefused,      // the OS offered a frame that fits no element
  kUnknownRequests,  // unknown configuration requests of the unit
  kBadRequests,      // known configuration requests with invalid data
  kOsOffloadErrors,  // the OS interface refused the offloads agreed
  kCount,
};
[[nodiscard]] constexpr CounterNames<HostCounter> counter_labels(HostCounter /*of*/) noexcept {
  return {"frames_to_unit",   "frames_to_os",    "os_busy_turns",    "no_element_turns", "carrier_up",
          "carrier_down",     "bad_vnet_header", "os_refused",       "os_down",          "read_refused",
          "unknown_requests", "bad_requests",    "os_offload_errors"};
}

/// Owner: the host's thread, which polls the adapter before each poll() of this. Session and port outlive it.
class HostNetdev final : public session::SessionEvents, public DriverHalf {
 public:
  HostNetdev(session::NetdevSession& session, FramePort& port, const NicSettings& settings);
  ~HostNetdev() override;
  HostNetdev(const HostNetdev&) = delete;
  HostNetdev& operator=(const HostNetdev&) = delete;

  /// Starts to connect.
  void open() noexcept;
  int poll(Instant now) noexcept override;
  [[nodiscard]] Instant deadline() const noexcept override;
  /// The port's descriptors; none while no frame could be taken from it.
  void wait_fds(std::vector<pollfd>& out) const override;

  [[nodiscard]] session::NetdevSession& session() noexcept { return session_; }
  [[nodiscard]] FramePort& port() noexcept { return port_; }
  [[nodiscard]] NicController& controller() noexcept { return controller_; }
  [[nodiscard]] bool carrier() const noexcept { return carrier_; }
  /// Link of the LAN NIC, as last reported by the unit.
  [[nodiscard]] bool lan_up() const noexcept { return lan_up_; }
  [[nodiscard]] CounterSet<HostCounter>& counters() noexcept { return counters_; }
  /// Puts all counters of this half on the page. False when it is full.
  bool publish(StatsPage& page, std::string_view prefix);

  void on_state(session::NetdevSession& session, session::SessionState state) noexcept override;
  void on_config_request(session::NetdevSession& session, const session::CfgRequest& request,
                         session::CfgReply& reply) noexcept override;
  void on_config_reply(session::NetdevSession& session, uint64_t transaction,
                       const session::CfgReply& reply) noexcept override;

 private:
  int deliver() noexcept;
  [[nodiscard]] bool deliver_front(const session::InboundFrame& frame) noexcept;
  int collect() noexcept;
  void apply_features(Offload features) noexcept;
  /// Settings of the interface that an administrator may change and that the unit must learn.
  struct OsSettings {
    MacAddress mac{};
    uint32_t mtu_bytes = 0;
    bool promiscuous = false;
    bool all_multicast = false;
    friend bool operator==(const OsSettings&, const OsSettings&) = default;
  };
  [[nodiscard]] OsSettings os_settings() const noexcept;
  void follow_os(const OsSettings& os) noexcept;
  void say_mtu(uint32_t mtu_bytes) const;
  void set_carrier(bool up) noexcept;

  session::NetdevSession& session_;
  FramePort& port_;
  NicController controller_;
  FrameWriter writer_;
  FrameHead head_;
  CounterSet<HostCounter> counters_;
  Instant now_{};
  Instant carrier_off_at_ = kNever;
  Offload features_ = Offload::kNone;  // in use at the port
  OsSettings os_;                      // as last handed to the controller
  bool lan_up_ = true;                 // as last reported by the unit
  bool carrier_ = true;                // as last set at the OS interface
  bool held_ = false;                  // the last claim failed: the port's frames must wait
};

}  // namespace weft::host
