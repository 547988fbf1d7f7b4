// How it works. The host makes its queue pairs, sends REQ to QP1 of the unit and repeats it every
// connect_interval with the same nonce until REP or REJ comes. The unit makes its side on the first REQ and
// answers every further one with the same REP. On REP the host goes to RTS, sends RTU and advertises its
// pools; RTU, or any message on channel 0, allows the unit to advertise its own. A side is open when it has
// learnt a pool of the other. Closing goes in order: frames under way, flush of both sides' pools, DREQ; each
// step ends at the latest at close_deadline_.
#include <algorithm>

#include "base/log.h"
#include "session/session_core.h"

namespace weft::session {

namespace {

constexpr uint32_t kSendDataOverhead = 192;    // SendData in the longer encoding, and alignment
constexpr uint32_t kReservedControlSlots = 8;  // decisions 2.19
constexpr uint32_t kRdmaControlSlots = 128;
constexpr uint32_t kControlSends = 64;
constexpr uint32_t kReceiveSlotsMax = 1024;
constexpr Duration kRefusedDelayMax = std::chrono::seconds(1);
constexpr uint32_t kFramesInRingMin = 4;

static_assert(kOwnElementBytesMin == kVnetBytes + kSessionFrameBytesMin);
static_assert(kOwnElementsTogetherMax * SessionLimits{}.pools_per_class + kRdmaControlSlots <=
              adapter::AdapterLimits{}.cqes_per_queue);

constexpr uint32_t round_up(uint32_t value, uint32_t to) {
  return (value + to - 1) / to * to;
}

}  // namespace

// ---- an incarnation -----------------------------------------------------------------------------

/// Largest Ethernet frame we can take in this mode.
uint32_t NetdevSession::Core::own_frame_max(TransferMode mode) const noexcept {
  if (mode != TransferMode::kRdma) return std::min(config_.frame_bytes_max, kJumboFrameBytes);
  return std::min(config_.frame_bytes_max, config_.pools.back().element_bytes - kVnetBytes);
}

uint32_t NetdevSession::Core::receive_slots() const noexcept {
  return std::min(config_.pools.front().elements, kReceiveSlotsMax);
}

ChannelSizes NetdevSession::Core::sizes_for(TransferMode mode) const noexcept {
  const uint32_t frame = own_frame_max(mode) + kVnetBytes;
  ChannelSizes sizes{
      .mode = mode,
      .message_bytes = kSessionMessageBytesMin,
      .control_sends = kControlSends,
      .control_recvs = kRdmaControlSlots,
      .frame_sends = config_.limits.send_slots,
      .send_ring_bytes = std::max(config_.limits.send_ring_bytes,
                                  kFramesInRingMin * round_up(frame + kSendDataOverhead, 4096)),
      .sl = config_.sl,
      .port = config_.port};
  switch (mode) {
    case TransferMode::kRdma:
      for (const PoolClass& pools : config_.pools) {
        sizes.indications += pools.elements * std::max(1U, config_.limits.pools_per_class);
      }
      break;
    case TransferMode::kSendReceive:
      // Every renewal gives at least one credit back, so there are never more of them under way than credits.
      sizes.frame_recvs = receive_slots();
      sizes.control_recvs = receive_slots() + kReservedControlSlots + kControlSends;
      break;
    case TransferMode::kSendDataOnly:
      sizes.control_recvs = 2 * receive_slots() + kReservedControlSlots + kControlSends;
      sizes.message_bytes = std::max(kSessionMessageBytesMin, round_up(frame + kSendDataOverhead, 64));
      break;
  }
  return sizes;
}

Status NetdevSession::Core::begin_incarnation(TransferMode mode) {
  drop_inbound();
  earlier_ = nullptr;
  own_pools_.clear();
  next_reference_ = first_reference();
  next_receive_slot_ = 0;
  peer_.mode = mode;
  const ChannelSizes sizes = sizes_for(mode);
  if (Status status = channels_.create(sizes); !status) return status;
  slot_indications_.assign(sizes.control_recvs + sizes.control_sends, 0);
  inbound_.reset(std::max(sizes.indications, receive_slots()));
  frames_indicated_ = frames_released_ = 0;
  frames_arrived_ = frames_promised_ = 0;
  frames_told_ = {};
  indicate_mode_ = config_.force_indicate;
  Status status = make_pools();
  if (!status) channels_.destroy();
  missed_packets_ = channels_.missed_packets();
  get_at_ = grow_at_ = Instant::min();
  get_interval_ = config_.limits.connect_interval;
  port_down_since_ = kNever;
  port_up_at_ = probed_at_ = now_;
  ++incarnation_;
  return status;
}

Status NetdevSession::Core::make_pools() {
  if (peer_.mode != TransferMode::kRdma) return make_receive_slots();
  for (uint32_t i = 0; i < config_.pools.size(); ++i) {
    if (Status status = add_pool(i); !status) return status;
  }
  return {};
}

/// Takes memory for one more pool of a class and registers it; the advertisement follows (PUSH-RDMAW-01).
Status NetdevSession::Core::add_pool(uint32_t pool_class) {
  const PoolClass& shape = config_.pools[pool_class];
  PoolMemory memory = PoolMemory::allocate(size_t{shape.elements} * shape.element_bytes);
  if (!memory) return Error{"out of memory for a receive pool"};
  Result<adapter::MemoryRegion> region = channels_.register_memory(memory.span(), true);
  if (!region) return region.error();
  const uint64_t context = config_.random_pool_context ? random_.next() : 0;
  auto pool = std::make_unique<RecvPool>(RecvPool::Shape{.reference = next_reference_,
                                                         .elements = shape.elements,
                                                         .element_bytes = shape.element_bytes,
                                                         .context = context},
                                         std::move(memory));
  pool->expose(region->rkey, region->addr, region->lkey);
  next_reference_ += kPoolReferenceStep;
  own_pools_.push_back({.pool = std::move(pool), .pool_class = pool_class, .advert_pending = true});
  return {};
}

/// Modes without RDMA: one pool that is the receive WQEs (decisions 2.19).
Status NetdevSession::Core::make_receive_slots() {
  const uint32_t slot_bytes = round_up(own_frame_max(peer_.mode) + kVnetBytes, 64);
  PoolMemory memory = PoolMemory::allocate(size_t{receive_slots()} * slot_bytes);
  if (!memory) return Error{"out of memory for receive slots"};
  Result<adapter::MemoryRegion> region = channels_.register_memory(memory.span(), false);
  if (!region) return region.error();
  auto pool = std::make_unique<RecvPool>(RecvPool::Shape{.reference = kPoolOfReceiveWqes,
                                                         .elements = receive_slots(),
                                                         .element_bytes = slot_bytes,
                                                         .context = 0},
                                         std::move(memory));
  pool->expose(Rkey(), region->addr, region->lkey);
  own_pools_.push_back({.pool = std::move(pool), .pool_class = 0, .advert_pending = true});
  for (uint32_t slot = 0; slot < receive_slots(); ++slot) {
    if (!repost_receive(*own_pools_.back().pool, slot))
      return Error{"channel 1 takes no receive work requests"};
  }
  return {};
}

CmOffer NetdevSession::Core::make_offer() const noexcept {
  return {.encoding = static_cast<uint8_t>(peer_.encoding),
          .mode = static_cast<uint8_t>(peer_.mode),
          .idata_format = static_cast<uint8_t>(IdataFormat::kPoolElementSize),
          .channels = static_cast<uint8_t>(peer_.mode == TransferMode::kSendDataOnly ? 1 : 2),
          .control = channels_.control_channel(),
          .data = channels_.data_channel(),
          .frame_bytes_max = own_frame_max(peer_.mode),
          .features = peer_.mode == TransferMode::kRdma ? static_cast<uint32_t>(config_.features) : 0,
          .mac = config_.mac,
          .message_bytes = channels_.sizes().message_bytes};
}

// ---- host ---------------------------------------------------------------------------------------

void NetdevSession::Core::open() noexcept {
  if (config_.role != SessionRole::kHost || state_ != SessionState::kIdle) return;
  connect_delay_ = config_.limits.connect_interval;
  connect_at_ = now_;
  enter(SessionState::kConnecting);
}

int NetdevSession::Core::poll_connect() noexcept {
  int work = 0;
  if (own_cm_ != nullptr) {
    CmDatagram datagram;
    for (int i = 0; i < 8; ++i) {
      const CmReceive got = own_cm_->receive(datagram);
      if (got == CmReceive::kNone) break;
      ++work;
      if (got == CmReceive::kMalformed) {
        counters_.add(C::kConnectMalformed);
      } else if (datagram.lid == config_.unit && live() && datagram.message.nonce == peer_.nonce) {
        on_datagram(datagram);
      }
    }
  }
  // A driver that still holds frames of the old incarnation gets until the next attempt to let go.
  if (state_ == SessionState::kLost && now_ >= connect_at_) {
    if (!inbound_.empty()) {
      connect_at_ = now_ + config_.limits.connect_interval;
      drop_inbound();
      return work;
    }
    enter(SessionState::kConnecting);
  }
  if (state_ == SessionState::kConnecting && now_ >= connect_at_ && !loss_) {
    ask();
    ++work;
  }
  return work;
}

/// Sends REQ; makes the incarnation before the first one.
void NetdevSession::Core::ask() noexcept {
  connect_at_ = now_ + connect_delay_;
  if (own_cm_ == nullptr) own_cm_ = std::make_unique<CmEndpoint>(adapter_);
  if (!own_cm_->is_open()) {
    if (const Status status = own_cm_->open(Qpn(), config_.port); !status) {
      return no_memory(status);
    }
  }
  if (!live()) {
    peer_ = {.lid = config_.unit, .nonce = random_.next(), .encoding = config_.encoding};
    if (const Status status = begin_incarnation(config_.mode); !status) {
      return no_memory(status);
    }
    peer_cm_qpn_ = kQpnGsi;
  }
  if (!channels_.port_up()) return;
  counters_.add(C::kConnectRequests);
  send_cm(CmKind::kReq);
}

/// An attempt that could not be made; the next one follows.
void NetdevSession::Core::no_memory(const Status& status) noexcept {
  counters_.add(C::kLostNoMemory);
  refusal_ = SessionRefusal::kNoMemory;
  if (message_log_.allow(now_)) log(LogLevel::kError, "{}: {}", config_.name, status.error().text);
}

void NetdevSession::Core::send_cm(CmKind kind) noexcept {
  if (cm() == nullptr) return;
  CmMessage message{.kind = kind, .nonce = peer_.nonce, .offer = {}};
  if (kind == CmKind::kReq || kind == CmKind::kRep) message.offer = make_offer();
  if (kind == CmKind::kRep) {
    message.offer.frame_bytes_max = peer_.frame_bytes_max;
    message.offer.features = static_cast<uint32_t>(peer_.features);
  }
  (void)cm()->send(message, peer_.lid, peer_cm_qpn_, config_.sl);
}

void NetdevSession::Core::on_datagram(const CmDatagram& datagram) noexcept {
  const bool host = config_.role == SessionRole::kHost;
  switch (datagram.message.kind) {
    case CmKind::kReq:
      if (!host) send_cm(CmKind::kRep);  // asked again: the first answer was lost
      break;
    case CmKind::kRep:
      if (host) on_reply(datagram);
      break;
    case CmKind::kRej:
      if (host) on_reject(datagram);
      break;
    case CmKind::kRtu:
      if (!host && state_ == SessionState::kOpening) {
        heard();
        connected_ = true;
      }
      break;
    case CmKind::kDreq:
      send_cm(CmKind::kDrep);
      if (state_ != SessionState::kConnecting) fail(C::kLostPeerLeft);
      break;
    case CmKind::kDrep:
      break;
  }
}

/// A unit mirrors what was asked and may only take away.
bool NetdevSession::Core::good_reply(const CmOffer& offer) const noexcept {
  const CmOffer own = make_offer();
  return offer.version_min == kNetdevVersion && offer.version_max == kNetdevVersion &&
         offer.encoding == own.encoding && offer.mode == own.mode && offer.idata_format == own.idata_format &&
         offer.channels == own.channels && offer.frame_bytes_max <= own.frame_bytes_max &&
         offer.frame_bytes_max >= kSessionFrameBytesMin && (offer.features & ~own.features) == 0 &&
         offer.message_bytes >= kSessionMessageBytesMin;
}

void NetdevSession::Core::on_reply(const CmDatagram& datagram) noexcept {
  if (state_ != SessionState::kConnecting) {
    if (state_ == SessionState::kOpening) send_cm(CmKind::kRtu);  // REP again: RTU was lost
    return;
  }
  const CmOffer& offer = datagram.message.offer;
  if (!good_reply(offer)) {
    counters_.add(C::kConnectMalformed);
    refusal_ = SessionRefusal::kMalformed;
    return;
  }
  if (const Status status = channels_.connect(datagram.lid, offer.control, offer.data); !status) {
    log(LogLevel::kError, "{}: {}", config_.name, status.error().text);
    return fail(C::kLostQpError);
  }
  peer_.mac = offer.mac;
  peer_.frame_bytes_max = offer.frame_bytes_max;
  peer_.features = static_cast<Offload>(offer.features);
  peer_.offered_features = peer_.features;
  peer_message_bytes_ = offer.message_bytes;
  peer_cm_qpn_ = datagram.qpn;
  connected_ = true;
  refusal_ = SessionRefusal::kNone;
  heard();
  keepalive_at_ = now_ + config_.limits.keepalive_interval;
  send_cm(CmKind::kRtu);
  enter(SessionState::kOpening);
}

void NetdevSession::Core::on_reject(const CmDatagram& datagram) noexcept {
  const bool forgotten = datagram.message.reason == static_cast<uint16_t>(SessionRefusal::kUnknownSession);
  if (forgotten && state_ != SessionState::kConnecting) return fail(C::kLostForgotten);
  if (forgotten || state_ != SessionState::kConnecting) return;
  counters_.add(C::kConnectRefused);
  refusal_ = static_cast<SessionRefusal>(
      std::min<uint16_t>(datagram.message.reason, static_cast<uint16_t>(SessionRefusal::kCount)));
  if (connect_delay_ == config_.limits.connect_interval) {
    log(LogLevel::kWarn, "{}: unit {} refuses: {} (it speaks versions {} to {})", config_.name,
        peer_.lid.value(), to_string(refusal_), datagram.message.version_min, datagram.message.version_max);
  }
  channels_.destroy();
  own_pools_.clear();
  connect_delay_ = std::max(std::min(connect_delay_ * 2, kRefusedDelayMax), config_.limits.connect_interval);
  connect_at_ = now_ + connect_delay_;
}

/// The first pool of the peer is known: frames may move.
void NetdevSession::Core::opened() noexcept {
  if (state_ != SessionState::kOpening) return;
  opened_at_ = now_;
  keepalive_at_ = now_ + config_.limits.keepalive_interval;
  counters_.add(C::kOpened);
  log(LogLevel::kInfo, "{}: session with lid {} open, {} {}, frames to {} bytes", config_.name,
      peer_.lid.value(), to_string(peer_.mode), to_string(peer_.encoding), peer_.frame_bytes_max);
  enter(SessionState::kOpen);
}

// ---- unit ---------------------------------------------------------------------------------------

Status NetdevSession::Core::accept(const CmDatagram& request, const SessionPeer& peer, CmEndpoint& listener,
                                   Instant now) {
  now_ = now;
  const CmOffer& offer = request.message.offer;
  peer_ = peer;
  if (Status status = begin_incarnation(peer.mode); !status) return status;
  const bool is_rdma = peer.mode == TransferMode::kRdma;
  peer_.frame_bytes_max = std::min(offer.frame_bytes_max, own_frame_max(peer.mode));
  peer_.offered_features = static_cast<Offload>(offer.features);
  peer_.features =
      static_cast<Offload>(is_rdma ? offer.features & static_cast<uint32_t>(config_.features) : 0);
  peer_message_bytes_ = offer.message_bytes;
  if (Status status = channels_.connect(request.lid, offer.control, offer.data); !status) {
    channels_.destroy();
    return status;
  }
  listener_ = &listener;
  peer_cm_qpn_ = request.qpn;
  heard();
  send_cm(CmKind::kRep);
  enter(SessionState::kOpening);
  return {};
}

void NetdevSession::Core::replace() noexcept {
  while (poll_receives() != 0) {
  }
  fail(C::kLostReplaced);
  if (loss_) teardown();
}

// ---- closing ------------------------------------------------------------------------------------

void NetdevSession::Core::close() noexcept {
  if (state_ == SessionState::kIdle || state_ == SessionState::kClosing) return;
  if (!live() || state_ == SessionState::kConnecting) {
    finish_close();
    return enter(SessionState::kIdle);
  }
  close_deadline_ = now_ + config_.limits.flush_timeout;
  enter(SessionState::kClosing);
}

/// PUSH-FLUSH-01: every live pool of both sides is flushed before the connection ends.
void NetdevSession::Core::step_close() noexcept {
  if (now_ >= close_deadline_) {
    counters_.add(C::kFlushTimedOut);
    send_cm(CmKind::kDreq);
    return finish_close();
  }
  if (!connected_ || (!out_.empty() && !remote_.empty()) || !indications_.empty()) return;
  BufferPoolFlushRequest own;
  for (const OwnPool& pool : own_pools_) {
    if (pool.pool->live() && pool.pool->reference() != kPoolOfReceiveWqes)
      own.pools.push_back(pool.pool->reference());
  }
  BufferPoolFlushRequest peers;
  for (const uint32_t reference : remote_.references()) {
    if (reference != kPoolOfReceiveWqes) peers.pools.push_back(reference);
  }
  if (!ask_flush(own, own_flush_) || !ask_flush(peers, peer_flush_)) return;
  if (!own_flush_.done || !peer_flush_.done) return;
  send_cm(CmKind::kDreq);
  finish_close();
}

}  // namespace weft::session
