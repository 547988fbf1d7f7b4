// iou_driver/nic_config_service.h -- controller configuration services of the unit half (PUSH-DRV-06):
// receives the hosts' MAC configuration and utility requests and applies them to the LAN NIC (PUSH-CFG-03,
// decisions 2.20).
#pragma once

#include <cstdint>
#include <span>

#include "base/counters.h"
#include "base/net/frame_port.h"
#include "iou_driver/unit_client.h"
#include "session/netdev_session.h"

namespace weft::iou {

struct NicPolicy {
  bool bridge = false;  // frames with a foreign source address may pass
  bool promiscuous_allowed = false;
  bool program_nic_mac =
      true;  // a single host's address is set at the NIC itself; else the NIC keeps its own
};

enum class ConfigCounter : uint8_t {
  kApplied,
  kUnknown,  // class or code
  kBadData,
  kMacTaken,  // by another host, or by the NIC
  kPromiscuousRefused,
  kNicRefused,
  kMtuLimited,  // the NIC's own MTU is smaller than a host wants, and could not be changed
  kCount,
};
[[nodiscard]] constexpr CounterNames<ConfigCounter> counter_labels(ConfigCounter /*of*/) noexcept {
  return {"applied", "unknown", "bad_data", "mac_taken", "promiscuous_refused", "nic_refused", "mtu_limited"};
}

/// Owner: the unit's thread. The NIC outlives it.
class NicConfigService {
 public:
  NicConfigService(FramePort& nic, const NicPolicy& policy) noexcept : nic_(nic), policy_(policy) {}

  /// Carries out one request of `client`; `all` are the unit's clients, for requests that concern several of
  /// them.
  void apply(UnitClient& client, std::span<const UnitClient> all, const session::CfgRequest& request,
             session::CfgReply& reply) noexcept;
  /// True for the address of a NIC that keeps it, because a network stack behind it uses it.
  [[nodiscard]] bool is_nics_own(const MacAddress& mac) const noexcept {
    return !policy_.program_nic_mac && nic_.info().mac == mac;
  }
  [[nodiscard]] CounterSet<ConfigCounter>& counters() noexcept { return counters_; }

 private:
  CfgStatus apply_mac_config(UnitClient& client, std::span<const UnitClient> all,
                             const session::CfgRequest& request, session::CfgReply& reply) noexcept;
  CfgStatus apply_utility(UnitClient& client, const session::CfgRequest& request,
                          session::CfgReply& reply) noexcept;
  CfgStatus initialise(UnitClient& client) noexcept;
  CfgStatus set_mac(UnitClient& client, std::span<const UnitClient> all,
                    const session::CfgRequest& request) noexcept;
  CfgStatus set_mtu(UnitClient& client, const session::CfgRequest& request,
                    session::CfgReply& reply) noexcept;
  CfgStatus set_filters(UnitClient& client, std::span<const UnitClient> all,
                        const session::CfgRequest& request) noexcept;
  CfgStatus set_features(UnitClient& client, const session::CfgRequest& request,
                         session::CfgReply& reply) noexcept;
  void count(CfgStatus status) noexcept;

  FramePort& nic_;
  NicPolicy policy_;
  CounterSet<ConfigCounter> counters_;
};

/// True when the host of another session has this address, also one whose session is being opened.
[[nodiscard]] bool mac_taken(const MacAddress& mac, const UnitClient* self,
                             std::span<const UnitClient> all) noexcept;

}  // namespace weft::iou
