// How it works: an engine is down until a supervisor gives it a carrier and the agreed parameters. Then the
// exchange (flit_exchange.cc) moves flits. poll() checks whether the carrier is alive and lets the supervisor
// work. A fault found on the path only marks the link. poll() takes the link down, so that views that were
// handed out stay valid for the rest of the turn.
#include "fabric/link/link_engine.h"

#include <algorithm>

namespace weft::fabric {

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

LinkEngine::LinkEngine(const LinkTimers& timers) noexcept : exchange_(timers, counters_) {}

void LinkEngine::bring_up(std::unique_ptr<Carrier> carrier, const LinkParams& params, Instant now) noexcept {
  take_down();
  announced_ = false;
  carrier_ = wrapper_ != nullptr ? wrapper_->wrap(std::move(carrier)) : std::move(carrier);
  if (wakes_ != nullptr) carrier_->serve_apart(*wakes_);
  params_ = params;
  exchange_.start(*carrier_, params, now);
  state_ = LinkState::kUp;
  if (++incarnation_ > 1) counters_.add(LinkCounter::kResets);
  counters_.set(LinkCounter::kIncarnation, incarnation_);
  counters_.set(LinkCounter::kUp, 1);
  ring();
}

std::unique_ptr<Carrier> LinkEngine::surrender(bool peer_gone) noexcept {
  if (state_ == LinkState::kDown) return nullptr;
  if (peer_gone) counters_.add(LinkCounter::kPeerGone);
  exchange_.stop();
  counters_.set(LinkCounter::kUp, 0);
  state_ = LinkState::kDown;
  ring();
  return std::move(carrier_);
}

int LinkEngine::poll(Instant now) noexcept {
  const LinkState before = state_;
  if (state_ == LinkState::kFaulty && wakes_ == nullptr) take_down();
  if (state_ == LinkState::kUp) watch_carrier(now);
  const int work = supervisor_ != nullptr ? supervisor_->supervise(*this, now) : 0;
  if (state_ == LinkState::kUp) exchange_.poll(now);
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

std::span<const RxFlit> LinkEngine::receive() noexcept {
  if (state_ != LinkState::kUp) return {};
  const std::span<const RxFlit> flits = exchange_.receive();
  if (exchange_.broken()) [[unlikely]]
    state_ = LinkState::kFaulty;
  return flits;
}

void LinkEngine::grant(VirtualLane vl, uint32_t flits) noexcept {
  if (state_ == LinkState::kUp) exchange_.grant(vl, flits);
}

std::string_view LinkEngine::carrier_kind() const noexcept {
  return carrier_ != nullptr ? carrier_->kind() : std::string_view{};
}

void LinkEngine::wait_fds(std::vector<pollfd>& out) const {
  if (carrier_ != nullptr) carrier_->wait_fds(out);
  if (supervisor_ != nullptr) supervisor_->wait_fds(out);
}

bool LinkEngine::prepare_sleep() noexcept {
  return state_ == LinkState::kUp ? exchange_.prepare_sleep() : state_ == LinkState::kDown;
}

Instant LinkEngine::deadline() const noexcept {
  if (state_ == LinkState::kFaulty) return Instant::min();  // poll() takes it down
  const Instant due = supervisor_ != nullptr ? supervisor_->deadline() : kNever;
  return state_ == LinkState::kUp ? std::min(due, exchange_.deadline()) : due;
}

void LinkEngine::publish(StatsPage& page, std::string_view prefix) {
  page.publish(prefix, counters_);
  exchange_.publish(page, prefix);
}

}  // namespace weft::fabric
