// host_driver/nic_controller.h -- controller configuration services of the host half (PUSH-DRV-06): sends MAC
// configuration and utility requests for the LAN NIC over the session, one at a time, and replays all
// settings whenever the session opens (decisions 2.21).
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "base/clock.h"
#include "base/counters.h"
#include "base/net/frame_port.h"
#include "messages/cfg_data.h"
#include "session/netdev_session.h"

namespace weft::host {

/// Retry interval for an address that another host of the unit has. In a fail-over that host may release it
/// after we have asked.
inline constexpr Duration kAskMacEvery = std::chrono::milliseconds(500);
/// Largest MTU of jumbo frames.
inline constexpr uint32_t kMtuBytesMax = 9000;

/// The message if a host requests all frames of the LAN and the unit does not allow it, with the remedy.
inline constexpr std::string_view kPromiscuousRefused =
    "the unit does not allow promiscuous mode: in its entry of the topology write bridge = true if something "
    "behind this host bridges, promiscuous = \"allowed\" if it is to hear the LAN; then weft down and weft "
    "up";

/// The settings that the host wants at the NIC.
struct NicSettings {
  MacAddress mac{};
  uint32_t mtu_bytes = 1500;
  NicFilters filters;
  Offload features = Offload::kNone;
};

enum class NicRequest : uint8_t {
  kInitialise,
  kSetMac,
  kSetMtu,
  kSetFilters,
  kSetFeatures,
  kCapabilities,
  kGetMac,
  kGetMtu,
  kReadStatistics,
  kClearStatistics,
  kCount,
};
[[nodiscard]] std::string_view to_string(NicRequest request) noexcept;

enum class ControllerCounter : uint8_t {
  kReplays,
  kRequests,
  kGood,
  kRefused,
  kFailed,
  kLimited,
  kTimedOut,
  kBadReply,
  kCount
};
[[nodiscard]] constexpr CounterNames<ControllerCounter> counter_labels(ControllerCounter /*of*/) noexcept {
  return {"replays", "requests", "good", "refused", "failed", "limited", "timed_out", "bad_reply"};
}

/// Owner: the host's thread. The session outlives it.
class NicController {
 public:
  NicController(session::NetdevSession& session, const NicSettings& settings) noexcept
      : session_(session), settings_(settings) {}

  /// Each setter keeps the setting for later replays and sends it if the session is open.
  void set_mac(const MacAddress& mac) noexcept;
  void set_mtu(uint32_t mtu_bytes) noexcept;
  void set_filters(const NicFilters& filters) noexcept;
  void set_features(Offload features) noexcept;
  /// The filters switched on at the OS interface; they apply in addition to settings().filters.
  void set_os_filters(bool promiscuous, bool all_multicast) noexcept;
  void read_statistics() noexcept { want(NicRequest::kReadStatistics); }
  void clear_statistics() noexcept { want(NicRequest::kClearStatistics); }
  /// Requests everything that the unit reports: capabilities, MAC, MTU, statistics.
  void refresh() noexcept;

  /// Sends all settings again, after the session has opened.
  void replay() noexcept;
  /// Stops sending until replay(), after the session was lost.
  void forget() noexcept;
  /// Sends the next request if none is outstanding. Returns work done.
  int poll(Instant now) noexcept;
  [[nodiscard]] Instant deadline() const noexcept { return ask_mac_at_; }
  /// Takes the reply of one of its own transactions; false when the transaction is not its own.
  bool take_reply(uint64_t transaction, const session::CfgReply& reply) noexcept;

  /// True if all wanted requests have been answered.
  [[nodiscard]] bool settled() const noexcept { return wanted_ == 0 && transaction_ == 0; }
  [[nodiscard]] const NicSettings& settings() const noexcept { return settings_; }
  /// Features that the unit granted last; none before the first grant.
  [[nodiscard]] Offload granted() const noexcept { return granted_; }
  /// Valid once statistics_read() has grown.
  [[nodiscard]] const NicStatistics& statistics() const noexcept { return statistics_; }
  [[nodiscard]] uint64_t statistics_read() const noexcept { return statistics_read_; }
  [[nodiscard]] const NicCapabilities& capabilities() const noexcept { return capabilities_; }
  /// From the unit's last answers: the host's address there, and the MTU in force.
  [[nodiscard]] const MacAddress& mac() const noexcept { return mac_; }
  [[nodiscard]] uint32_t mtu_bytes() const noexcept { return mtu_bytes_; }
  /// In force at the unit.
  [[nodiscard]] const NicFilters& filters() const noexcept { return filters_; }
  /// True if promiscuous mode is wanted and the unit does not allow it.
  [[nodiscard]] bool promiscuous_refused() const noexcept { return promiscuous_refused_; }
  /// Status of the last reply to `request`.
  [[nodiscard]] CfgStatus last_status(NicRequest request) const noexcept {
    return last_status_[static_cast<size_t>(request)];
  }
  [[nodiscard]] CounterSet<ControllerCounter>& counters() noexcept { return counters_; }

 private:
  void want(NicRequest request) noexcept { wanted_ |= 1U << static_cast<unsigned>(request); }
  [[nodiscard]] session::CfgRequest build(NicRequest request) noexcept;
  [[nodiscard]] bool accept(NicRequest request, const session::CfgReply& reply) noexcept;
  void refused(const session::CfgReply& reply) noexcept;
  [[nodiscard]] NicFilters wanted_filters() const noexcept;

  session::NetdevSession& session_;
  NicSettings settings_;
  uint32_t wanted_ = 0;  // bit per NicRequest, sent lowest first
  NicRequest current_ = NicRequest::kCount;
  uint64_t transaction_ = 0;
  std::array<std::byte, kNicFiltersBytesMax> data_{};
  Offload granted_ = Offload::kNone;
  NicStatistics statistics_;
  uint64_t statistics_read_ = 0;
  NicCapabilities capabilities_;
  MacAddress mac_{};
  uint32_t mtu_bytes_ = 0;
  bool os_promiscuous_ = false;
  bool os_all_multicast_ = false;
  bool promiscuous_refused_ = false;
  Instant now_{};
  Instant ask_mac_at_ = kNever;  // when to ask again for an address that another host of the unit has
  bool mac_refused_ = false;     // and this was logged
  NicFilters sent_filters_;      // of the last kSetFilters
  NicFilters filters_;
  std::array<CfgStatus, static_cast<size_t>(NicRequest::kCount)> last_status_{};
  CounterSet<ControllerCounter> counters_;
};

}  // namespace weft::host
