// How it works. poll() is a fixed order of bounded stages: connection datagrams, completions of sends,
// completions of receives (both channels in one queue, so frames and messages are seen in the order they
// arrived), what waits to be said on channel 0, doorbell, timers. Whatever goes wrong calls fail() once; the
// stages that follow do nothing then, and teardown() at the end of the turn takes the incarnation down, so
// that no stage loses its ground under its feet.
#include "session/session_core.h"

#include <algorithm>

#include "base/log.h"
#include "base/stats_page.h"

namespace weft::session {

namespace {

constexpr uint32_t kFlushRepliesMax = 16;
constexpr Duration kHealthy = std::chrono::seconds(10);  // after this long open, delays start small again

}  // namespace

NetdevSession::Core::Core(NetdevSession& self, const SessionConfig& config, adapter::ChannelAdapter& adapter,
                          RandomSource& random)
    : self_(self),
      config_(config),
      adapter_(adapter),
      random_(random),
      channels_(adapter, random),
      capnp_(std::max<uint32_t>(16384, 2 * kJumboFrameBytes)),
      remote_(config.limits.peer_pools, config.limits.peer_elements) {
  WEFT_CHECK(!config_.pools.empty(), "a session needs a pool class");
  std::stable_sort(config_.pools.begin(), config_.pools.end(),
                   [](const PoolClass& a, const PoolClass& b) { return a.element_bytes < b.element_bytes; });
  out_.reset(config_.limits.send_slots);
  indications_.reset(config_.limits.send_slots);
  transactions_.resize(config_.limits.config_requests + 1);  // one for the keepalive
  flush_replies_.reset(kFlushRepliesMax);
  connect_delay_ = config_.limits.connect_interval;
}

NetdevSession::Core::~Core() {
  events_ = nullptr;
  drop_frames();
}

int NetdevSession::Core::poll(Instant now) noexcept {
  now_ = now;
  int work = config_.role == SessionRole::kHost ? poll_connect() : 0;
  if (live()) {
    work += poll_sends();
    work += poll_receives();
    work += send_pending();
    place_frames();
    flush();
  }
  work += tick();
  if (loss_) {
    teardown();
    ++work;
  }
  return work;
}

int NetdevSession::Core::poll_sends() noexcept {
  const std::span<adapter::WorkCompletion> done = completions_;
  const uint32_t count = channels_.poll_sends(done);
  for (uint32_t i = 0; i < count && !loss_; ++i) {
    if (done[i].status != adapter::WcStatus::kSuccess) {
      work_failed("send", done[i].status);
    } else if (work_kind(done[i].wr_id) == WorkKind::kControlSend) {
      const auto slot = static_cast<uint32_t>(work_number(done[i].wr_id));
      slot_indications_[slot] = 0;
      channels_.control_sent(slot);
    } else {
      complete_frames(work_number(done[i].wr_id));
    }
  }
  return static_cast<int>(count);
}

int NetdevSession::Core::poll_receives() noexcept {
  if (loss_) return 0;
  const std::span<adapter::WorkCompletion> done = completions_;
  const uint32_t count = channels_.poll_receives(done);
  if (count != 0) heard();
  for (uint32_t i = 0; i < count && !loss_; ++i) on_receive(done[i]);
  return static_cast<int>(count);
}

/// While our port is down nothing ends a queue pair but the adapter, which gives the port up when we do.
void NetdevSession::Core::work_failed(std::string_view what, adapter::WcStatus status) noexcept {
  log(LogLevel::kInfo, "{}: {} failed: {}", config_.name, what, to_string(status));
  fail(port_down_since_ != kNever ? C::kLostPortDown : C::kLostQpError);
}

void NetdevSession::Core::on_receive(const adapter::WorkCompletion& done) noexcept {
  if (done.status != adapter::WcStatus::kSuccess) return work_failed("receive", done.status);
  if (done.opcode == adapter::WcOpcode::kRdataIndicate) return on_rdata(done);
  if (work_kind(done.wr_id) == WorkKind::kFrameRecv) return on_frame_recv(done);
  // A message on channel 0 says as much as an RTU: the peer is ready.
  connected_ = true;
  const auto slot = static_cast<uint32_t>(work_number(done.wr_id));
  on_message(channels_.control_message(slot, done.byte_count));
  if (!channels_.repost_control(slot)) fail(C::kLostQpError);
}

// ---- states and loss ----------------------------------------------------------------------------

void NetdevSession::Core::enter(SessionState state) noexcept {
  state_ = state;
  gauges_.set(SessionGauge::kState, static_cast<uint64_t>(state));
  log(LogLevel::kDebug, "{}: {}", config_.name, to_string(state));
  if (events_ != nullptr) events_->on_state(self_, state);
}

void NetdevSession::Core::fail(SessionCounter reason) noexcept {
  if (loss_ || !live()) return;
  loss_ = reason;
  counters_.add(reason);
}

void NetdevSession::Core::violation(SessionCounter reason) noexcept {
  counters_.add(reason);
  if (!loss_) {
    log(LogLevel::kWarn, "{}: peer lid {} broke the rules: {}", config_.name, peer_.lid.value(),
        CounterSet<SessionCounter>::label(reason));
    violation_ = true;
  }
  fail(C::kLostViolation);
}

void NetdevSession::Core::drop_frames() noexcept {
  uint64_t lost = out_.size() + indications_.size();
  for (uint32_t& described : slot_indications_) lost += std::exchange(described, 0);
  counters_.add(C::kFramesLostAtReset, lost);
  out_.clear();
  indications_.clear();
  out_posted_ = out_placed_ = 0;
  out_first_ = 0;
  frames_submitted_ = frames_completed_ = 0;
  unsignalled_ = 0;
  unsignalled_bytes_ = 0;
  doorbell_ = held_ = waited_ = false;
  claim_at_ = nullptr;
}

void NetdevSession::Core::teardown() noexcept {
  const SessionCounter reason = *loss_;
  if (reason != C::kLostPeerLeft && reason != C::kLostForgotten) send_cm(CmKind::kDreq);
  log(LogLevel::kInfo, "{}: session with lid {} lost: {}, {} frames in flight", config_.name,
      peer_.lid.value(), CounterSet<SessionCounter>::label(reason), out_.size());
  const bool healthy = state_ == SessionState::kOpen && now_ - opened_at_ >= kHealthy;
  if (healthy) connect_delay_ = config_.limits.connect_interval;
  connect_at_ = now_ + connect_delay_;
  if (violation_ && config_.role == SessionRole::kHost) {
    violation_ = false;
    connect_delay_ = std::min(connect_delay_ * 2, config_.limits.connect_interval_max);
  }
  const bool closing = state_ == SessionState::kClosing;
  finish_close();
  if (closing) return;
  enter(SessionState::kLost);
}

/// Takes the incarnation down; state_ is still the old one.
void NetdevSession::Core::finish_close() noexcept {
  const bool was_closing = state_ == SessionState::kClosing;
  loss_.reset();
  drop_frames();
  for (OwnPool& own : own_pools_) own.pool->retire();
  drop_spent_pools();
  remote_.clear();
  channels_.destroy();
  connected_ = false;
  keepalive_at_ = close_deadline_ = renew_at_ = kNever;
  flush_replies_.clear();
  own_flush_ = peer_flush_ = {};
  update_gauges();
  expire_transactions(true);
  if (was_closing) {
    counters_.add(C::kClosed);
    enter(SessionState::kIdle);
  }
}

// ---- timers -------------------------------------------------------------------------------------

int NetdevSession::Core::tick() noexcept {
  if (!live() || state_ == SessionState::kConnecting) return 0;
  check_port();
  if (channels_.missed_packets() != missed_packets_) fail(C::kLostGap);
  if (channels_.refused_accesses() != 0) violation(C::kKeyRefused);
  if (loss_) return 0;
  expire_transactions(false);
  if (now_ >= keepalive_at_) {
    keepalive_at_ = now_ + config_.limits.keepalive_interval;
    if (port_down_since_ == kNever) send_keepalive();
    update_gauges();
  }
  if (now_ > silent_until()) fail(C::kLostSilence);
  if (!loss_ && now_ >= probe_due()) probe();
  if (state_ == SessionState::kClosing) step_close();
  return 0;
}

void NetdevSession::Core::check_port() noexcept {
  if (channels_.port_up()) {
    if (port_down_since_ == kNever) return;
    port_down_since_ = kNever;
    port_up_at_ = now_;
    if (keepalive_at_ != kNever) keepalive_at_ = now_;  // the peer learns at once that we are back
  } else if (port_down_since_ == kNever) {
    port_down_since_ = now_;
  } else if (now_ - port_down_since_ > config_.limits.port_down_max) {
    fail(C::kLostPortDown);
  }
}

/// Until when the peer may be silent: for ever while our own port is down. A port that came back gives the
/// peer time for its own, until it has been heard again.
Instant NetdevSession::Core::silent_until() const noexcept {
  if (port_down_since_ != kNever) return kNever;
  const Instant silent = heard_at_ + config_.limits.silence_max;
  return heard_at_ >= port_up_at_ ? silent : std::max(silent, port_up_at_ + config_.limits.port_up_grace);
}

/// When a host asks its silent unit whether it knows the session; a unit is asked, and asks nobody.
Instant NetdevSession::Core::probe_due() const noexcept {
  const bool asks = config_.role == SessionRole::kHost && port_down_since_ == kNever &&
                    (state_ == SessionState::kOpening || state_ == SessionState::kOpen);
  if (!asks) return kNever;
  return std::max(heard_at_ + config_.limits.probe_after, probed_at_ + config_.limits.connect_interval);
}

/// RTU again: a unit that was restarted since has no such session and answers REJ.
void NetdevSession::Core::probe() noexcept {
  probed_at_ = now_;
  counters_.add(C::kProbesOut);
  send_cm(CmKind::kRtu);
}

/// Answers transactions whose time is over, or all of them at a loss.
void NetdevSession::Core::expire_transactions(bool all) noexcept {
  if (transactions_open_ == 0) return;
  for (Transaction& transaction : transactions_) {
    if (transaction.context == 0 || (!all && now_ < transaction.deadline)) continue;
    const Transaction expired = std::exchange(transaction, {});
    --transactions_open_;
    if (expired.internal) continue;
    counters_.add(C::kConfigTimedOut);
    CfgReply reply;
    reply.status = all ? CfgStatus::kSessionLost : CfgStatus::kTimedOut;
    if (events_ != nullptr) events_->on_config_reply(self_, expired.context, reply);
  }
}

Instant NetdevSession::Core::deadline() const noexcept {
  if (state_ == SessionState::kConnecting ||
      (state_ == SessionState::kLost && config_.role == SessionRole::kHost)) {
    return connect_at_;
  }
  if (!live()) return kNever;
  Instant next = std::min(keepalive_at_, close_deadline_);
  if (can_renew()) next = std::min(next, renew_at_);  // else a completion wakes us
  next = std::min(next, probe_due());
  if (port_down_since_ == kNever) next = std::min(next, silent_until() + Duration(1));
  if (transactions_open_ == 0) return next;
  for (const Transaction& transaction : transactions_) {
    if (transaction.context != 0) next = std::min(next, transaction.deadline);
  }
  return next;
}

// ---- what is where ------------------------------------------------------------------------------

SessionConservation NetdevSession::Core::conservation() const noexcept {
  SessionConservation out;
  for (const OwnPool& own : own_pools_) {
    const RecvPool& pool = *own.pool;
    out.own_exposed += pool.exposed();
    out.own_indicated += pool.indicated();
    out.own_freed += pool.freed();
    out.own_elements += pool.live() ? pool.elements() : pool.indicated();
  }
  out.peer_elements = remote_.elements();
  out.peer_free = remote_.free();
  out.peer_consumed = remote_.consumed();
  out.frames_submitted = frames_submitted_;
  out.frames_completed = frames_completed_;
  out.frames_in_flight = out_placed_;
  out.frames_waiting = out_.size() - out_placed_;
  out.frames_indicated = frames_indicated_;
  out.frames_released = frames_released_;
  out.frames_queued = inbound_.size();
  return out;
}

void NetdevSession::Core::update_gauges() noexcept {
  channels_.update_totals();
  const SessionConservation now = conservation();
  gauges_.set(SessionGauge::kIncarnation, incarnation_);
  gauges_.set(SessionGauge::kOwnExposed, now.own_exposed);
  gauges_.set(SessionGauge::kOwnIndicated, now.own_indicated);
  gauges_.set(SessionGauge::kOwnFreed, now.own_freed);
  gauges_.set(SessionGauge::kPeerElements, now.peer_elements);
  gauges_.set(SessionGauge::kPeerFree, now.peer_free);
  gauges_.set(SessionGauge::kFramesInFlight, now.frames_in_flight);
  gauges_.set(SessionGauge::kFramesWaiting, now.frames_waiting);
  gauges_.set(SessionGauge::kPeerLid, peer_.lid.value());
}

bool NetdevSession::Core::publish(StatsPage& page, std::string_view prefix) {
  return page.publish(prefix, counters_) && page.publish(std::string(prefix) + ".now", gauges_) &&
         channels_.publish(page, prefix);
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
