#include "session/endpoint.h"

#include <algorithm>
#include <string>

#include "base/check.h"
#include "base/stats_page.h"

namespace weft::session {

namespace {

/// Pools in the order of their element size.
SessionConfig sorted(SessionConfig config) {
  WEFT_CHECK(!config.pools.empty(), "a session needs a pool class");
  std::stable_sort(config.pools.begin(), config.pools.end(),
                   [](const PoolClass& a, const PoolClass& b) { return a.element_bytes < b.element_bytes; });
  return config;
}

}  // namespace

std::unique_ptr<NetdevSession> NetdevSession::make(const SessionConfig& config, SessionPorts& ports,
                                                   RandomSource& random) {
  return std::make_unique<SessionEndpoint>(config, ports, random);
}

SessionEndpoint::SessionEndpoint(const SessionConfig& config, SessionPorts& ports, RandomSource& random)
    : context_(*this, sorted(config), ports, random), connection_(context_) {}

int SessionEndpoint::poll(Instant now) noexcept {
  context_.now = now;
  return connection_.poll();
}

bool SessionEndpoint::port_up() const noexcept {
  return context_.adapter.ports().up(context_.config.port);
}

// ---- outbound -----------------------------------------------------------------------------------

std::span<std::byte> SessionEndpoint::claim_frame(uint32_t bytes_max) noexcept {
  Incarnation* incarnation = connection_.incarnation();
  if (incarnation == nullptr) return {};
  if (context_.state != SessionState::kOpen) {
    incarnation->outbound().abandon();
    return {};
  }
  return incarnation->outbound().claim(bytes_max);
}

void SessionEndpoint::submit_frame(uint32_t bytes) noexcept {
  if (Incarnation* incarnation = connection_.incarnation()) incarnation->outbound().submit(bytes);
}

void SessionEndpoint::abandon_frame() noexcept {
  if (Incarnation* incarnation = connection_.incarnation()) incarnation->outbound().abandon();
}

void SessionEndpoint::flush() noexcept {
  if (Incarnation* incarnation = connection_.incarnation()) incarnation->outbound().flush();
}

uint32_t SessionEndpoint::frame_bytes_max() const noexcept {
  const Incarnation* incarnation = connection_.incarnation();
  if (incarnation == nullptr || context_.state != SessionState::kOpen) return 0;
  return incarnation->outbound().frame_bytes_max();
}

// ---- inbound ------------------------------------------------------------------------------------

const InboundFrame* SessionEndpoint::peek_frame(uint32_t index) noexcept {
  Inbound* inbound = behind_earlier() ? nullptr : connection_.inbound();
  return inbound != nullptr ? inbound->peek(index) : nullptr;
}

void SessionEndpoint::release_frame() noexcept {
  Inbound* inbound = connection_.inbound();
  if (inbound == nullptr) return;
  inbound->release();
  if (!live() && inbound->empty()) connection_.drop_leftovers();
}

void SessionEndpoint::follow(const SessionEndpoint& earlier) noexcept {
  earlier_ = &earlier;
  earlier_incarnation_ = earlier.incarnation();
}

/// True while the driver must first take frames of this host's earlier session. A host that died and came
/// back is one flow, so its frames stay in order (decisions 2.25).
bool SessionEndpoint::behind_earlier() noexcept {
  if (earlier_ == nullptr) return false;
  if (earlier_->incarnation() == earlier_incarnation_ && earlier_->holds_frames()) return true;
  earlier_ = nullptr;
  return false;
}

bool SessionEndpoint::holds_frames() const noexcept {
  const Inbound* inbound = connection_.inbound();
  return inbound != nullptr && !inbound->empty();
}

void SessionEndpoint::drop_frames() noexcept {
  Inbound* inbound = connection_.inbound();
  if (inbound == nullptr) return;
  inbound->drop_all();
  if (!live()) connection_.drop_leftovers();
}

// ---- unit ---------------------------------------------------------------------------------------

Status SessionEndpoint::accept(const SessionDatagram& request, const SessionPeer& peer, Instant now) {
  context_.now = now;
  earlier_ = nullptr;
  return connection_.accept(request, peer);
}

// ---- configuration and counters -----------------------------------------------------------------

uint64_t SessionEndpoint::request_config(const CfgRequest& request) noexcept {
  Incarnation* incarnation = connection_.incarnation();
  const bool fits = request.data.size() <= kCfgDataBytesMax;
  if (incarnation == nullptr || context_.state != SessionState::kOpen || !fits) return 0;
  return incarnation->transactions().start(request);
}

const CounterSet<SessionCounter>& SessionEndpoint::counters() const noexcept {
  return context_.counters;
}

const CounterSet<adapter::QpCounter>& SessionEndpoint::channel_counters(uint32_t channel) noexcept {
  return connection_.channel_totals().of(channel);
}

SessionConservation SessionEndpoint::conservation() const noexcept {
  return connection_.conservation();
}

bool SessionEndpoint::publish(StatsPage& page, std::string_view prefix) {
  return page.publish(prefix, context_.counters) &&
         page.publish(std::string(prefix) + ".now", context_.gauges) &&
         connection_.channel_totals().publish(page, prefix);
}

std::string_view to_string(SessionState state) noexcept {
  switch (state) {
    case SessionState::kIdle:
      return "idle";
    case SessionState::kConnecting:
      return "connecting";
    case SessionState::kOpening:
      return "opening";
    case SessionState::kOpen:
      return "open";
    case SessionState::kClosing:
      return "closing";
    case SessionState::kLost:
      return "lost";
    case SessionState::kCount:
      break;
  }
  return "?";
}

}  // namespace weft::session
