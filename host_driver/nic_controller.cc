#include "host_driver/nic_controller.h"

#include <bit>
#include <utility>

#include "base/log.h"

namespace weft::host {
namespace {

constexpr std::array<std::string_view, static_cast<size_t>(NicRequest::kCount)> kRequestNames{
    "initialise",   "set MAC", "set MTU", "set filters",     "set features",
    "capabilities", "get MAC", "get MTU", "read statistics", "clear statistics"};

constexpr uint32_t bit(NicRequest request) noexcept {
  return 1U << static_cast<unsigned>(request);
}
constexpr uint32_t kReplayed = bit(NicRequest::kInitialise) | bit(NicRequest::kSetMac) |
                               bit(NicRequest::kSetMtu) | bit(NicRequest::kSetFilters) |
                               bit(NicRequest::kSetFeatures) | bit(NicRequest::kCapabilities);

session::CfgRequest mac_config(MacConfigCode code, std::span<const std::byte> data) noexcept {
  return {.request_class = CfgClass::kMacConfig, .code = static_cast<uint16_t>(code), .data = data};
}
session::CfgRequest utility(UtilityCode code) noexcept {
  return {.request_class = CfgClass::kUtility, .code = static_cast<uint16_t>(code), .data = {}};
}

}  // namespace

std::string_view to_string(NicRequest request) noexcept {
  const auto index = static_cast<size_t>(request);
  return index < kRequestNames.size() ? kRequestNames[index] : "unknown";
}

void NicController::set_mac(const MacAddress& mac) noexcept {
  settings_.mac = mac;
  mac_refused_ = false;
  want(NicRequest::kSetMac);
}

void NicController::set_mtu(uint32_t mtu_bytes) noexcept {
  settings_.mtu_bytes = mtu_bytes;
  want(NicRequest::kSetMtu);
}

void NicController::set_filters(const NicFilters& filters) noexcept {
  settings_.filters = filters;
  promiscuous_refused_ = false;
  want(NicRequest::kSetFilters);
}

void NicController::set_os_filters(bool promiscuous, bool all_multicast) noexcept {
  os_promiscuous_ = promiscuous;
  os_all_multicast_ = all_multicast;
  promiscuous_refused_ = false;
  want(NicRequest::kSetFilters);
}

void NicController::set_features(Offload features) noexcept {
  settings_.features = features;
  want(NicRequest::kSetFeatures);
}

void NicController::refresh() noexcept {
  want(NicRequest::kCapabilities);
  want(NicRequest::kGetMac);
  want(NicRequest::kGetMtu);
  want(NicRequest::kReadStatistics);
}

void NicController::replay() noexcept {
  counters_.add(ControllerCounter::kReplays);
  wanted_ = kReplayed;
  transaction_ = 0;
  ask_mac_at_ = kNever;
  promiscuous_refused_ = false;
}

void NicController::forget() noexcept {
  wanted_ = 0;
  transaction_ = 0;
  ask_mac_at_ = kNever;
  granted_ = Offload::kNone;
}

NicFilters NicController::wanted_filters() const noexcept {
  NicFilters filters = settings_.filters;
  filters.promiscuous = (filters.promiscuous || os_promiscuous_) && !promiscuous_refused_;
  filters.all_multicast = filters.all_multicast || os_all_multicast_;
  return filters;
}

session::CfgRequest NicController::build(NicRequest request) noexcept {
  const std::span<std::byte> room(data_);
  switch (request) {
    case NicRequest::kInitialise:
      return mac_config(MacConfigCode::kInitialise, {});
    case NicRequest::kSetMac:
      return mac_config(MacConfigCode::kSetMac, room.first(encode_mac(settings_.mac, room)));
    case NicRequest::kSetMtu:
      return mac_config(MacConfigCode::kSetMtu, room.first(encode_u32(settings_.mtu_bytes, room)));
    case NicRequest::kSetFilters:
      sent_filters_ = wanted_filters();
      return mac_config(MacConfigCode::kSetFilters, room.first(encode_filters(sent_filters_, room)));
    case NicRequest::kSetFeatures:
      return mac_config(MacConfigCode::kSetFeatures,
                        room.first(encode_u32(static_cast<uint32_t>(settings_.features), room)));
    case NicRequest::kCapabilities:
      return utility(UtilityCode::kCapabilities);
    case NicRequest::kGetMac:
      return mac_config(MacConfigCode::kGetMac, {});
    case NicRequest::kGetMtu:
      return mac_config(MacConfigCode::kGetMtu, {});
    case NicRequest::kReadStatistics:
      return utility(UtilityCode::kReadStatistics);
    case NicRequest::kClearStatistics:
      return utility(UtilityCode::kClearStatistics);
    case NicRequest::kCount:
      break;
  }
  return {};
}

int NicController::poll(Instant now) noexcept {
  now_ = now;
  if (now >= ask_mac_at_) [[unlikely]] {
    ask_mac_at_ = kNever;
    want(NicRequest::kSetMac);
  }
  if (wanted_ == 0 || transaction_ != 0 || session_.state() != session::SessionState::kOpen) return 0;
  current_ = static_cast<NicRequest>(std::countr_zero(wanted_));
  transaction_ = session_.request_config(build(current_));
  if (transaction_ == 0) return 0;
  wanted_ &= ~bit(current_);
  counters_.add(ControllerCounter::kRequests);
  return 1;
}

bool NicController::accept(NicRequest request, const session::CfgReply& reply) noexcept {
  switch (request) {
    case NicRequest::kSetFeatures: {
      uint32_t granted = 0;
      if (!decode_u32(reply.view(), granted)) return false;
      granted_ = static_cast<Offload>(granted) & settings_.features;
      return true;
    }
    case NicRequest::kCapabilities:
      return decode_capabilities(reply.view(), capabilities_);
    case NicRequest::kGetMac:
      return decode_mac(reply.view(), mac_);
    case NicRequest::kGetMtu:
      return decode_u32(reply.view(), mtu_bytes_);
    case NicRequest::kReadStatistics:
      if (!decode_statistics(reply.view(), statistics_)) return false;
      ++statistics_read_;
      return true;
    case NicRequest::kInitialise:
      filters_ = {};
      return true;
    case NicRequest::kSetFilters:
      filters_ = sent_filters_;
      return true;
    case NicRequest::kSetMac:
      if (std::exchange(mac_refused_, false)) log(LogLevel::kInfo, "the unit has taken the address now");
      return true;
    case NicRequest::kSetMtu:
    case NicRequest::kClearStatistics:
    case NicRequest::kCount:
      return true;
  }
  return false;
}

bool NicController::take_reply(uint64_t transaction, const session::CfgReply& reply) noexcept {
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

void NicController::refused(const session::CfgReply& reply) noexcept {
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
  if (current_ == NicRequest::kSetFilters && reply.status == CfgStatus::kNotPermitted &&
      sent_filters_.promiscuous) {
    log(LogLevel::kWarn, "{}", kPromiscuousRefused);
    promiscuous_refused_ = true;
    want(NicRequest::kSetFilters);  // again, without promiscuous mode
    return;
  }
  if (current_ == NicRequest::kSetMac && reply.status == CfgStatus::kNotPermitted) {
    ask_mac_at_ = now_ + kAskMacEvery;
    if (std::exchange(mac_refused_, true)) return;
  }
  log(LogLevel::kWarn, "unit answered '{}' to {}", to_string(reply.status), to_string(current_));
}

}  // namespace weft::host
