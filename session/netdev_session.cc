#include "session/netdev_session.h"

#include "session/session_core.h"

namespace weft::session {

NetdevSession::NetdevSession(const SessionConfig& config, adapter::ChannelAdapter& adapter,
                             RandomSource& random)
    : core_(std::make_unique<Core>(*this, config, adapter, random)) {}
NetdevSession::~NetdevSession() = default;

void NetdevSession::set_mac(const MacAddress& mac) noexcept {
  core_->set_mac(mac);
}
void NetdevSession::set_events(SessionEvents* events) noexcept {
  core_->set_events(events);
}
void NetdevSession::open() noexcept {
  core_->open();
}
void NetdevSession::close() noexcept {
  core_->close();
}
int NetdevSession::poll(Instant now) noexcept {
  return core_->poll(now);
}
Instant NetdevSession::deadline() const noexcept {
  return core_->deadline();
}
SessionState NetdevSession::state() const noexcept {
  return core_->state();
}
bool NetdevSession::port_up() const noexcept {
  return core_->port_up();
}
const SessionPeer& NetdevSession::peer() const noexcept {
  return core_->peer();
}
SessionRefusal NetdevSession::refusal() const noexcept {
  return core_->refusal();
}
const SessionConfig& NetdevSession::config() const noexcept {
  return core_->config();
}
uint64_t NetdevSession::incarnation() const noexcept {
  return core_->incarnation();
}

std::span<std::byte> NetdevSession::claim_frame(uint32_t bytes_max) noexcept {
  return core_->claim_frame(bytes_max);
}
void NetdevSession::submit_frame(uint32_t bytes) noexcept {
  core_->submit_frame(bytes);
}
void NetdevSession::abandon_frame() noexcept {
  core_->abandon_frame();
}
void NetdevSession::flush() noexcept {
  core_->flush();
}
uint32_t NetdevSession::frame_bytes_max() const noexcept {
  return core_->frame_bytes_max();
}

const InboundFrame* NetdevSession::front_frame() noexcept {
  return core_->peek_frame(0);
}
const InboundFrame* NetdevSession::peek_frame(uint32_t index) noexcept {
  return core_->peek_frame(index);
}
void NetdevSession::release_frame() noexcept {
  core_->release_frame();
}

uint64_t NetdevSession::request_config(const CfgRequest& request) noexcept {
  return core_->request_config(request);
}
const CounterSet<SessionCounter>& NetdevSession::counters() const noexcept {
  return core_->counters();
}
const CounterSet<adapter::QpCounter>& NetdevSession::channel_counters(uint32_t channel) noexcept {
  return core_->channel_counters(channel);
}
SessionConservation NetdevSession::conservation() const noexcept {
  return core_->conservation();
}
bool NetdevSession::publish(StatsPage& page, std::string_view prefix) {
  return core_->publish(page, prefix);
}

}  // namespace weft::session
