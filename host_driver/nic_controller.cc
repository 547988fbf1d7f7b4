#include "host_driver/nic_controller.h"

#include <bit>

#include "base/log.h"

namespace weft {
namespace {

constexpr std::array<std::string_view, static_cast<size_t>(NicRequest::kCount)> kRequestNames{
    "initialise",   "set MAC",      "set MTU",         "set filters",
    "set features", "capabilities", "read statistics", "clear statistics"};

constexpr uint32_t bit(NicRequest request) noexcept {
  return 1U << static_cast<unsigned>(request);
}
constexpr uint32_t kReplayed = bit(NicRequest::kInitialise) | bit(NicRequest::kSetMac) |
                               bit(NicRequest::kSetMtu) | bit(NicRequest::kSetFilters) |
                               bit(NicRequest::kSetFeatures) | bit(NicRequest::kCapabilities);

CfgRequest mac_config(MacConfigCode code, std::span<const std::byte> data) noexcept {
  return {.request_class = CfgClass::kMacConfig, .code = static_cast<uint16_t>(code), .data = data};
}
CfgRequest utility(UtilityCode code) noexcept {
  return {.request_class = CfgClass::kUtility, .code = static_cast<uint16_t>(code), .data = {}};
}

}  // namespace

std::string_view to_string(NicRequest request) noexcept {
  const auto index = static_cast<size_t>(request);
  return index < kRequestNames.size() ? kRequestNames[index] : "unknown";
}

void NicController::set_mac(const MacAddress& mac) noexcept {
  settings_.mac = mac;
  want(NicRequest::kSetMac);
}

void NicController::set_mtu(uint32_t mtu_bytes) noexcept {
  settings_.mtu_bytes = mtu_bytes;
  want(NicRequest::kSetMtu);
}

void NicController::set_filters(const NicFilters& filters) noexcept {
  settings_.filters = filters;
  want(NicRequest::kSetFilters);
}

void NicController::set_features(Offload features) noexcept {
  settings_.features = features;
  want(NicRequest::kSetFeatures);
}

void NicController::replay() noexcept {
  counters_.add(ControllerCounter::kReplays);
  wanted_ = kReplayed;
  transaction_ = 0;
}

void NicController::forget() noexcept {
  wanted_ = 0;
  transaction_ = 0;
  granted_ = Offload::kNone;
}

CfgRequest NicController::build(NicRequest request) noexcept {
  const std::span<std::byte> room(data_);
  switch (request) {
    case NicRequest::kInitialise:
      return mac_config(MacConfigCode::kInitialise, {});
    case NicRequest::kSetMac:
      return mac_config(MacConfigCode::kSetMac, room.first(encode_mac(settings_.mac, room)));
    case NicRequest::kSetMtu:
      return mac_config(MacConfigCode::kSetMtu, room.first(encode_u32(settings_.mtu_bytes, room)));
    case NicRequest::kSetFilters:
      return mac_config(MacConfigCode::kSetFilters, room.first(encode_filters(settings_.filters, room)));
    case NicRequest::kSetFeatures:
      return mac_config(MacConfigCode::kSetFeatures,
                        room.first(encode_u32(static_cast<uint32_t>(settings_.features), room)));
    case NicRequest::kCapabilities:
      return utility(UtilityCode::kCapabilities);
    case NicRequest::kReadStatistics:
      return utility(UtilityCode::kReadStatistics);
    case NicRequest::kClearStatistics:
      return utility(UtilityCode::kClearStatistics);
    case NicRequest::kCount:
      break;
  }
  return {};
}

int NicController::poll() noexcept {
  if (wanted_ == 0 || transaction_ != 0 || session_.state() != SessionState::kOpen) return 0;
  current_ = static_cast<NicRequest>(std::countr_zero(wanted_));
  transaction_ = session_.request_config(build(current_));
  if (transaction_ == 0) return 0;
  wanted_ &= ~bit(current_);
  counters_.add(ControllerCounter::kRequests);
  return 1;
}

bool NicController::accept(NicRequest request, const CfgReply& reply) noexcept {
  switch (request) {
    case NicRequest::kSetFeatures: {
      uint32_t granted = 0;
      if (!decode_u32(reply.view(), granted)) return false;
      granted_ = static_cast<Offload>(granted) & settings_.features;
      return true;
    }
    case NicRequest::kCapabilities:
      return decode_capabilities(reply.view(), capabilities_);
    case NicRequest::kReadStatistics:
      if (!decode_statistics(reply.view(), statistics_)) return false;
      ++statistics_read_;
      return true;
    case NicRequest::kInitialise:
    case NicRequest::kSetMac:
    case NicRequest::kSetMtu:
    case NicRequest::kSetFilters:
    case NicRequest::kClearStatistics:
    case NicRequest::kCount:
      return true;
  }
  return false;
}

bool NicController::take_reply(uint64_t transaction, const CfgReply& reply) noexcept {
  if (transaction == 0 || transaction != transaction_) return false;
  transaction_ = 0;
  last_status_[static_cast<size_t>(current_)] = reply.status;
  if (reply.status == CfgStatus::kGood) {
    counters_.add(accept(current_, reply) ? ControllerCounter::kGood : ControllerCounter::kBadReply);
  } else if (reply.status == CfgStatus::kTimedOut) {
    counters_.add(ControllerCounter::kTimedOut);
    want(current_);
  } else if (reply.status != CfgStatus::kSessionLost) {
    refused(reply);
  }
  return true;
}

void NicController::refused(const CfgReply& reply) noexcept {
  uint32_t limit = 0;
  if (reply.status == CfgStatus::kLimited && current_ == NicRequest::kSetMtu &&
      decode_u32(reply.view(), limit)) {
    counters_.add(ControllerCounter::kLimited);
    log(LogLevel::kWarn,
        "MTU {} is more than the unit's NIC has, {}: longer frames are dropped there until "
        "that is raised, too",
        settings_.mtu_bytes, limit);
    return;
  }
  counters_.add(reply.status == CfgStatus::kNotPermitted ? ControllerCounter::kRefused
                                                         : ControllerCounter::kFailed);
  log(LogLevel::kWarn, "unit answered '{}' to {}", to_string(reply.status), to_string(current_));
}

}  // namespace weft
