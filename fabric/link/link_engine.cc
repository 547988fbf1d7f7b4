// How it works: an engine is down until a supervisor hands it a carrier and the agreed parameters. From then
// on poll() does the rare duties -- is the carrier alive, is something untold for too long, is there no
// progress -- and the path (link_engine_path.cc) does the rest. A fault found on the path only marks the
// link; poll() takes it down, so that views handed out stay valid for the rest of the turn. Progress is
// watched by the sender alone: when flits stay unacknowledged or a lane stays without credit it asks the peer
// to answer, at intervals that double after a while; the peer's answer names its last flit in order and the
// credit of every lane, which mends every loss of unsequenced flits.
#include "fabric/link/link_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace weft::fabric {
namespace {

constexpr Duration kGaugeInterval = 10ms;

}  // namespace

std::string_view to_string(LinkState state) noexcept {
  switch (state) {
    case LinkState::kDown:
      return "down";
    case LinkState::kUp:
      return "up";
    case LinkState::kFaulty:
      return "faulty";
  }
  return "down";
}

LinkEngine::LinkEngine(const LinkTimers& timers) noexcept : timers_(timers) {}
LinkEngine::~LinkEngine() = default;

void LinkEngine::bring_up(std::unique_ptr<Carrier> carrier, const LinkParams& params, Instant now) noexcept {
  take_down();
  announced_ = false;
  carrier_ = wrapper_ != nullptr ? wrapper_->wrap(std::move(carrier)) : std::move(carrier);
  if (wakes_ != nullptr) carrier_->serve_apart(*wakes_);
  params_ = params;
  profile_ = {params.flit_payload_bytes, params.lanes, params.whole_cell_flits};
  publish_every_ = carrier_->publish_every();
  tell_at_ = std::clamp(params.credits_per_lane / 2, 1U, kFlitsPerAck);
  for (LaneCredit& lane : lanes_) lane.reset(params.credits_per_lane);
  tx_position_ = sent_ = counted_sent_ = published_ = acknowledged_ = 0;
  received_ = told_received_ = consumed_position_ = 0;
  starved_lanes_ = open_lanes_ = untold_lanes_ = repeats_ = 0;
  gap_ahead_ = 0;
  repeat_asked_ = repeat_wanted_ = retire_due_ = answer_now_ = stall_counted_ = false;
  owed_since_ = probe_at_ = kNever;
  probe_interval_ = timers_.probe_first;
  now_ = heard_at_ = now;
  state_ = LinkState::kUp;
  if (++incarnation_ > 1) counters_.add(LinkCounter::kResets);
  counters_.set(LinkCounter::kIncarnation, incarnation_);
  counters_.set(LinkCounter::kUp, 1);
  ring();
}

std::unique_ptr<Carrier> LinkEngine::surrender(bool peer_gone) noexcept {
  if (state_ == LinkState::kDown) return nullptr;
  if (peer_gone) counters_.add(LinkCounter::kPeerGone);
  counters_.add(LinkCounter::kFlitsSent, sent_ - counted_sent_);
  counters_.add(LinkCounter::kFlitsLostAtReset, sent_ - acknowledged_);
  counters_.set(LinkCounter::kUp, 0);
  state_ = LinkState::kDown;
  run_ = {};
  run_used_ = unpublished_ = rx_count_ = 0;
  wake_due_ = false;
  ring();
  return std::move(carrier_);
}

int LinkEngine::poll(Instant now) noexcept {
  now_ = now;
  const LinkState before = state_;
  if (state_ == LinkState::kFaulty && wakes_ == nullptr) take_down();
  if (state_ == LinkState::kUp) watch_carrier(now);
  int work = supervisor_ != nullptr ? supervisor_->supervise(*this, now) : 0;
  if (state_ == LinkState::kUp) {
    watch_progress(now);
    if (now >= gauges_at_) [[unlikely]] {
      watch_silence(now);
      refresh_gauges(now);
    }
  }
  return work + (state_ != before ? 1 : 0);
}

void LinkEngine::watch_carrier(Instant now) noexcept {
  switch (carrier_->poll(now)) {
    case CarrierState::kUp:
      return;
    case CarrierState::kPeerGone:
      counters_.add(LinkCounter::kPeerGone);
      break;
    case CarrierState::kFaulty:
      counters_.add(LinkCounter::kCarrierFaults);
      break;
    case CarrierState::kOverrun:
      counters_.add(LinkCounter::kReceiveOverruns);
      break;
  }
  if (wakes_ != nullptr) {
    state_ = LinkState::kFaulty;
  } else {
    take_down();
  }
}

void LinkEngine::watch_progress(Instant now) noexcept {
  if (owed_since_ != kNever && now - owed_since_ >= timers_.ack_delay) {
    tell_peer(true);
    publish_now(now);
    owed_since_ = kNever;
  }
  if (sent_ == acknowledged_ && starved_lanes_ == 0) {
    probe_at_ = kNever;
  } else if (probe_at_ == kNever) {
    probing_since_ = now;
    probe_at_ = now + probe_interval_;
  } else if (now >= probe_at_) {
    if (send_control(FlitKind::kAck, kFlitAnswer)) {
      counters_.add(LinkCounter::kProbesSent);
      publish_now(now);
    } else {
      serve_repeat();  // every slot waits behind a lost flit, so the peer cannot be asked: repeat unasked
    }
    // Until surrender() there is a carrier. NOLINTNEXTLINE(clang-analyzer-cplusplus.Move)
    if (carrier_->keeps_all() || now - probing_since_ >= timers_.probe_steady) {
      probe_interval_ = std::min(probe_interval_ * 2, timers_.probe_max);
    }
    probe_at_ = now + probe_interval_;
  }
}

void LinkEngine::watch_silence(Instant now) noexcept {
  const bool waiting = sent_ != acknowledged_ || starved_lanes_ != 0;
  if (!waiting || heard_at_ > now) heard_at_ = now;
  const bool stalled = now - heard_at_ >= kPeerStalledNotice;
  if (stalled && !stall_counted_) counters_.add(LinkCounter::kPeerStalled);
  stall_counted_ = stalled;
}

void LinkEngine::refresh_gauges(Instant now) noexcept {
  gauges_at_ = now + kGaugeInterval;
  for (uint32_t i = 0; i < params_.lanes; ++i) {
    lane_counters_[i].set(LaneCounter::kFlitsSent, lanes_[i].sent());
    lane_counters_[i].set(LaneCounter::kFlitsReceived, lanes_[i].arrived());
    lane_counters_[i].set(LaneCounter::kCredits, lanes_[i].available());
    lane_counters_[i].set(LaneCounter::kHeld, lanes_[i].held());
  }
}

std::string_view LinkEngine::carrier_kind() const noexcept {
  return carrier_ != nullptr ? carrier_->kind() : std::string_view{};
}

void LinkEngine::wait_fds(std::vector<pollfd>& out) const {
  if (carrier_ != nullptr) carrier_->wait_fds(out);
  if (supervisor_ != nullptr) supervisor_->wait_fds(out);
}

bool LinkEngine::prepare_sleep() noexcept {
  if (state_ != LinkState::kUp) return state_ == LinkState::kDown;
  const bool quietly = unpublished_ == 0 && owes_little();
  tell_peer(true);
  if (quietly && unpublished_ != 0) {
    end_run();
    carrier_->publish_quietly(now_);
    unpublished_ = 0;
  }
  publish_now(now_);
  if (!peer_is_watched()) probe_at_ = kNever;
  if (received_ == told_received_ && untold_lanes_ == 0) owed_since_ = kNever;
  refresh_gauges(now_);
  return carrier_->prepare_sleep();
}

/// The peer can go on sending without being told: a few flits are unacknowledged, and no lane that has credit
/// to come is near its end.
bool LinkEngine::owes_little() const noexcept {
  if (answer_now_ || received_ - told_received_ >= tell_at_ || lane_owes(tell_at_)) return false;
  for (uint32_t left = untold_lanes_; left != 0; left &= left - 1) {
    if (lanes_[static_cast<size_t>(std::countr_zero(left))].held() != 0) return false;
  }
  return true;
}

/// False when the peer's silence means nothing: no lane waits for its credit, and the carrier keeps the few
/// flits that it may acknowledge without waking us (owes_little() of its side).
bool LinkEngine::peer_is_watched() const noexcept {
  return starved_lanes_ != 0 || sent_ - acknowledged_ >= kFlitsPerAck || !carrier_->keeps_all();
}

void LinkEngine::finish_sleep() noexcept {
  if (carrier_ == nullptr) return;
  carrier_->finish_sleep();
  if (!peer_is_watched()) heard_at_ = kNever;  // nobody listened: its silence begins at the next poll()
}

Instant LinkEngine::deadline() const noexcept {
  if (state_ == LinkState::kFaulty) return Instant::min();  // poll() takes it down
  Instant due = supervisor_ != nullptr ? supervisor_->deadline() : kNever;
  if (state_ != LinkState::kUp) return due;
  due = std::min(due, carrier_->deadline());
  if (peer_is_watched()) due = std::min(due, probe_at_);
  // What was sent, or found no credit, since the last poll() is not yet watched.
  if (probe_at_ == kNever && peer_is_watched() && (sent_ != acknowledged_ || starved_lanes_ != 0)) {
    due = std::min(due, now_ + probe_interval_);
  }
  return owed_since_ == kNever ? due : std::min(due, owed_since_ + timers_.ack_delay);
}

void LinkEngine::publish(StatsPage& page, std::string_view prefix) {
  page.publish(prefix, counters_);
  for (size_t i = 0; i < lane_counters_.size(); ++i)
    page.publish(fmt::format("{}.vl.{}", prefix, i), lane_counters_[i]);
}

}  // namespace weft::fabric
