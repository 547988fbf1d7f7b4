// How it works: a slot is written once. The table `position_` maps a flit's number to its slot, so that an
// acknowledgement can retire slots up to it and a repeat request can resend from it. Flits without data have
// no number of their own; they name the last data flit sent before them.
#include "fabric/link/flit_sender.h"

namespace weft::fabric {

void FlitSender::start(Carrier& carrier, bool whole_cell_flits) noexcept {
  carrier_ = &carrier;
  slots_.start(carrier);
  whole_cell_ = whole_cell_flits;
  sent_ = acknowledged_ = counted_ = published_ = asked_at_ = 0;
  asked_ = 0;
  retire_due_ = false;
}

void FlitSender::stop() noexcept {
  count_sent();
  counters_.add(LinkCounter::kFlitsLostAtReset, unacknowledged());
  slots_.stop();
  carrier_ = nullptr;
}

void FlitSender::commit_control(FlitKind kind, uint8_t flags, const FlitNews& news) noexcept {
  compose_flit(slots_.current(), fields_of(kind, flags, news), whole_cell_, 0);
  slots_.fill(kFlitHeaderBytes);
  counters_.add(kind == FlitKind::kCredit ? LinkCounter::kCreditFlitsSent : LinkCounter::kAckFlitsSent);
}

void FlitSender::compose_part(const TxFlit& flit, FlitNews news) noexcept {
  compose_flit(slots_.current(), fields_of(flit, news), false, 0);
}

void FlitSender::publish_part(Instant now) noexcept {
  slots_.publish_part(now);
  count_burst();
}

void FlitSender::count_burst() noexcept {
  if (published_ == sent_) return;
  published_ = sent_;
  counters_.add(LinkCounter::kBurstsSent);
}

void FlitSender::count_sent() noexcept {
  if (counted_ == sent_) return;
  counters_.add(LinkCounter::kFlitsSent, sent_ - counted_);
  counted_ = sent_;
}

void FlitSender::repeat(Instant now) noexcept {
  publish(now);
  if (unacknowledged() == 0) return;
  counters_.add(LinkCounter::kRepeatsServed);
  carrier_->resend(oldest());
}

bool FlitSender::serve_repeat(Instant now) noexcept {
  if (asked_at_ != acknowledged_) asked_ = 0;
  asked_at_ = acknowledged_;
  if (++asked_ > kRepeatsServedMax) return false;
  repeat(now);
  return true;
}

}  // namespace weft::fabric
