// How it works, one turn: the port's own timers, the session (completions, messages), inbound frames to the
// OS, frames of the OS to the session, one flush. Inbound: front_frame() names an element; its head is copied
// and checked, then head and rest go to the port; while the port is busy the element is kept, which is the
// back-pressure on the unit. Outbound: without a claim no frame is read, so the OS queues or drops it, as for
// a busy NIC.
#include "host_driver/host_netdev.h"

#include <algorithm>

#include "base/log.h"

namespace weft::host {
namespace {

/// Retry interval for a busy OS interface, because no descriptor reports when it is free.
constexpr Duration kBusyRetry = std::chrono::microseconds(50);

}  // namespace

HostNetdev::HostNetdev(session::NetdevSession& session, FramePort& port, const NicSettings& settings)
    : session_(session), port_(port), controller_(session, settings), writer_(port) {
  session_.set_events(this);
  os_.mac = port.info().mac;
  os_.mtu_bytes = port.info().mtu_bytes;
  say_mtu(os_.mtu_bytes);
  carrier_ = true;
  set_carrier(false);
}

HostNetdev::~HostNetdev() {
  session_.set_events(nullptr);
}

void HostNetdev::open() noexcept {
  session_.open();
}

bool HostNetdev::publish(StatsPage& page, std::string_view prefix) {
  const std::string name(prefix);
  return page.publish(name + ".driver", counters_) && page.publish(name + ".os", port_.counters()) &&
         page.publish(name + ".writer", writer_.counters()) &&
         page.publish(name + ".config", controller_.counters()) && session_.publish(page, name + ".session");
}

int HostNetdev::poll(Instant now) noexcept {
  now_ = now;
  int work = port_.poll(now);
  if (const OsSettings os = os_settings(); os != os_) [[unlikely]]
    follow_os(os);
  work += session_.poll(now);
  work += deliver();
  work += collect();
  work += controller_.poll(now);
  session_.flush();
  if (now >= carrier_off_at_) [[unlikely]] {
    carrier_off_at_ = kNever;
    set_carrier(false);
  }
  return work;
}

int HostNetdev::deliver() noexcept {
  if (writer_.holding() && !writer_.flush()) {
    counters_.add(HostCounter::kOsBusyTurns);
    return 0;
  }
  int delivered = 0;
  for (uint32_t i = 0; i < kHostWritesPerPoll; ++i) {
    const session::InboundFrame* frame = session_.front_frame();
    if (frame == nullptr || !deliver_front(*frame)) break;
    session_.release_frame();
    ++delivered;
  }
  return delivered;
}

/// False if the frame must be offered again.
bool HostNetdev::deliver_front(const session::InboundFrame& frame) noexcept {
  if (!copy_head(frame.bytes, head_) ||
      check_vnet(head_.vnet, head_.frame(), head_.frame_bytes) != VnetError::kNone) {
    counters_.add(HostCounter::kBadVnetHeader);
    return true;
  }
  switch (writer_.write(head_, frame.bytes.subspan(head_.size))) {
    case FrameIo::kOk:
      counters_.add(HostCounter::kFramesToOs);
      return true;
    case FrameIo::kBusy:
      counters_.add(HostCounter::kOsBusyTurns);
      return false;
    case FrameIo::kDown:
      counters_.add(HostCounter::kOsDown);
      return true;
    case FrameIo::kDropped:
    case FrameIo::kEmpty:
      counters_.add(HostCounter::kOsRefused);
      return true;
  }
  return true;
}

int HostNetdev::collect() noexcept {
  held_ = true;
  if (session_.state() != session::SessionState::kOpen) return 0;
  const uint32_t wanted = std::min(session_.frame_bytes_max(), kVnetBytes + port_.info().frame_bytes_max);
  int collected = 0;
  for (uint32_t i = 0; i < kHostReadsPerPoll; ++i) {
    const std::span<std::byte> into = session_.claim_frame(wanted);
    if (into.empty()) {
      counters_.add(HostCounter::kNoElementTurns);
      return collected;
    }
    const FrameReadResult got = port_.read_frame(into);
    if (got.io == FrameIo::kOk) {
      session_.submit_frame(got.bytes);
      counters_.add(HostCounter::kFramesToUnit);
      ++collected;
      continue;
    }
    session_.abandon_frame();
    if (got.io != FrameIo::kDropped) break;
    counters_.add(HostCounter::kReadRefused);
  }
  held_ = false;
  return collected;
}

Instant HostNetdev::deadline() const noexcept {
  Instant next = std::min({session_.deadline(), carrier_off_at_, controller_.deadline()});
  if (!held_) next = std::min(next, port_.deadline());
  if (held_ && port_.deadline() != kNever)
    next = std::min(next, std::max(port_.deadline(), now_ + kBusyRetry * 20));
  if (writer_.holding()) next = std::min(next, now_ + kBusyRetry);
  return next;
}

void HostNetdev::wait_fds(std::vector<pollfd>& out) const {
  if (!held_) port_.wait_fds(out);
}

void HostNetdev::set_carrier(bool up) noexcept {
  if (up == carrier_) return;
  carrier_ = up;
  port_.set_carrier(up);
  counters_.add(up ? HostCounter::kCarrierUp : HostCounter::kCarrierDown);
}

HostNetdev::OsSettings HostNetdev::os_settings() const noexcept {
  const FramePortInfo& info = port_.info();
  return {.mac = info.mac,
          .mtu_bytes = info.mtu_bytes,
          .promiscuous = info.promiscuous,
          .all_multicast = info.all_multicast};
}

void HostNetdev::say_mtu(uint32_t mtu_bytes) const {
  if (mtu_bytes <= kMtuBytesMax) return;
  const FramePortInfo& info = port_.info();
  log(LogLevel::kWarn,
      "{} {} has MTU {}, the fabric carries {}: longer frames are dropped by the unit; ip link set dev {} "
      "mtu {}",
      info.kind, info.name, mtu_bytes, kMtuBytesMax, info.name, kMtuBytesMax);
}

/// Sends changed settings of the interface to the unit.
void HostNetdev::follow_os(const OsSettings& os) noexcept {
  if (os.mtu_bytes != os_.mtu_bytes) say_mtu(os.mtu_bytes);
  if (os.mtu_bytes != os_.mtu_bytes) controller_.set_mtu(std::min(os.mtu_bytes, kMtuBytesMax));
  if (os.mac != os_.mac) {
    session_.set_mac(os.mac);
    controller_.set_mac(os.mac);
  }
  if (os.promiscuous != os_.promiscuous || os.all_multicast != os_.all_multicast)
    controller_.set_os_filters(os.promiscuous, os.all_multicast);
  os_ = os;
}

void HostNetdev::apply_features(Offload features) noexcept {
  const Offload usable = features & port_.info().offloads;
  if (usable == features_) return;
  const Status set = port_.set_offloads(usable);
  if (set.ok()) {
    features_ = usable;
  } else {
    counters_.add(HostCounter::kOsOffloadErrors);
    log(LogLevel::kWarn, "{}", set.error().text);
  }
}

void HostNetdev::on_state(session::NetdevSession& session, session::SessionState state) noexcept {
  if (state == session::SessionState::kOpen) {
    lan_up_ = true;
    carrier_off_at_ = kNever;
    apply_features(session.peer().features);
    controller_.replay();
    set_carrier(true);
  } else if (state == session::SessionState::kLost || state == session::SessionState::kIdle) {
    controller_.forget();
    if (carrier_ && carrier_off_at_ == kNever) carrier_off_at_ = now_ + kCarrierGrace;
  }
}

void HostNetdev::on_config_request(session::NetdevSession&, const session::CfgRequest& request,
                                   session::CfgReply& reply) noexcept {
  const bool utility = request.request_class == CfgClass::kUtility;
  uint32_t value = 0;
  if (utility && request.code == static_cast<uint16_t>(UtilityCode::kLinkState)) {
    if (!decode_u32(request.data, value) || value > 1) {
      counters_.add(HostCounter::kBadRequests);
      reply.status = CfgStatus::kBadData;
      return;
    }
    lan_up_ = value == 1;
    set_carrier(lan_up_);
  } else if (utility && request.code == static_cast<uint16_t>(UtilityCode::kCapabilities)) {
    const FramePortInfo& info = port_.info();
    reply.bytes = encode_capabilities(
        {.offloads = info.offloads, .mtu_bytes = info.mtu_bytes, .frame_bytes_max = info.frame_bytes_max},
        reply.data);
  } else {
    counters_.add(HostCounter::kUnknownRequests);
    reply.status = CfgStatus::kUnknownRequest;
  }
}

void HostNetdev::on_config_reply(session::NetdevSession& session, uint64_t transaction,
                                 const session::CfgReply& reply) noexcept {
  if (!controller_.take_reply(transaction, reply)) return;
  const bool features = controller_.last_status(NicRequest::kSetFeatures) == CfgStatus::kGood &&
                        session.state() == session::SessionState::kOpen &&
                        controller_.granted() != Offload::kNone;
  if (features) apply_features(controller_.granted() & session.peer().features);
}

}  // namespace weft::host
