// How it works: flits are composed one behind the other in a buffer. publish() sends the buffer as one
// message, without a copy. A reference stays until the flits in it are acknowledged. A repeat sends the
// message again, and the peer drops the flits it has already by their numbers. Messages that arrive stay in a
// ring until the engine has consumed their last flit. A peer that fills this ring beyond its window has
// broken the link. An empty burst is a sign of life.
#include "fabric/carrier/zmq_carrier.h"

#include <algorithm>
#include <cstring>

#include "base/endian.h"
#include "messages/flit.h"

namespace weft::fabric {
namespace {

constexpr size_t kNonceBytes = 8;

}  // namespace

Duration silence_limit(Duration given, const std::string& endpoint) {
  if (given != Duration{}) return given;
  return endpoint.starts_with("tcp://") ? kZmqSilenceTcp : kZmqSilenceIpc;
}

ZmqCarrier::ZmqCarrier(std::shared_ptr<BurstChannel> channel, uint64_t nonce, uint32_t flit_payload_bytes,
                       Duration silence, Instant now)
    : channel_(std::move(channel)),
      nonce_(nonce),
      slot_bytes_(kFlitHeaderBytes + flit_payload_bytes),
      silence_(silence),
      speak_within_(std::min(silence / 4, kZmqSignOfLife)),
      now_(now),
      heard_at_(now),
      spoke_at_(now),
      burst_bytes_max_(kNonceBytes + size_t{kFlitsPerBurstMax} * slot_bytes_),
      pool_(kPoolBuffers, burst_bytes_max_),
      spare_(burst_bytes_max_),
      staging_(pool_.take()),
      arrived_bytes_max_(size_t{kWindowsKept} * kUnacknowledgedFlitsMax * slot_bytes_) {
  sent_.reset(kBursts);
  arrived_.reset(kBursts);
  begin_burst();
}

ZmqCarrier::~ZmqCarrier() {
  channel_->detach();
}

// ---- sending --------------------

TxRun ZmqCarrier::claim(uint32_t reserve) noexcept {
  if (sent_.size() + reserve >= kBursts || burst_bytes_max_ - staged_bytes_ < slot_bytes_) return {};
  return {staging_ + staged_bytes_, slot_bytes_, 1};
}

void ZmqCarrier::commit(uint32_t slots, uint32_t last_bytes) noexcept {
  if (slots == 0) return;
  const auto kind = static_cast<uint8_t>(staging_[staged_bytes_]) >> 4;
  staged_data_ |= kind == static_cast<uint8_t>(FlitKind::kData);
  staged_bytes_ += last_bytes;
  ++tx_position_;
  if (burst_bytes_max_ - staged_bytes_ < slot_bytes_) publish(now_);
}

void ZmqCarrier::publish(Instant now) noexcept {
  if (staged_bytes_ == kNonceBytes) return;
  ZmqMessage message;
  if (wrap_burst(message)) {
    if (staged_data_) {
      if (Burst* kept = sent_.extend()) *kept = {message.share(), tx_position_};  // claim() checked the room
    }
    static_cast<void>(channel_->send_burst(message));
  }
  spoke_at_ = now;
  begin_burst();
}

/// A long burst leaves in the buffer in which it was composed, a short one as a copy.
bool ZmqCarrier::wrap_burst(ZmqMessage& out) noexcept {
  if (staging_ == spare_.data() || staged_bytes_ <= kCopiedBytesMax) {
    return out.assign({staging_, staged_bytes_});
  }
  if (!pool_.lend(staging_, staged_bytes_, out)) return false;
  staging_ = spare_.data();
  return true;
}

void ZmqCarrier::begin_burst() noexcept {
  if (staging_ == spare_.data()) {
    if (std::byte* buffer = pool_.take(); buffer != nullptr) staging_ = buffer;
  }
  store_be(staging_, nonce_);
  staged_bytes_ = kNonceBytes;
  staged_data_ = false;
}

void ZmqCarrier::retire(uint64_t before) noexcept {
  while (!sent_.empty() && sent_.front().end <= before) drop_front(sent_);
}

void ZmqCarrier::resend(uint64_t from) noexcept {
  for (size_t i = 0; i < sent_.size(); ++i) {
    Burst& kept = sent_.at(i);
    if (kept.end <= from) continue;
    ZmqMessage again = kept.message.share();
    if (!channel_->send_burst(again)) return;
  }
}

// ---- receiving --------------------

bool ZmqCarrier::deliver(ZmqMessage& message) noexcept {
  const std::span<const std::byte> bytes = message.bytes();
  if (bytes.size() < kNonceBytes || load_be<uint64_t>(bytes.data()) != nonce_) return false;
  heard_at_ = now_;
  if (bytes.size() == kNonceBytes) return true;
  Burst* kept = bytes.size() <= arrived_bytes_max_ - arrived_bytes_ ? arrived_.extend() : nullptr;
  overrun_ |= kept == nullptr;
  if (kept == nullptr) return true;
  arrived_bytes_ += bytes.size();
  kept->message = std::move(message);
  return true;
}

uint32_t ZmqCarrier::receive(std::span<RxSlot> out) noexcept {
  if (arrived_read_ == arrived_.size()) channel_->pump();
  uint32_t count = 0;
  while (count < out.size() && arrived_read_ != arrived_.size()) {
    Burst& burst = arrived_.at(arrived_read_);
    const std::span<const std::byte> rest =
        burst.message.bytes().subspan(std::max(read_offset_, kNonceBytes));
    // If a burst ends inside a flit, the slot is short and the engine counts it as flit_too_short.
    const size_t claimed = rest.size() < kFlitHeaderBytes
                               ? rest.size()
                               : kFlitHeaderBytes + size_t{load_be<uint16_t>(rest.data() + 2)};
    const size_t bytes = std::min(claimed, rest.size());
    out[count++] = {rest.data(), static_cast<uint32_t>(bytes), rx_position_++};
    read_offset_ = std::max(read_offset_, kNonceBytes) + bytes;
    if (bytes < rest.size()) continue;
    burst.end = rx_position_;
    ++arrived_read_;
    read_offset_ = 0;
  }
  return count;
}

void ZmqCarrier::release(uint64_t before) noexcept {
  for (; arrived_read_ != 0 && arrived_.front().end <= before; --arrived_read_) drop_arrived();
}

// ---- upkeep --------------------

CarrierState ZmqCarrier::poll(Instant now) noexcept {
  now_ = now;
  if (overrun_) return CarrierState::kOverrun;
  if (channel_->gone() || now - heard_at_ >= silence_) return CarrierState::kPeerGone;
  if (now - spoke_at_ >= speak_within_) {
    ZmqMessage sign_of_life;
    if (sign_of_life.assign({staging_, kNonceBytes})) static_cast<void>(channel_->send_burst(sign_of_life));
    spoke_at_ = now;
  }
  return CarrierState::kUp;
}

bool ZmqCarrier::prepare_sleep() noexcept {
  return arrived_read_ == arrived_.size() && channel_->quiet();
}

Instant ZmqCarrier::deadline() const noexcept {
  return std::min(heard_at_ + silence_, spoke_at_ + speak_within_);
}

}  // namespace weft::fabric
