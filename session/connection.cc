// How it works. The host makes its queue pairs, sends REQ to QP1 of the unit and repeats it every
// connect_interval with the same nonce until REP or REJ comes. The unit creates its queue pairs on the first
// REQ and answers every repeated REQ with the same REP. On REP the host goes to RTS, sends RTU and advertises
// its pools; RTU, or any message on channel 0, allows the unit to advertise its own. A side is open once it
// knows a pool of the other. Closing has three steps: complete the frames in flight, flush both sides' pools,
// send DREQ.
#include "session/connection.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/out_of_memory.h"

namespace weft::session {

namespace {

using C = SessionCounter;
constexpr Duration kRefusedDelayMax = std::chrono::seconds(1);
constexpr Duration kHealthy = std::chrono::seconds(10);  // a session open for this long resets the retry
                                                         // delay to its start
constexpr int kRepliesPerTurn = 8;

ConnectionEvent event_of(const SessionMad& message) noexcept {
  switch (message.kind) {
    case CmAttribute::kReq:
      return ConnectionEvent::kReq;
    case CmAttribute::kRep:
      return ConnectionEvent::kRep;
    case CmAttribute::kRej:
      break;
    case CmAttribute::kRtu:
      return ConnectionEvent::kRtu;
    case CmAttribute::kDreq:
      return ConnectionEvent::kDreq;
    case CmAttribute::kDrep:
      return ConnectionEvent::kDrep;
    case CmAttribute::kMra:
    case CmAttribute::kSidrReq:
    case CmAttribute::kSidrRep:
      break;  // no SessionMad is one of these
  }
  const bool unknown = message.reason == static_cast<uint16_t>(SessionRefusal::kUnknownSession);
  return unknown ? ConnectionEvent::kRejUnknown : ConnectionEvent::kRej;
}

/// True if the reply repeats the choices of the request and names no larger frames and no more features.
bool good_reply(const SessionOffer& own, const SessionOffer& reply) noexcept {
  if (reply.acks != own.acks) return false;
  return reply.version_min == kNetdevVersion && reply.version_max == kNetdevVersion &&
         reply.encoding == own.encoding && reply.mode == own.mode && reply.idata_format == own.idata_format &&
         reply.channels == own.channels && reply.frame_bytes_max <= own.frame_bytes_max &&
         reply.frame_bytes_max >= kSessionFrameBytesMin && (reply.features & ~own.features) == 0 &&
         reply.message_bytes >= kSessionMessageBytesMin;
}

}  // namespace

Connection::Connection(SessionContext& context)
    : context_(context),
      port_(context.ports.at(context.config.port)),
      mailbox_(context.is_host() ? std::make_unique<SessionMailbox>(port_, context.config.unit) : nullptr),
      connect_delay_(context.config.limits.connect_interval) {}

Connection::~Connection() {
  context_.events = nullptr;
  if (incarnation_ != nullptr) (void)incarnation_->take_down();
}

// ---- states -------------------------------------------------------------------------------------

void Connection::enter(SessionState state) noexcept {
  context_.state = state;
  context_.gauges.set(SessionGauge::kState, static_cast<uint64_t>(state));
  log(LogLevel::kDebug, "{}: {}", context_.config.name, to_string(state));
  if (context_.events != nullptr) context_.events->on_state(context_.self, state);
}

/// Every event; `datagram` is what came, for those that are datagrams.
void Connection::on(ConnectionEvent event, const SessionDatagram* datagram) noexcept {
  switch (step_for(context_.config.role, context_.state, event)) {
    case ConnectionStep::kIgnore:
      return;
    case ConnectionStep::kViolation:
      return context_.count(C::kConnectUnexpected);
    case ConnectionStep::kConnect:
      connect_delay_ = context_.config.limits.connect_interval;
      connect_at_ = context_.now;
      return enter(SessionState::kConnecting);
    case ConnectionStep::kAsk:
      return ask();
    case ConnectionStep::kRetry:
      return retry();
    case ConnectionStep::kBindPeer:
      return bind_peer(*datagram);
    case ConnectionStep::kSayRtu:
      return send(CmAttribute::kRtu);
    case ConnectionStep::kBeRefused:
      return be_refused(datagram->message);
    case ConnectionStep::kBeForgotten:
      return be_left(C::kLostForgotten);
    case ConnectionStep::kSayRep:
      send(CmAttribute::kRep);
      return event == ConnectionEvent::kAccepted ? enter(SessionState::kOpening) : void();
    case ConnectionStep::kLetSend:
      incarnation_->watch().heard();
      return incarnation_->allow_sending();
    case ConnectionStep::kSayDrep:
      return send(CmAttribute::kDrep);
    case ConnectionStep::kPartAfterDreq:
      send(CmAttribute::kDrep);
      return be_left(C::kLostPeerLeft);
    case ConnectionStep::kBeginFrames:
      return begin_frames();
    case ConnectionStep::kBeginFlush:
      incarnation_->start_close();
      return enter(SessionState::kClosing);
    case ConnectionStep::kFinishFlush:
      return finish_flush();
    case ConnectionStep::kGiveUp:
      end_incarnation();
      update_gauges();
      return enter(SessionState::kIdle);
    case ConnectionStep::kTakeDown:
      take_down();
      return enter(SessionState::kLost);
    case ConnectionStep::kCutFlush:
      take_down();
      context_.count(C::kClosed);
      return enter(SessionState::kIdle);
    case ConnectionStep::kUnanswered:
    case ConnectionStep::kCount:
      break;
  }
}

// ---- a turn -------------------------------------------------------------------------------------

int Connection::poll() noexcept {
  int work = poll_datagrams();
  if (attempt_due()) {
    on(ConnectionEvent::kAttemptDue);
    ++work;
  }
  if (incarnation_ == nullptr) return work;
  work += incarnation_->poll();
  if (context_.state != SessionState::kConnecting) tick();
  if (incarnation_ != nullptr && incarnation_->end().decided()) {
    on(ConnectionEvent::kEnded);
    ++work;
  }
  return work;
}

bool Connection::attempt_due() const noexcept {
  const bool waits = context_.state == SessionState::kConnecting || context_.state == SessionState::kLost;
  const bool ended = incarnation_ != nullptr && incarnation_->end().decided();
  return context_.is_host() && waits && !ended && context_.now >= connect_at_;
}

int Connection::poll_datagrams() noexcept {
  if (mailbox_ == nullptr) return 0;
  int work = 0;
  SessionDatagram datagram;
  for (; work < kRepliesPerTurn; ++work) {
    const SessionReceive got = mailbox_->receive(context_.now, datagram);
    if (got == SessionReceive::kNone) break;
    if (got == SessionReceive::kMalformed) {
      context_.count(C::kConnectMalformed);
    } else if (incarnation_ != nullptr && datagram.lid == context_.config.unit &&
               datagram.message.nonce == context_.peer.nonce) {
      on_datagram(datagram);
    }
  }
  return work;
}

void Connection::on_datagram(const SessionDatagram& datagram) noexcept {
  on(event_of(datagram.message), &datagram);
}

void Connection::tick() noexcept {
  if (incarnation_->tick()) update_gauges();
  if (incarnation_->end().decided()) return;
  if (incarnation_->watch().take_probe()) {
    context_.count(C::kProbesOut);  // RTU again: a unit that was restarted has no such session and says REJ
    send(CmAttribute::kRtu);
  }
  if (context_.state == SessionState::kClosing && incarnation_->step_close()) on(ConnectionEvent::kFlushed);
}

Instant Connection::deadline() const noexcept {
  const bool waits = context_.state == SessionState::kConnecting ||
                     (context_.state == SessionState::kLost && context_.is_host());
  if (waits) return connect_at_;
  return incarnation_ != nullptr ? incarnation_->deadline() : kNever;
}

// ---- begin and end of an incarnation ------------------------------------------------------------

/// Creates the incarnation for the mode in context_.peer. Frames of the last one that the driver still holds
/// are dropped and counted.
Status Connection::begin_incarnation() noexcept {
  if (leftovers_ != nullptr) leftovers_->drop_all();
  leftovers_.reset();
  return status_with_memory([&]() -> Status {
    Result<std::unique_ptr<Incarnation>> made = Incarnation::begin(context_, store_, *this);
    if (!made) return made.error();
    incarnation_ = std::move(*made);
    ++incarnations_;
    return {};
  });
}

/// Does nothing if there is no incarnation. The driver is told of its failed transactions after incarnation_
/// is null, so that its calls cannot reach the old one.
void Connection::end_incarnation() noexcept {
  const std::unique_ptr<Incarnation> ended = std::move(incarnation_);
  if (ended == nullptr) return;
  leftovers_ = ended->take_down();
  ended->answer_lost();
}

void Connection::take_down() noexcept {
  const SessionCounter reason = incarnation_->end().reason();
  const SessionLimits& limits = context_.config.limits;
  if (reason != C::kLostPeerLeft && reason != C::kLostForgotten) send(CmAttribute::kDreq);
  log(LogLevel::kInfo, "{}: session with lid {} lost: {}, {} frames in flight", context_.config.name,
      context_.peer.lid.value(), CounterSet<SessionCounter>::label(reason),
      incarnation_->outbound().in_flight());
  const bool healthy = context_.state == SessionState::kOpen && context_.now - opened_at_ >= kHealthy;
  if (healthy) connect_delay_ = limits.connect_interval;
  connect_at_ = context_.now + connect_delay_;
  if (incarnation_->end().by_peers_fault()) {
    violation_ = !context_.is_host();  // the acceptor delays the host's next request; a host delays its own
    if (context_.is_host()) connect_delay_ = std::min(connect_delay_ * 2, limits.connect_interval_max);
  }
  end_incarnation();
  update_gauges();
}

/// The peer has ended the session. An offence of its, until then, is the reason that counts; its frames stay
/// for the driver.
void Connection::be_left(SessionCounter reason) noexcept {
  incarnation_->settle();
  incarnation_->end().lose(reason);
}

Inbound* Connection::inbound() const noexcept {
  return incarnation_ != nullptr ? &incarnation_->inbound() : leftovers_.get();
}

void Connection::drop_leftovers() noexcept {
  leftovers_.reset();
  update_gauges();  // keepalives, which update them otherwise, have ended
}

// ---- host ---------------------------------------------------------------------------------------

/// Drops the frames of the old incarnation that the driver has not taken by now. If there were any, the new
/// incarnation begins one interval later.
void Connection::retry() noexcept {
  if (leftovers_ != nullptr && !leftovers_->empty()) {
    connect_at_ = context_.now + context_.config.limits.connect_interval;
    leftovers_->drop_all();
    return drop_leftovers();
  }
  enter(SessionState::kConnecting);
  ask();
}

/// Sends REQ; makes the incarnation before the first one.
void Connection::ask() noexcept {
  connect_at_ = context_.now + connect_delay_;
  if (const Status status = port_.open(); !status) return no_memory(status);
  if (incarnation_ == nullptr) {
    const SessionConfig& config = context_.config;
    context_.peer = {.lid = config.unit,
                     .nonce = context_.random.next(),
                     .mode = config.mode,
                     .encoding = config.encoding,
                     .acks = config.acks};
    peer_id_ = 0;
    if (const Status status = begin_incarnation(); !status) return no_memory(status);
  }
  if (!incarnation_->channels().port_up()) return;
  context_.count(C::kConnectRequests);
  send(CmAttribute::kReq);
}

/// An attempt failed for want of memory; the next one follows after the interval.
void Connection::no_memory(const Status& status) noexcept {
  context_.count(C::kLostNoMemory);
  refusal_ = SessionRefusal::kNoMemory;
  if (context_.message_log.allow(context_.now))
    log(LogLevel::kError, "{}: {}", context_.config.name, status.error().text);
}

void Connection::send(CmAttribute kind) noexcept {
  SessionMad message{.kind = kind, .nonce = context_.peer.nonce, .labels = labels(kind)};
  if (kind == CmAttribute::kReq || kind == CmAttribute::kRep) message.offer = incarnation_->offer();
  if (kind == CmAttribute::kRep) {
    message.offer.frame_bytes_max = context_.peer.frame_bytes_max;
    message.offer.features = static_cast<uint32_t>(context_.peer.features);
  }
  (void)port_.send(message, context_.peer.lid, context_.config.sl);
}

/// The halves of the nonce serve as the two sides' numbers of the session.
SessionLabels Connection::labels(CmAttribute kind) const noexcept {
  const uint64_t nonce = context_.peer.nonce;
  const auto own = static_cast<uint32_t>(context_.is_host() ? nonce : nonce >> 32);
  return {.local_id = own,
          .remote_id = peer_id_,
          .remote_qpn = kind == CmAttribute::kDreq ? peer_control_ : Qpn()};
}

void Connection::bind_peer(const SessionDatagram& reply) noexcept {
  const SessionOffer& offer = reply.message.offer;
  if (!good_reply(incarnation_->offer(), offer)) {
    context_.count(C::kConnectMalformed);
    refusal_ = SessionRefusal::kMalformed;
    return;
  }
  if (const Status status = status_with_memory([&] { return incarnation_->connect(reply.lid, offer); });
      !status) {
    log(LogLevel::kError, "{}: {}", context_.config.name, status.error().text);
    return incarnation_->end().lose(C::kLostQpError);
  }
  context_.peer.mac = offer.mac;
  context_.peer.frame_bytes_max = offer.frame_bytes_max;
  context_.peer.features = context_.peer.offered_features = static_cast<Offload>(offer.features);
  peer_id_ = reply.message.labels.local_id;
  peer_control_ = offer.control.qpn;
  refusal_ = SessionRefusal::kNone;
  incarnation_->allow_sending();
  incarnation_->watch().heard();
  incarnation_->watch().start();
  send(CmAttribute::kRtu);
  enter(SessionState::kOpening);
}

void Connection::be_refused(const SessionMad& reject) noexcept {
  context_.count(C::kConnectRefused);
  refusal_ = static_cast<SessionRefusal>(
      std::min<uint16_t>(reject.reason, static_cast<uint16_t>(SessionRefusal::kCount)));
  const SessionLimits& limits = context_.config.limits;
  if (connect_delay_ == limits.connect_interval) {
    log(LogLevel::kWarn, "{}: unit {} refuses: {} (it speaks versions {} to {})", context_.config.name,
        context_.peer.lid.value(), to_string(refusal_), reject.version_min, reject.version_max);
  }
  end_incarnation();
  connect_delay_ = std::max(std::min(connect_delay_ * 2, kRefusedDelayMax), limits.connect_interval);
  connect_at_ = context_.now + connect_delay_;
}

// ---- unit ---------------------------------------------------------------------------------------

Status Connection::accept(const SessionDatagram& request, const SessionPeer& peer) noexcept {
  const SessionOffer& offer = request.message.offer;
  context_.peer = peer;
  if (Status status = begin_incarnation(); !status) return status;
  const SessionConfig& config = context_.config;
  context_.peer.frame_bytes_max = std::min(offer.frame_bytes_max, own_frame_max(config, peer.mode));
  context_.peer.offered_features = static_cast<Offload>(offer.features);
  context_.peer.features = context_.rdma()
                               ? static_cast<Offload>(offer.features & static_cast<uint32_t>(config.features))
                               : Offload::kNone;
  if (Status status = status_with_memory([&] { return incarnation_->connect(request.lid, offer); });
      !status) {
    incarnation_.reset();
    return status;
  }
  peer_id_ = request.message.labels.local_id;
  peer_control_ = offer.control.qpn;
  incarnation_->watch().heard();
  on(ConnectionEvent::kAccepted);
  return {};
}

void Connection::replace() noexcept {
  if (incarnation_ == nullptr) return;
  be_left(C::kLostReplaced);
  on(ConnectionEvent::kEnded);
}

// ---- open and closing ---------------------------------------------------------------------------

void Connection::begin_frames() noexcept {
  opened_at_ = context_.now;
  incarnation_->watch().start();
  context_.count(C::kOpened);
  const SessionPeer& peer = context_.peer;
  log(LogLevel::kInfo, "{}: session with lid {} open, {} {}, frames to {} bytes", context_.config.name,
      peer.lid.value(), to_string(peer.mode), to_string(peer.encoding), peer.frame_bytes_max);
  enter(SessionState::kOpen);
}

void Connection::finish_flush() noexcept {
  send(CmAttribute::kDreq);
  end_incarnation();
  update_gauges();
  context_.count(C::kClosed);
  enter(SessionState::kIdle);
}

// ---- what is where ------------------------------------------------------------------------------

SessionConservation Connection::conservation() const noexcept {
  SessionConservation out;
  if (incarnation_ != nullptr) {
    incarnation_->account(out);
  } else if (leftovers_ != nullptr) {
    leftovers_->account(out);
  }
  return out;
}

ChannelTotals& Connection::channel_totals() noexcept {
  // The checker follows the end of the incarnation but not that it is asked again here.
  if (incarnation_ != nullptr)
    incarnation_->channels().update_totals();  // NOLINT(clang-analyzer-cplusplus.Move)
  return store_.totals;
}

void Connection::update_gauges() noexcept {
  (void)channel_totals();
  const SessionConservation now = conservation();
  CounterSet<SessionGauge>& gauges = context_.gauges;
  gauges.set(SessionGauge::kIncarnation, incarnations_);
  gauges.set(SessionGauge::kOwnExposed, now.own_exposed);
  gauges.set(SessionGauge::kOwnIndicated, now.own_indicated);
  gauges.set(SessionGauge::kOwnFreed, now.own_freed);
  gauges.set(SessionGauge::kPeerElements, now.peer_elements);
  gauges.set(SessionGauge::kPeerFree, now.peer_free);
  gauges.set(SessionGauge::kFramesInFlight, now.frames_in_flight);
  gauges.set(SessionGauge::kFramesWaiting, now.frames_waiting);
  gauges.set(SessionGauge::kPeerLid, context_.peer.lid.value());
}

}  // namespace weft::session
