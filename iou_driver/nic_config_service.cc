#include "iou_driver/nic_config_service.h"

#include <utility>

#include "base/log.h"
#include "base/net/ethernet.h"
#include "messages/netdev.h"

namespace weft::iou {
namespace {

constexpr uint32_t kMtuBytesMin = 68;

uint32_t present_count(std::span<const UnitClient> all) noexcept {
  uint32_t count = 0;
  for (const UnitClient& client : all) count += client.present ? 1 : 0;
  return count;
}

}  // namespace

bool mac_taken(const MacAddress& mac, const UnitClient* self, std::span<const UnitClient> all) noexcept {
  for (const UnitClient& client : all) {
    if (&client != self && client.present && client.mac == mac) return true;
  }
  return false;
}

void NicConfigService::count(CfgStatus status) noexcept {
  switch (status) {
    case CfgStatus::kGood:
      counters_.add(ConfigCounter::kApplied);
      break;
    case CfgStatus::kUnknownRequest:
      counters_.add(ConfigCounter::kUnknown);
      break;
    case CfgStatus::kBadData:
      counters_.add(ConfigCounter::kBadData);
      break;
    case CfgStatus::kFailed:
      counters_.add(ConfigCounter::kNicRefused);
      break;
    case CfgStatus::kLimited:
      counters_.add(ConfigCounter::kMtuLimited);
      break;
    case CfgStatus::kNotPermitted:
    case CfgStatus::kTimedOut:
    case CfgStatus::kSessionLost:
      break;  // counted elsewhere, or never sent
  }
}

void NicConfigService::apply(UnitClient& client, std::span<const UnitClient> all,
                             const session::CfgRequest& request, session::CfgReply& reply) noexcept {
  reply.status = CfgStatus::kUnknownRequest;
  if (request.request_class == CfgClass::kMacConfig) {
    reply.status = apply_mac_config(client, all, request, reply);
  } else if (request.request_class == CfgClass::kUtility) {
    reply.status = apply_utility(client, request, reply);
  }
  count(reply.status);
}

CfgStatus NicConfigService::apply_mac_config(UnitClient& client, std::span<const UnitClient> all,
                                             const session::CfgRequest& request,
                                             session::CfgReply& reply) noexcept {
  switch (static_cast<MacConfigCode>(request.code)) {
    case MacConfigCode::kInitialise:
      return request.data.empty() ? initialise(client) : CfgStatus::kBadData;
    case MacConfigCode::kSetMac:
      return set_mac(client, all, request);
    case MacConfigCode::kGetMac:
      reply.bytes = encode_mac(client.mac, reply.data);
      return CfgStatus::kGood;
    case MacConfigCode::kSetMtu:
      return set_mtu(client, request, reply);
    case MacConfigCode::kGetMtu:
      reply.bytes = encode_u32(client.mtu_in_force(nic_.info().mtu_bytes), reply.data);
      return CfgStatus::kGood;
    case MacConfigCode::kSetFilters:
      return set_filters(client, all, request);
    case MacConfigCode::kSetFeatures:
      return set_features(client, request, reply);
  }
  return CfgStatus::kUnknownRequest;
}

CfgStatus NicConfigService::apply_utility(UnitClient& client, const session::CfgRequest& request,
                                          session::CfgReply& reply) noexcept {
  switch (static_cast<UtilityCode>(request.code)) {
    case UtilityCode::kReadStatistics:
      reply.bytes = encode_statistics(client.statistics, reply.data);
      return CfgStatus::kGood;
    case UtilityCode::kClearStatistics:
      client.statistics = {};
      return CfgStatus::kGood;
    case UtilityCode::kCapabilities: {
      const FramePortInfo& info = nic_.info();
      reply.bytes = encode_capabilities(
          {.offloads = info.offloads, .mtu_bytes = info.mtu_bytes, .frame_bytes_max = info.frame_bytes_max},
          reply.data);
      return CfgStatus::kGood;
    }
    case UtilityCode::kLinkState: {
      uint32_t up = 0;
      return decode_u32(request.data, up) && up <= 1 ? CfgStatus::kGood : CfgStatus::kBadData;
    }
    case UtilityCode::kKeepalive:
      return CfgStatus::kGood;  // answered by the session before it comes here
  }
  return CfgStatus::kUnknownRequest;
}

CfgStatus NicConfigService::initialise(UnitClient& client) noexcept {
  client.filters = {};
  client.mtu_bytes = nic_.info().mtu_bytes;
  client.features = client.session->peer().features;
  return CfgStatus::kGood;
}

CfgStatus NicConfigService::set_mac(UnitClient& client, std::span<const UnitClient> all,
                                    const session::CfgRequest& request) noexcept {
  MacAddress mac{};
  if (!decode_mac(request.data, mac)) return CfgStatus::kBadData;
  if (is_nics_own(mac) || mac_taken(mac, &client, all)) {
    counters_.add(ConfigCounter::kMacTaken);
    return CfgStatus::kNotPermitted;
  }
  if (policy_.program_nic_mac && present_count(all) == 1) {
    const Status set = nic_.set_mac(mac);
    if (!set.ok()) {
      log(LogLevel::kWarn, "{}", set.error().text);
      return CfgStatus::kFailed;
    }
  }
  client.mac = mac;
  client.session->set_peer_mac(mac);
  return CfgStatus::kGood;
}

/// Keeps the host's wish; while the NIC's own MTU is smaller, that one is in force. Raising the MTU of a
/// kernel interface fails, because it needs a capability that was dropped (docs/split_driver.md, Rights).
CfgStatus NicConfigService::set_mtu(UnitClient& client, const session::CfgRequest& request,
                                    session::CfgReply& reply) noexcept {
  uint32_t mtu = 0;
  if (!decode_u32(request.data, mtu) || mtu < kMtuBytesMin) return CfgStatus::kBadData;
  client.mtu_bytes = mtu;
  const FramePortInfo& nic = nic_.info();
  if (mtu <= nic.mtu_bytes) return CfgStatus::kGood;
  const Status set = nic_.set_mtu(mtu);
  if (set.ok()) return CfgStatus::kGood;
  if (!std::exchange(client.mtu_told, true)) {
    log(LogLevel::kWarn,
        "host lid {} wants MTU {}, the NIC has {}: longer frames are dropped until the MTU of {} {} is "
        "raised, in the topology or by `ip link set`; that takes effect at once ({})",
        client.session->peer().lid.value(), mtu, nic.mtu_bytes, nic.kind, nic.name, set.error().text);
  }
  reply.bytes = encode_u32(nic.mtu_bytes, reply.data);
  return CfgStatus::kLimited;
}

CfgStatus NicConfigService::set_filters(UnitClient& client, std::span<const UnitClient> all,
                                        const session::CfgRequest& request) noexcept {
  NicFilters filters;
  if (!decode_filters(request.data, filters)) return CfgStatus::kBadData;
  if (filters.promiscuous && !policy_.promiscuous_allowed) {
    counters_.add(ConfigCounter::kPromiscuousRefused);
    return CfgStatus::kNotPermitted;
  }
  bool promiscuous = filters.promiscuous;
  for (const UnitClient& other : all)
    promiscuous = promiscuous || (&other != &client && other.active && other.filters.promiscuous);
  const Status set = nic_.set_promiscuous(promiscuous);
  if (!set.ok()) {
    log(LogLevel::kWarn, "{}", set.error().text);
    return CfgStatus::kFailed;
  }
  client.filters = filters;
  return CfgStatus::kGood;
}

CfgStatus NicConfigService::set_features(UnitClient& client, const session::CfgRequest& request,
                                         session::CfgReply& reply) noexcept {
  uint32_t wanted = 0;
  if (!decode_u32(request.data, wanted) || (wanted & ~static_cast<uint32_t>(kOffloadsAll)) != 0) {
    return CfgStatus::kBadData;
  }
  client.features = static_cast<Offload>(wanted) & client.session->peer().features & nic_.info().offloads;
  reply.bytes = encode_u32(static_cast<uint32_t>(client.features), reply.data);
  return CfgStatus::kGood;
}

}  // namespace weft::iou
