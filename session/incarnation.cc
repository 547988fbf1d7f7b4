// How it works. poll() is a fixed order of bounded stages: completions of sends, completions of receives
// (both channels share one queue, so frames and messages are handled in the order they arrived), pending
// messages of channel 0, doorbell. A stage that finds a fault records it in end(); the later stages then do
// nothing, and the connection destroys the incarnation at the end of the turn, so that no stage uses a
// destroyed object.
#include "session/incarnation.h"

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace weft::session {

namespace {

using C = SessionCounter;
constexpr uint32_t kSendDataOverhead = 192;    // SendData in the longer encoding, and alignment
constexpr uint32_t kReservedControlSlots = 8;  // decisions 2.19
constexpr uint32_t kRdmaControlSlots = 128;
constexpr uint32_t kControlSends = 64;
constexpr uint32_t kFramesInRingMin = 4;

static_assert(kOwnElementsTogetherMax * SessionLimits{}.pools_per_class + kRdmaControlSlots <=
              adapter::AdapterLimits{}.cqes_per_queue);

ChannelSizes sizes_for(const SessionConfig& config, TransferMode mode) noexcept {
  const uint32_t frame = own_frame_max(config, mode) + kVnetBytes;
  ChannelSizes sizes{
      .mode = mode,
      .message_bytes = kSessionMessageBytesMin,
      .control_sends = kControlSends,
      .control_recvs = kRdmaControlSlots,
      .frame_sends = config.limits.send_slots,
      .send_ring_bytes = std::max(config.limits.send_ring_bytes,
                                  kFramesInRingMin * round_up(frame + kSendDataOverhead, 4096)),
      .sl = config.sl,
      .port = config.port};
  const uint32_t slots = receive_slots(config);
  switch (mode) {
    case TransferMode::kRdma:
      for (const PoolClass& pools : config.pools) {
        sizes.indications += pools.elements * std::max(1U, config.limits.pools_per_class);
      }
      break;
    case TransferMode::kSendReceive:
      // Every renewal returns at least one credit, so there are never more renewals in flight than credits.
      sizes.frame_recvs = slots;
      sizes.control_recvs = slots + kReservedControlSlots + kControlSends;
      break;
    case TransferMode::kSendDataOnly:
      sizes.control_recvs = 2 * slots + kReservedControlSlots + kControlSends;
      sizes.message_bytes = std::max(kSessionMessageBytesMin, round_up(frame + kSendDataOverhead, 64));
      break;
  }
  return sizes;
}

}  // namespace

// ---- begin and end ------------------------------------------------------------------------------

Result<std::unique_ptr<Incarnation>> Incarnation::begin(SessionContext& context, ChannelStore& store,
                                                        IncarnationOwner& owner) {
  ChannelSizes sizes = sizes_for(context.config, context.peer.mode);
  sizes.acks = context.peer.acks;
  Result<std::unique_ptr<SessionChannels>> channels =
      SessionChannels::make(context.adapter, context.random, store, sizes);
  if (!channels) return channels.error();
  auto out = std::make_unique<Incarnation>(context, owner, std::move(*channels));
  if (const Status status = out->inbound_->pools().make(); !status) return status.error();
  return out;
}

Incarnation::Incarnation(SessionContext& context, IncarnationOwner& owner,
                         std::unique_ptr<SessionChannels> channels)
    : context_(context),
      channels_(std::move(channels)),
      end_(context),
      control_(context, end_, *channels_),
      outbound_(context, end_, *channels_, control_),
      inbound_(
          std::make_unique<Inbound>(context, end_, *channels_,
                                    std::max(channels_->sizes().indications, receive_slots(context.config)))),
      transactions_(context, control_),
      flush_(context, control_),
      watch_(context),
      messages_(context, {.owner = owner,
                          .end = end_,
                          .control = control_,
                          .outbound = outbound_,
                          .inbound = *inbound_,
                          .transactions = transactions_,
                          .flush = flush_,
                          .watch = watch_}),
      missed_packets_(channels_->missed_packets()) {}

SessionOffer Incarnation::offer() const noexcept {
  const SessionPeer& peer = context_.peer;
  const SessionConfig& config = context_.config;
  return {.encoding = static_cast<uint8_t>(peer.encoding),
          .mode = static_cast<uint8_t>(peer.mode),
          .idata_format = static_cast<uint8_t>(IdataFormat::kPoolElementSize),
          .channels = static_cast<uint8_t>(peer.mode == TransferMode::kSendDataOnly ? 1 : 2),
          .control = channels_->control_channel(),
          .data = channels_->data_channel(),
          .frame_bytes_max = own_frame_max(config, peer.mode),
          .features = context_.rdma() ? static_cast<uint32_t>(config.features) : 0,
          .mac = config.mac,
          .acks = static_cast<uint8_t>(peer.acks),
          .message_bytes = channels_->sizes().message_bytes};
}

Status Incarnation::connect(Lid peer, const SessionOffer& offer) {
  context_.peer_message_bytes = offer.message_bytes;
  return channels_->connect(peer, offer.control, offer.data);
}

uint64_t Incarnation::undelivered() const noexcept {
  return outbound_.undelivered() + control_.frames_described();
}

std::unique_ptr<Inbound> Incarnation::take_down() noexcept {
  context_.count(C::kFramesLostAtReset, undelivered());
  inbound_->retire();
  std::unique_ptr<Inbound> left = std::move(inbound_);
  if (left->empty()) left.reset();
  return left;
}

void Incarnation::account(SessionConservation& out) const noexcept {
  outbound_.account(out);
  inbound_->account(out);
}

// ---- a turn -------------------------------------------------------------------------------------

int Incarnation::poll() noexcept {
  int work = poll_sends();
  work += poll_receives();
  work += send_pending();
  outbound_.place();
  outbound_.flush();
  return work;
}

int Incarnation::poll_sends() noexcept {
  const std::span<adapter::WorkCompletion> done = completions_;
  const uint32_t count = channels_->poll_sends(done);
  for (uint32_t i = 0; i < count && !end_.decided(); ++i) {
    if (done[i].status != adapter::WcStatus::kSuccess) {
      work_failed("send", done[i].status);
    } else if (work_kind(done[i].wr_id) == WorkKind::kControlSend) {
      control_.sent(static_cast<uint32_t>(work_number(done[i].wr_id)));
    } else {
      outbound_.complete(work_number(done[i].wr_id));
    }
  }
  return static_cast<int>(count);
}

int Incarnation::poll_receives() noexcept {
  if (end_.decided()) return 0;
  const std::span<adapter::WorkCompletion> done = completions_;
  const uint32_t count = channels_->poll_receives(done);
  if (count != 0) watch_.heard();
  for (uint32_t i = 0; i < count && !end_.decided(); ++i) on_receive(done[i]);
  return static_cast<int>(count);
}

void Incarnation::settle() noexcept {
  while (poll_receives() != 0) {
  }
  check_accesses();
}

/// The peer broke a rule if the adapter has refused an access of it. The adapter then ends the queue pair
/// with all work requests, so failed ones are no other reason.
void Incarnation::check_accesses() noexcept {
  if (!end_.decided() && channels_->refused_accesses() != 0) end_.violation(C::kKeyRefused);
}

/// While our port is down only the adapter ends a queue pair, at the same time limit as ours, so the loss is
/// counted as the port's.
void Incarnation::work_failed(std::string_view what, adapter::WcStatus status) noexcept {
  log(LogLevel::kInfo, "{}: {} failed: {}", context_.config.name, what, to_string(status));
  check_accesses();
  end_.lose(watch_.port_down() ? C::kLostPortDown : C::kLostQpError);
}

void Incarnation::on_receive(const adapter::WorkCompletion& done) noexcept {
  if (done.status != adapter::WcStatus::kSuccess) return work_failed("receive", done.status);
  if (done.opcode == adapter::WcOpcode::kRdataIndicate) return inbound_->on_write(done);
  if (work_kind(done.wr_id) == WorkKind::kFrameRecv) return inbound_->on_send(done);
  control_.allow();  // a message on channel 0 shows, as an RTU does, that the peer is ready
  const auto slot = static_cast<uint32_t>(work_number(done.wr_id));
  messages_.take(channels_->control_message(slot, done.byte_count));
  if (!channels_->repost_control(slot)) end_.lose(C::kLostQpError);
}

/// Pending news for channel 0 is kept as state, not as messages: pools to advertise, freed elements, writes
/// to indicate, replies that wait for writes. Messages are made when a send slot is free, so a slow peer
/// needs no queue and many small facts share one message. Replies to requests leave at once.
int Incarnation::send_pending() noexcept {
  if (!control_.may_send()) return 0;
  int work = 0;
  work += static_cast<int>(inbound_->pools().send_adverts(control_));
  // The reply confirms that earlier writes are done, so their indications must go first.
  if (!outbound_.has_indications()) work += static_cast<int>(flush_.send_reply(outbound_.completed()));
  work += static_cast<int>(outbound_.send_indications());
  if (inbound_->pools().renewal_due() && can_renew())
    work += static_cast<int>(inbound_->pools().send_updates(control_));
  return work;
}

/// False once we have asked the peer to flush our pools: it stops using them.
bool Incarnation::can_renew() const noexcept {
  return !flush_.ours_asked() && control_.room_for_renewal();
}

// ---- timers -------------------------------------------------------------------------------------

bool Incarnation::tick() noexcept {
  check_accesses();
  if (!watch_.port_stays(channels_->port_up())) end_.lose(C::kLostPortDown);
  if (channels_->missed_packets() != missed_packets_) end_.lose(C::kLostGap);
  if (end_.decided()) return false;
  transactions_.expire();
  const bool interval_over = watch_.keepalive_due();
  if (interval_over && !watch_.port_down() && control_.may_send())
    transactions_.send_keepalive(outbound_.completed());
  if (watch_.silent_too_long()) end_.lose(C::kLostSilence);
  return watch_.take_asked() || interval_over;
}

Instant Incarnation::deadline() const noexcept {
  const Instant next = std::min({watch_.deadline(), transactions_.deadline(), close_at_});
  return can_renew() ? std::min(next, inbound_->pools().renew_at()) : next;  // otherwise the completion that
                                                                             // frees a slot wakes us
}

// ---- closing ------------------------------------------------------------------------------------

void Incarnation::start_close() noexcept {
  close_at_ = context_.now + context_.config.limits.flush_timeout;
}

bool Incarnation::step_close() noexcept {
  if (context_.now >= close_at_) {
    context_.count(C::kFlushTimedOut);
    return true;
  }
  if (!control_.may_send() || !outbound_.drained()) return false;
  return flush_.finish(inbound_->pools().to_flush(), outbound_.to_flush());
}

}  // namespace weft::session
