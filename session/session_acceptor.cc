// How it works. One UD queue pair with number 1 takes every datagram. A REQ is checked in this order: rate,
// existing session, version, encoding, mode, idata format, frame size, MAC address, sessions of its LID,
// policy, offences of the session that it ends, room. The first failed check goes into the REJ; there is none
// for the rate and after an offence. A REQ with the nonce of a live session is answered
// as before; one with a new nonce from a host whose LID and MAC address have a session means that this host
// has come back, and ends the old session. A session's MAC address is that of its REQ until the host sets
// another one; a host may come back under either. Everything else must name a session by nonce and source
// LID.
#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "base/log.h"
#include "base/stats_page.h"
#include "session/endpoint.h"

namespace weft::session {

namespace {

constexpr uint32_t kDatagramsPerTurn = 16;
constexpr size_t kRememberedLids = 256;
constexpr Duration kRateWindow = std::chrono::seconds(1);
constexpr Duration kListenRetry = std::chrono::milliseconds(100);

/// Recent requests of one LID, and its waiting time after violations (decisions section 4).
struct Asker {
  Lid lid;
  uint32_t requests = 0;  // in this window
  Instant window_end = Instant::min();
  Duration penalty{};
  Instant not_before = Instant::min();
};

AcceptorCounter counter_of(SessionRefusal refusal) noexcept {
  switch (refusal) {
    case SessionRefusal::kVersion:
      return AcceptorCounter::kRefusedVersion;
    case SessionRefusal::kEncoding:
      return AcceptorCounter::kRefusedEncoding;
    case SessionRefusal::kMode:
      return AcceptorCounter::kRefusedMode;
    case SessionRefusal::kIdataFormat:
      return AcceptorCounter::kRefusedIdataFormat;
    case SessionRefusal::kFrameBytes:
      return AcceptorCounter::kRefusedFrameBytes;
    case SessionRefusal::kMacTaken:
      return AcceptorCounter::kRefusedMacTaken;
    case SessionRefusal::kSessionsFull:
      return AcceptorCounter::kRefusedFull;
    case SessionRefusal::kNoMemory:
      return AcceptorCounter::kRefusedMemory;
    case SessionRefusal::kMalformed:
      return AcceptorCounter::kMalformed;
    case SessionRefusal::kUnknownSession:
      return AcceptorCounter::kUnknownSession;
    case SessionRefusal::kLidFull:
      return AcceptorCounter::kRefusedLidFull;
    case SessionRefusal::kNone:
    case SessionRefusal::kPolicy:
    case SessionRefusal::kCount:
      break;
  }
  return AcceptorCounter::kRefusedPolicy;
}

}  // namespace

class SessionAcceptor::Core {
 public:
  Core(const AcceptorConfig& config, SessionPorts& ports, RandomSource& random)
      : config_(config),
        ports_(ports),
        random_(random),
        port_(ports.at(config.session.port)),
        mailbox_(port_, kLidNone) {
    config_.session.role = SessionRole::kUnit;
    sessions_.reserve(config_.hosts_max);
    views_.reserve(config_.hosts_max);
  }

  int poll(Instant now) noexcept;
  [[nodiscard]] Instant deadline() const noexcept;
  void close() noexcept;
  [[nodiscard]] bool all_idle() const noexcept;
  void set_events(AcceptorEvents* events) noexcept;
  void publish(StatsPage& page, std::string_view prefix);

  [[nodiscard]] std::span<NetdevSession* const> sessions() noexcept { return views_; }
  [[nodiscard]] const CounterSet<AcceptorCounter>& counters() const noexcept { return counters_; }

 private:
  int poll_listener(Instant now) noexcept;
  void on_request(const SessionDatagram& datagram, Instant now) noexcept;
  void on_unknown(const SessionDatagram& datagram, Instant now) noexcept;
  [[nodiscard]] SessionRefusal judge(const SessionDatagram& datagram, SessionPeer& peer) noexcept;
  [[nodiscard]] bool mode_allowed(uint8_t mode) const noexcept;
  [[nodiscard]] SessionRefusal check_mac(const SessionPeer& peer) noexcept;
  [[nodiscard]] bool has_address(const SessionPeer& peer) const noexcept;
  [[nodiscard]] size_t others_of(const SessionPeer& peer) const noexcept;
  [[nodiscard]] SessionRefusal start(const SessionDatagram& datagram, const SessionPeer& peer,
                                     SessionEndpoint* earlier, Instant now) noexcept;
  [[nodiscard]] bool within_rate(Lid lid, Instant now) noexcept;
  [[nodiscard]] Asker& asker(Lid lid) noexcept;
  [[nodiscard]] SessionEndpoint* find(uint64_t nonce, Lid lid) noexcept;
  [[nodiscard]] SessionEndpoint* end_earlier(const SessionPeer& peer, Instant now) noexcept;
  [[nodiscard]] SessionEndpoint* free_session();
  void reject(const SessionDatagram& datagram, SessionRefusal refusal) noexcept;
  void punish_violation(SessionEndpoint& session, Instant now) noexcept;
  [[nodiscard]] std::string session_prefix(size_t index) const {
    return fmt::format("{}.session.{}", prefix_, index);
  }

  AcceptorConfig config_;
  SessionPorts& ports_;
  RandomSource& random_;
  AcceptorEvents* events_ = nullptr;
  CounterSet<AcceptorCounter> counters_;
  StatsPage* page_ = nullptr;
  std::string prefix_;
  SessionPort& port_;
  SessionMailbox mailbox_;
  Instant listen_at_ = Instant::min();
  bool closed_ = false;
  std::vector<std::unique_ptr<SessionEndpoint>> sessions_;
  std::vector<NetdevSession*> views_;  // the same sessions, as NetdevSession
  std::array<Asker, kRememberedLids> askers_;
  LogLimiter refusal_log_{std::chrono::seconds(1)};
};

int SessionAcceptor::Core::poll(Instant now) noexcept {
  int work = poll_listener(now);
  for (const auto& session : sessions_) {
    work += session->poll(now);
    punish_violation(*session, now);
  }
  return work;
}

int SessionAcceptor::Core::poll_listener(Instant now) noexcept {
  if (!port_.is_open()) {
    if (now < listen_at_ || closed_) return 0;
    listen_at_ = now + kListenRetry;
    if (const Status status = port_.open(); !status) {
      log(LogLevel::kError, "{}: cannot listen: {}", config_.session.name, status.error().text);
      return 0;
    }
  }
  int work = 0;
  SessionDatagram datagram;
  for (uint32_t i = 0; i < kDatagramsPerTurn; ++i) {
    const SessionReceive got = mailbox_.receive(now, datagram);
    if (got == SessionReceive::kNone) break;
    ++work;
    if (got == SessionReceive::kMalformed) {
      counters_.add(AcceptorCounter::kMalformed);
      continue;
    }
    SessionEndpoint* session = find(datagram.message.nonce, datagram.lid);
    if (datagram.message.kind == CmAttribute::kReq) counters_.add(AcceptorCounter::kRequests);
    if (session != nullptr) {
      if (datagram.message.kind == CmAttribute::kReq) counters_.add(AcceptorCounter::kRepeated);
      session->on_datagram(datagram);
      punish_violation(*session, now);
    } else if (datagram.message.kind == CmAttribute::kReq) {
      on_request(datagram, now);
    } else if (datagram.message.kind == CmAttribute::kRtu) {
      on_unknown(datagram, now);
    } else {
      counters_.add(AcceptorCounter::kUnknownMessage);
    }
  }
  return work;
}

void SessionAcceptor::Core::on_request(const SessionDatagram& datagram, Instant now) noexcept {
  if (!within_rate(datagram.lid, now)) return counters_.add(AcceptorCounter::kRefusedRate);
  SessionPeer peer;
  SessionRefusal refusal = closed_ ? SessionRefusal::kPolicy : judge(datagram, peer);
  if (refusal == SessionRefusal::kNone) {
    SessionEndpoint* earlier = end_earlier(peer, now);
    if (now < asker(peer.lid).not_before) return counters_.add(AcceptorCounter::kRefusedRate);
    refusal = start(datagram, peer, earlier, now);
  }
  if (refusal == SessionRefusal::kNone) return counters_.add(AcceptorCounter::kAccepted);
  counters_.add(counter_of(refusal));
  if (refusal_log_.allow(now)) {
    log(LogLevel::kWarn, "{}: session asked for by lid {} refused: {}", config_.session.name,
        datagram.lid.value(), to_string(refusal));
  }
  reject(datagram, refusal);
}

/// Tells a host that the unit does not know its session, because the unit restarted or gave the session up.
/// The answer is safe: it goes to the source LID, which the switch has checked, and names a nonce that only
/// that host knows.
void SessionAcceptor::Core::on_unknown(const SessionDatagram& datagram, Instant now) noexcept {
  if (!within_rate(datagram.lid, now)) return counters_.add(AcceptorCounter::kRefusedRate);
  counters_.add(AcceptorCounter::kUnknownSession);
  reject(datagram, SessionRefusal::kUnknownSession);
}

bool SessionAcceptor::Core::mode_allowed(uint8_t mode) const noexcept {
  switch (static_cast<TransferMode>(mode)) {
    case TransferMode::kRdma:
      return config_.allow_rdma && ports_.adapter().limits().inbound_rdma;  // C-16
    case TransferMode::kSendReceive:
      return config_.allow_send_receive;
    case TransferMode::kSendDataOnly:
      return config_.allow_send_data_only;
  }
  return false;
}

SessionRefusal SessionAcceptor::Core::judge(const SessionDatagram& datagram, SessionPeer& peer) noexcept {
  const SessionOffer& offer = datagram.message.offer;
  if (offer.version_min > kNetdevVersion || offer.version_max < kNetdevVersion)
    return SessionRefusal::kVersion;
  const bool known_encoding = offer.encoding == static_cast<uint8_t>(MessageEncoding::kCapnp) ||
                              offer.encoding == static_cast<uint8_t>(MessageEncoding::kBytes);
  if (!known_encoding) return SessionRefusal::kEncoding;
  if (!mode_allowed(offer.mode)) return SessionRefusal::kMode;
  if (offer.idata_format != static_cast<uint8_t>(IdataFormat::kPoolElementSize))
    return SessionRefusal::kIdataFormat;
  peer = {.lid = datagram.lid,
          .nonce = datagram.message.nonce,
          .mac = offer.mac,
          .mac_at_opening = offer.mac,
          .mode = static_cast<TransferMode>(offer.mode),
          .encoding = static_cast<MessageEncoding>(offer.encoding),
          .acks = static_cast<AckPolicy>(offer.acks),
          .frame_bytes_max = offer.frame_bytes_max,
          .offered_features = static_cast<Offload>(offer.features)};
  const bool one_channel = peer.mode == TransferMode::kSendDataOnly;
  if (offer.channels != (one_channel ? 1 : 2)) return SessionRefusal::kMalformed;
  // Strict acknowledgements need an acknowledged channel.
  const bool acknowledged = peer.mode != TransferMode::kSendReceive;
  if (peer.acks != AckPolicy::kSelective && (peer.acks != AckPolicy::kStrict || !acknowledged))
    return SessionRefusal::kMalformed;
  if (offer.frame_bytes_max < kSessionFrameBytesMin || offer.frame_bytes_max > kPoolElementBytesMax ||
      offer.message_bytes < kSessionMessageBytesMin) {
    return SessionRefusal::kFrameBytes;
  }
  if (const SessionRefusal refusal = check_mac(peer); refusal != SessionRefusal::kNone) return refusal;
  if (others_of(peer) >= config_.sessions_per_lid) return SessionRefusal::kLidFull;
  return events_ != nullptr ? events_->admit(peer) : SessionRefusal::kNone;
}

/// A MAC address belongs to one session; its host may come back under a new nonce (decisions 2.12, 2.22).
SessionRefusal SessionAcceptor::Core::check_mac(const SessionPeer& peer) noexcept {
  for (const auto& session : sessions_) {
    if (!session->live() || session->peer().mac != peer.mac) continue;
    if (session->peer().lid != peer.lid && peer.mac != MacAddress{}) return SessionRefusal::kMacTaken;
  }
  return SessionRefusal::kNone;
}

/// True if one of the LID's sessions has this MAC address now. Otherwise the earlier session of `peer` is the
/// one that opened with it: its host had set another address and is back without it.
bool SessionAcceptor::Core::has_address(const SessionPeer& peer) const noexcept {
  return std::any_of(sessions_.begin(), sessions_.end(), [&](const auto& session) {
    return !session->reusable() && session->peer().lid == peer.lid && session->peer().mac == peer.mac;
  });
}

/// Session objects that the LID of `peer` occupies under other MAC addresses, held frames included.
size_t SessionAcceptor::Core::others_of(const SessionPeer& peer) const noexcept {
  const auto address = has_address(peer) ? &SessionPeer::mac : &SessionPeer::mac_at_opening;
  return static_cast<size_t>(std::count_if(sessions_.begin(), sessions_.end(), [&](const auto& session) {
    return !session->reusable() && session->peer().lid == peer.lid && session->peer().*address != peer.mac;
  }));
}

SessionRefusal SessionAcceptor::Core::start(const SessionDatagram& datagram, const SessionPeer& peer,
                                            SessionEndpoint* earlier, Instant now) noexcept {
  try {
    SessionEndpoint* session = free_session();
    if (session == nullptr && earlier != nullptr) {
      earlier->drop_frames();
      session = free_session();
    }
    if (session == nullptr) return SessionRefusal::kSessionsFull;
    const Status status = session->accept(datagram, peer, now);
    if (status && earlier != nullptr) session->follow(*earlier);
    if (status) return SessionRefusal::kNone;
    log(LogLevel::kError, "{}: {}", config_.session.name, status.error().text);
  } catch (const std::bad_alloc&) {
    log(LogLevel::kError, "{}: out of memory for a session", config_.session.name);
  }
  return SessionRefusal::kNoMemory;
}

/// Ends the host's earlier session. If the driver still holds frames of it, they go before those of the new
/// session; frames of any older session are dropped, so that a host that restarts repeatedly takes two
/// session objects at most. Returns the session that holds frames, if any.
SessionEndpoint* SessionAcceptor::Core::end_earlier(const SessionPeer& peer, Instant now) noexcept {
  const auto address = has_address(peer) ? &SessionPeer::mac : &SessionPeer::mac_at_opening;
  SessionEndpoint* last = nullptr;
  for (const auto& session : sessions_) {
    if (session->peer().*address != peer.mac || session->peer().lid != peer.lid) continue;
    const bool newest = session->live();
    if (newest) session->replace();
    punish_violation(*session, now);
    if (!session->holds_frames()) continue;
    if (last != nullptr) (newest ? *last : *session).drop_frames();
    if (last == nullptr || newest) last = session.get();
  }
  return last;
}

SessionEndpoint* SessionAcceptor::Core::free_session() {
  for (const auto& session : sessions_) {
    if (session->reusable()) return session.get();
  }
  if (sessions_.size() >= config_.hosts_max) return nullptr;
  SessionConfig config = config_.session;
  config.name = fmt::format("{}.{}", config.name, sessions_.size());
  SessionEndpoint& made = *sessions_.emplace_back(std::make_unique<SessionEndpoint>(config, ports_, random_));
  views_.push_back(&made);
  made.set_events(events_);
  if (page_ != nullptr) (void)made.publish(*page_, session_prefix(views_.size() - 1));
  return &made;
}

void SessionAcceptor::Core::reject(const SessionDatagram& datagram, SessionRefusal refusal) noexcept {
  const SessionMad message{.kind = CmAttribute::kRej,
                           .nonce = datagram.message.nonce,
                           .reason = static_cast<uint16_t>(refusal),
                           .version_min = kNetdevVersion,
                           .version_max = kNetdevVersion,
                           .labels = {.remote_id = datagram.message.labels.local_id}};
  (void)port_.send(message, datagram.lid, config_.session.sl);
}

SessionEndpoint* SessionAcceptor::Core::find(uint64_t nonce, Lid lid) noexcept {
  for (const auto& session : sessions_) {
    const SessionPeer& peer = session->peer();
    if (session->live() && peer.nonce == nonce && peer.lid == lid) return session.get();
  }
  return nullptr;
}

// ---- bounds on askers ---------------------------------------------------------------------------

Asker& SessionAcceptor::Core::asker(Lid lid) noexcept {
  Asker* oldest = &askers_.front();
  for (Asker& known : askers_) {
    if (known.lid == lid) return known;
    if (std::max(known.window_end, known.not_before) < std::max(oldest->window_end, oldest->not_before)) {
      oldest = &known;
    }
  }
  *oldest = {.lid = lid};
  return *oldest;
}

bool SessionAcceptor::Core::within_rate(Lid lid, Instant now) noexcept {
  Asker& known = asker(lid);
  if (now >= known.window_end) {
    known.window_end = now + kRateWindow;
    known.requests = 0;
  }
  return ++known.requests <= config_.requests_per_second && now >= known.not_before;
}

/// After a violation the LID has to wait; each violation doubles the time.
void SessionAcceptor::Core::punish_violation(SessionEndpoint& session, Instant now) noexcept {
  if (!session.take_violation()) return;
  Asker& known = asker(session.peer().lid);
  const bool again = now < known.not_before + config_.session.limits.connect_interval_max;
  known.penalty = again && known.penalty != Duration::zero()
                      ? std::min(known.penalty * 2, config_.session.limits.connect_interval_max)
                      : config_.session.limits.connect_interval;
  known.not_before = now + known.penalty;
}

// ---- the rest -----------------------------------------------------------------------------------

Instant SessionAcceptor::Core::deadline() const noexcept {
  Instant next = port_.is_open() || closed_ ? kNever : listen_at_;
  for (NetdevSession* session : views_) next = std::min(next, session->deadline());
  return next;
}

void SessionAcceptor::Core::close() noexcept {
  closed_ = true;
  for (NetdevSession* session : views_) session->close();
}

bool SessionAcceptor::Core::all_idle() const noexcept {
  return std::none_of(sessions_.begin(), sessions_.end(),
                      [](const auto& session) { return session->live(); });
}

void SessionAcceptor::Core::set_events(AcceptorEvents* events) noexcept {
  events_ = events;
  for (NetdevSession* session : views_) session->set_events(events);
}

void SessionAcceptor::Core::publish(StatsPage& page, std::string_view prefix) {
  page_ = &page;
  prefix_ = prefix;
  (void)page.publish(prefix, counters_);
  for (size_t i = 0; i < views_.size(); ++i) {
    (void)views_[i]->publish(page, session_prefix(i));
  }
}

SessionAcceptor::SessionAcceptor(const AcceptorConfig& config, SessionPorts& ports, RandomSource& random)
    : core_(std::make_unique<Core>(config, ports, random)) {}
SessionAcceptor::~SessionAcceptor() = default;
void SessionAcceptor::set_events(AcceptorEvents* events) noexcept {
  core_->set_events(events);
}
void SessionAcceptor::publish(StatsPage& page, std::string_view prefix) {
  core_->publish(page, prefix);
}
int SessionAcceptor::poll(Instant now) noexcept {
  return core_->poll(now);
}
Instant SessionAcceptor::deadline() const noexcept {
  return core_->deadline();
}
void SessionAcceptor::close() noexcept {
  core_->close();
}
bool SessionAcceptor::all_idle() const noexcept {
  return core_->all_idle();
}
std::span<NetdevSession* const> SessionAcceptor::sessions() noexcept {
  return core_->sessions();
}
const CounterSet<AcceptorCounter>& SessionAcceptor::counters() const noexcept {
  return core_->counters();
}

std::string_view to_string(SessionRefusal refusal) noexcept {
  switch (refusal) {
    case SessionRefusal::kNone:
      return "none";
    case SessionRefusal::kVersion:
      return "version";
    case SessionRefusal::kEncoding:
      return "encoding";
    case SessionRefusal::kMode:
      return "mode";
    case SessionRefusal::kIdataFormat:
      return "idata-format";
    case SessionRefusal::kFrameBytes:
      return "frame-bytes";
    case SessionRefusal::kMacTaken:
      return "mac-taken";
    case SessionRefusal::kSessionsFull:
      return "sessions-full";
    case SessionRefusal::kNoMemory:
      return "no-memory";
    case SessionRefusal::kMalformed:
      return "malformed";
    case SessionRefusal::kPolicy:
      return "policy";
    case SessionRefusal::kUnknownSession:
      return "unknown-session";
    case SessionRefusal::kLidFull:
      return "lid-full";
    case SessionRefusal::kCount:
      break;
  }
  return "?";
}

}  // namespace weft::session
