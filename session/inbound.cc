// How it works. Every indication is checked against the pool's own record (decisions 2.16) and queued in the
// order of arrival; the driver reads the element in place and releases it, which makes it due for renewal.
#include "session/inbound.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace weft::session {

namespace {
using C = SessionCounter;
}

Inbound::Inbound(SessionContext& context, IncarnationEnd& end, SessionChannels& channels, size_t frames_max)
    : context_(context), end_(&end), pools_(context, channels) {
  queue_.reset(frames_max);
}

void Inbound::retire() noexcept {
  pools_.retire();
  end_ = nullptr;
}

// ---- what arrives -------------------------------------------------------------------------------

/// An indication for a pool that we do not have is a violation: flushed, or never advertised.
void Inbound::pool_missing(uint32_t reference) noexcept {
  end_->violation(pools_.has_been(reference) ? C::kIdataPoolFlushed : C::kIdataPoolUnknown);
}

/// Records a violation and returns false for an indication that contradicts our own record, or for a frame
/// that is longer than agreed: the driver's memory for a frame is as large as that, elements may be larger.
bool Inbound::fits(IndicationFault fault, uint32_t bytes) noexcept {
  switch (fault) {
    case IndicationFault::kNone:
      if (bytes <= kVnetBytes + context_.peer.frame_bytes_max) return true;
      end_->violation(C::kIdataTooLong);
      break;
    case IndicationFault::kFlushed:
      end_->violation(C::kIdataPoolFlushed);
      break;
    case IndicationFault::kElementRange:
      end_->violation(C::kIdataElementRange);
      break;
    case IndicationFault::kElementNotFree:
      end_->violation(C::kIdataElementNotFree);
      break;
    case IndicationFault::kSizeWrong:
      end_->violation(C::kIdataSizeWrong);
      break;
    case IndicationFault::kAddressWrong:
      end_->violation(C::kIdataAddressWrong);
      break;
    case IndicationFault::kTooLong:
      end_->violation(C::kIdataTooLong);
      break;
    case IndicationFault::kCount:
      break;
  }
  return false;
}

/// Takes the element from the peer and queues its frame.
void Inbound::indicate(RecvPool& pool, uint32_t element, uint32_t bytes) noexcept {
  pool.indicate(element);
  ++indicated_;
  Frame queued{
      .frame = {.bytes = pool.element(element).first(bytes), .pool = pool.reference(), .element = element},
      .pool = &pool};
  if (bytes >= kInnerFrameBytesMin) {
    context_.count(C::kFramesIn);
    context_.count(C::kBytesIn, bytes - kVnetBytes);
  } else {
    context_.count(C::kFrameTooShort);
    queued.frame.bytes = {};
  }
  WEFT_CHECK(queue_.push(queued), "as many places as elements");
}

void Inbound::on_write(const adapter::WorkCompletion& done) noexcept {
  const PoolElement used = decode_idata(done.imm);
  RecvPool* pool = pools_.find(used.pool);
  if (pool == nullptr) return pool_missing(used.pool);
  if (!fits(pool->check_write(used, done.written_va, done.byte_count), done.byte_count)) return;
  indicate(*pool, used.element, done.byte_count);
}

/// Receive WQEs complete in the order they were posted, so the next slot is known. A slot may be larger than
/// the longest frame that both sides have agreed on.
void Inbound::on_send(const adapter::WorkCompletion& done) noexcept {
  RecvPool& pool = pools_.receive_pool();
  const auto slot = static_cast<uint32_t>(work_number(done.wr_id));
  if (!pool.is_exposed(slot)) return end_->violation(C::kCreditOverrun);
  next_slot_ = (slot + 1) % pool.elements();
  if (done.byte_count > context_.peer.frame_bytes_max) return end_->violation(C::kIdataTooLong);
  context_.count(C::kPlainSendsIn);
  indicate(pool, slot, kVnetBytes + done.byte_count);
}

void Inbound::on_send_data(std::span<const std::byte> data) noexcept {
  if (context_.peer.mode != TransferMode::kSendDataOnly) return context_.count(C::kMsgNotExpected);
  RecvPool& pool = pools_.receive_pool();
  if (data.size() > context_.peer.frame_bytes_max) return context_.count(C::kMsgTooLong);
  if (!pool.is_exposed(next_slot_)) return end_->violation(C::kCreditOverrun);
  const uint32_t slot = next_slot_;
  next_slot_ = (slot + 1) % pool.elements();
  context_.count(C::kSendDataIn);
  std::memcpy(pool.element(slot).data() + kVnetBytes, data.data(), data.size());
  indicate(pool, slot, kVnetBytes + static_cast<uint32_t>(data.size()));
}

void Inbound::on_indications(const BufferRdmaIndicate& body) noexcept {
  if (!context_.rdma()) return context_.count(C::kMsgNotExpected);
  for (const Indication& used : body.used) {
    RecvPool* pool = pools_.find(used.pool);
    if (pool == nullptr) return pool_missing(used.pool);
    if (!fits(pool->check_indication(used), used.data_bytes)) return;
    context_.count(C::kIndicationsIn);
    indicate(*pool, used.element, used.data_bytes);
  }
}

void Inbound::on_promise(uint64_t frames) noexcept {
  if (context_.peer.mode == TransferMode::kSendReceive && indicated_ < promised_) end_->lose(C::kLostGap);
  promised_ = frames;
}

// ---- the driver's side --------------------------------------------------------------------------

const InboundFrame* Inbound::peek(uint32_t index) noexcept {
  skip_refused();
  for (size_t i = 0, seen = 0; i < queue_.size(); ++i) {
    if (queue_.at(i).frame.bytes.empty()) continue;
    if (seen++ == index) return &queue_.at(i).frame;
  }
  return nullptr;
}

void Inbound::drop_all() noexcept {
  context_.count(C::kInboundLostAtReset, queue_.size());
  while (!queue_.empty()) release();
}

/// Releases refused frames at the front without showing them to the driver.
void Inbound::skip_refused() noexcept {
  while (!queue_.empty() && queue_.front().frame.bytes.empty()) free_front();
}

void Inbound::release() noexcept {
  skip_refused();
  if (!queue_.empty()) free_front();
}

void Inbound::free_front() noexcept {
  const Frame done = queue_.front();
  queue_.pop();
  ++released_;
  if (!pools_.give_back(*done.pool, done.frame.element)) end_->lose(C::kLostQpError);
}

void Inbound::account(SessionConservation& out) const noexcept {
  pools_.account(out);
  out.frames_indicated = indicated_;
  out.frames_released = released_;
  out.frames_queued = queue_.size();
}

}  // namespace weft::session
