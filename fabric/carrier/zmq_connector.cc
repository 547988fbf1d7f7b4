// How it works: the DEALER connects and reconnects by itself. It queues messages only while a connection
// stands (IMMEDIATE). HELLO carries a fresh nonce and is repeated every second until WELCOME echoes the
// nonce. Then the carrier takes the socket's bursts. The monitor reports a lost connection at once. Silence
// for the silence limit tells of a frozen or vanished switch. In both cases the next HELLO has a new nonce,
// and bursts with an old nonce are dropped.
#include "fabric/carrier/zmq_connector.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>

#include "base/log.h"
#include "fabric/carrier/zmq_carrier.h"
#include "fabric/carrier/zmq_socket.h"
#include "messages/link_hello.h"

namespace weft::fabric {
namespace {

constexpr Duration kReconnectInterval = 1s;
/// A connection takes a moment. Before this time no complaint is logged.
constexpr Duration kConnectPatience = 500ms;
constexpr Duration kHelloInterval = 1s;
constexpr Duration kMonitorInterval = 20ms;
constexpr Duration kProblemLogInterval = 5s;
constexpr int kMessagesPerTurn = 64;
/// A connection that is neither made nor refused for this long leads nowhere. On a busy machine libzmq's
/// thread may run only after seconds.
constexpr Duration kConnectMax = 5s;

/// What the monitor has told last of the connection.
enum class Contact : uint8_t { kUnknown, kRefused, kMade };

constexpr int kHandshakeFailed = ZMQ_EVENT_HANDSHAKE_FAILED_AUTH | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |
                                 ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL;

/// What libzmq's monitor tells, as it stands in the message.
struct MonitorEvent {
  uint16_t kind = 0;
  uint32_t value = 0;
  /// A switch with other keys ends the connection. A handshake that only takes too long is of a switch that
  /// stands still.
  [[nodiscard]] bool stands_for_keys() const noexcept {
    if (kind == ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL) return value == EPIPE || value == ECONNRESET;
    return (kind & kHandshakeFailed) != 0;
  }
};
constexpr size_t kMonitorBytes = sizeof(uint16_t) + sizeof(uint32_t);

/// The DEALER and its monitor. The connector and the current carrier share it.
class Dealer final : public BurstChannel {
 public:
  Dealer(std::unique_ptr<ZmqSocket> socket, std::unique_ptr<ZmqSocket> monitor)
      : socket_(std::move(socket)), monitor_(std::move(monitor)) {}
  ~Dealer() override { zmq_socket_monitor(socket_->raw(), nullptr, 0); }

  bool send_burst(ZmqMessage& message) noexcept override { return socket_->send(message); }
  void pump() noexcept override {
    for (int i = 0; i < kMessagesPerTurn; ++i) {
      ZmqMessage message;
      if (!socket_->receive(message)) return;
      if (carrier_ != nullptr && carrier_->deliver(message)) continue;
      if (carrier_ == nullptr && message.bytes().size() == sizeof(LinkHelloWire))
        answer_ = std::move(message);
    }
  }
  void wait_fds(std::vector<pollfd>& out) const override {
    out.push_back({socket_->fd(), POLLIN, 0});
    out.push_back({monitor_->fd(), POLLIN, 0});
  }
  bool quiet() noexcept override { return !socket_->readable() && !monitor_->readable(); }
  bool gone() const noexcept override { return gone_; }
  void detach() noexcept override { carrier_ = nullptr; }

  void attach(ZmqCarrier& carrier) noexcept {
    carrier_ = &carrier;
    gone_ = false;
  }
  /// Takes the answer to a HELLO if one has come.
  bool take_answer(LinkHello& out) noexcept {
    pump();
    const bool good = decode_link_hello(answer_.bytes(), out) == LinkHelloError::kNone;
    if (good) answer_.widen_connection();
    answer_.clear();
    return good;
  }
  void watch(Instant now) noexcept {
    if (now < watch_at_) return;
    watch_at_ = now + kMonitorInterval;
    ZmqMessage event;
    while (monitor_->receive(event)) {
      MonitorEvent told;
      if (event.bytes().size() < kMonitorBytes || !event.more()) continue;
      std::memcpy(&told.kind, event.bytes().data(), sizeof told.kind);
      std::memcpy(&told.value, event.bytes().data() + sizeof told.kind, sizeof told.value);
      take_event(told);
    }
  }
  [[nodiscard]] Contact contact() const noexcept { return contact_; }
  /// The libzmq event of a failed key handshake since the last call; 0: none.
  int take_failure() noexcept { return std::exchange(failed_, 0); }
  /// libzmq gives up a connection whose key was refused, so the connector starts it again.
  void reconnect(const std::string& endpoint) noexcept {
    zmq_disconnect(socket_->raw(), endpoint.c_str());
    zmq_connect(socket_->raw(), endpoint.c_str());
  }

 private:
  void take_event(const MonitorEvent& told) noexcept {
    if (told.kind == ZMQ_EVENT_CONNECTED) contact_ = Contact::kMade;
    if (told.kind == ZMQ_EVENT_CLOSED) contact_ = Contact::kRefused;
    if (told.kind == ZMQ_EVENT_DISCONNECTED) gone_ = true;
    if (told.stands_for_keys()) failed_ = told.kind;
  }

  std::unique_ptr<ZmqSocket> socket_;
  std::unique_ptr<ZmqSocket> monitor_;
  ZmqCarrier* carrier_ = nullptr;
  ZmqMessage answer_;
  bool gone_ = false;
  Contact contact_ = Contact::kUnknown;
  int failed_ = 0;
  Instant watch_at_ = Instant::min();
};

class ZmqConnector final : public LinkSupervisor {
 public:
  ZmqConnector(const ZmqConnectorConfig& config, std::shared_ptr<Dealer> dealer, RandomSource& random)
      : config_(config), end_(config.link), dealer_(std::move(dealer)), random_(random) {}

  int supervise(LinkSeat& seat, Instant now) noexcept override {
    dealer_->watch(now);
    if (seat.state() == LinkState::kUp) return 0;
    if (std::exchange(was_up_, false)) {
      log(LogLevel::kWarn, "link to {} lost", config_.endpoint);
      hello_at_ = now;
    }
    if (const int failure = dealer_->take_failure(); failure != 0) {
      key_fault_ = describe_key_fault(failure);
      reconnect_at_ = now + kReconnectInterval;
      complain(now, key_fault_, LinkRefusal::kNone);
    }
    if (dealer_->contact() == Contact::kRefused) key_fault_ = {};
    if (now >= reconnect_at_) {
      reconnect_at_ = kNever;
      dealer_->reconnect(config_.endpoint);
    }
    LinkHello answer;
    if (dealer_->take_answer(answer) && answer.boot_nonce == nonce_) return take(seat, answer, now);
    if (now >= hello_at_) say_hello(now);
    return 0;
  }
  void wait_fds(std::vector<pollfd>& out) const override {
    if (!was_up_) dealer_->wait_fds(out);
  }
  Instant deadline() const noexcept override { return was_up_ ? kNever : hello_at_; }
  JoinTrouble trouble() const noexcept override {
    return {trouble_, refusal_, asked_ || passes_with_time(refusal_)};
  }

 private:
  void say_hello(Instant now) noexcept {
    nonce_ = random_.next() | kZmqNonceBit;
    ZmqMessage message;
    const LinkHelloWire wire = encode_link_hello(end_.hello(nonce_));
    const bool sent = message.assign(bytes_of(wire)) && dealer_->send_burst(message);
    hello_at_ = now + (sent ? kHelloInterval : kLinkRetryInterval);
    if (patient_until_ == kNever) {
      patient_until_ = now + kConnectPatience;
      connect_until_ = now + kConnectMax;
    }
    asked_ = sent || answer_may_come(now);
    if (sent) key_fault_ = {};
    if (!sent && key_fault_.empty() && now >= patient_until_)
      complain(now, describe_silence(), LinkRefusal::kNone);
  }

  /// False when the HELLO that could not be sent has no hope: the key or the connection was refused.
  [[nodiscard]] bool answer_may_come(Instant now) const noexcept {
    if (!key_fault_.empty()) return false;
    switch (dealer_->contact()) {
      case Contact::kUnknown:
        return now < connect_until_;
      case Contact::kRefused:
        return false;
      case Contact::kMade:
        return true;
    }
    return false;
  }

  [[nodiscard]] std::string_view describe_silence() const noexcept {
    switch (dealer_->contact()) {
      case Contact::kUnknown:
        return "no answer to the connection; is the host right?";
      case Contact::kRefused:
        return "no switch listens there";
      case Contact::kMade:
        return "the switch does not answer";
    }
    return {};
  }

  [[nodiscard]] std::string_view describe_key_fault(int failure) const noexcept {
    const bool keys = !config_.server_public_key.empty();
    if (failure == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH)
      return config_.link.any_port
                 ? "the switch does not know our key: is it in spare_keys of its [[switch]]?"
                 : "the switch does not know our key";
    if (!keys) return "the switch wants keys and we have none: --key and --switch-key name them";
    if (failure == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL) return "we have keys and the switch uses none";
    return "the keys do not fit: is the switch's public key the one of this switch?";
  }

  int take(LinkSeat& seat, const LinkHello& answer, Instant now) noexcept {
    LinkParams params;
    const LinkRefusal refusal = end_.take(answer, params);
    if (refusal != LinkRefusal::kNone) {
      // If we refuse the answer ourselves, it has no values of the switch to describe.
      const bool theirs = answer.kind == LinkMessageKind::kRefuse;
      asked_ = false;
      // Of an endnode that has just gone the switch hears with its next sign of life.
      if (theirs && refusal == LinkRefusal::kLidTaken) hello_at_ = now + kLinkRetryInterval;
      complain(now, theirs ? describe_refusal(answer) : std::string(to_string(refusal)), refusal);
      return 0;
    }
    auto carrier =
        std::make_unique<ZmqCarrier>(dealer_, nonce_, params.flit_payload_bytes, config_.silence, now);
    dealer_->attach(*carrier);
    seat.bring_up(std::move(carrier), params, now);
    was_up_ = true;
    asked_ = false;
    key_fault_ = {};
    trouble_.clear();
    refusal_ = LinkRefusal::kNone;
    limiter_ = LogLimiter(kProblemLogInterval);
    log(LogLevel::kInfo, "joined {} as lid {} on port {}", config_.endpoint, params.lid.value(),
        params.switch_port);
    return 1;
  }

  void complain(Instant now, std::string_view why, LinkRefusal refusal) noexcept {
    trouble_ = why;
    refusal_ = refusal;
    if (limiter_.allow(now)) log(LogLevel::kWarn, "no link to {}: {}; retrying", config_.endpoint, why);
  }

  ZmqConnectorConfig config_;
  JoiningEnd end_;
  std::shared_ptr<Dealer> dealer_;
  RandomSource& random_;
  uint64_t nonce_ = 0;
  bool was_up_ = false;
  bool asked_ = false;          // the last HELLO has no answer yet, and one may come
  std::string_view key_fault_;  // empty: no fault of the keys is known
  Instant hello_at_ = Instant::min();
  Instant reconnect_at_ = kNever;
  Instant patient_until_ = kNever;
  Instant connect_until_ = kNever;
  std::string trouble_;
  LinkRefusal refusal_ = LinkRefusal::kNone;
  LogLimiter limiter_{kProblemLogInterval};
};

Status set_curve(ZmqSocket& socket, const ZmqConnectorConfig& config) {
  if (config.server_public_key.empty()) return {};
  for (const auto& [option, key] : {std::pair{ZMQ_CURVE_SERVERKEY, &config.server_public_key},
                                    std::pair{ZMQ_CURVE_PUBLICKEY, &config.own_keys.public_key},
                                    std::pair{ZMQ_CURVE_SECRETKEY, &config.own_keys.secret_key}}) {
    if (Status done = socket.set(option, *key); !done) return done;
  }
  return {};
}

Result<std::unique_ptr<ZmqSocket>> make_monitor(const std::shared_ptr<ZmqContext>& context,
                                                ZmqSocket& watched) {
  constexpr const char* kEndpoint = "inproc://monitor";
  constexpr int kEvents = ZMQ_EVENT_CONNECTED | ZMQ_EVENT_CLOSED | ZMQ_EVENT_DISCONNECTED | kHandshakeFailed;
  if (zmq_socket_monitor(watched.raw(), kEndpoint, kEvents) != 0) {
    return Error{"cannot watch the connection"};
  }
  Result<std::unique_ptr<ZmqSocket>> monitor = ZmqSocket::create(context, ZMQ_PAIR);
  if (!monitor) return monitor;
  if (Status done = (*monitor)->connect(kEndpoint); !done) return done.error();
  return monitor;
}

}  // namespace

Result<std::unique_ptr<LinkSupervisor>> make_zmq_connector(const ZmqConnectorConfig& given,
                                                           RandomSource& random) {
  ZmqConnectorConfig config = given;
  config.silence = silence_limit(config.silence, config.endpoint);
  const bool keys = !config.server_public_key.empty() && !config.own_keys.secret_key.empty();
  if (!keys && !config.server_public_key.empty())
    return Error{"CURVE needs the own secret key too: --curve-secret FILE"};
  if (!keys && endpoint_needs_curve(config.endpoint)) {
    return Error{
        fmt::format("{} leaves this machine and needs keys: --curve-secret FILE --curve-server FILE; "
                    "weft keygen makes them",
                    config.endpoint)};
  }
  Result<std::shared_ptr<ZmqContext>> context = ZmqContext::create();
  if (!context) return context.error();
  Result<std::unique_ptr<ZmqSocket>> socket = ZmqSocket::create(*context, ZMQ_DEALER);
  if (!socket) return socket.error();
  if (Status done = (*socket)->set_link_options(config.silence); !done) return done.error();
  if (Status done = (*socket)->set(ZMQ_IMMEDIATE, 1); !done) return done.error();
  if (Status done = set_curve(**socket, config); !done) return done.error();
  Result<std::unique_ptr<ZmqSocket>> monitor = make_monitor(*context, **socket);
  if (!monitor) return monitor.error();
  if (Status done = (*socket)->connect(config.endpoint); !done) return done.error();
  auto dealer = std::make_shared<Dealer>(std::move(*socket), std::move(*monitor));
  return std::unique_ptr<LinkSupervisor>(std::make_unique<ZmqConnector>(config, std::move(dealer), random));
}

}  // namespace weft::fabric
