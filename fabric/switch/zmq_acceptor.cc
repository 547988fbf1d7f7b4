// How it works: each endpoint is a hub with a ROUTER socket. A burst from a known connection goes to its
// carrier. A HELLO goes to admission; if it is accepted, the connection becomes the node's, and replaces the
// link that the connection or the node had before. All other messages are counted and dropped. Under CURVE
// the HELLO must name the node that owns the key of this connection.
#include "fabric/switch/zmq_acceptor.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "base/log.h"
#include "base/rng.h"
#include "fabric/carrier/hello_limiter.h"
#include "fabric/carrier/unix_socket.h"
#include "fabric/carrier/zmq_carrier.h"
#include "fabric/carrier/zmq_socket.h"
#include "fabric/switch/zap_handler.h"

namespace weft::fabric {
namespace {

constexpr int kMessagesPerPump = 64;
constexpr Duration kZapInterval = 2ms;
constexpr Duration kJoinLogInterval = 1s;

/// The identity of a connection at its ROUTER. One that the ROUTER assigns is a zero byte and four more; a
/// peer may choose its own.
using PeerId = uint64_t;
constexpr size_t kAssignedIdBytes = 5;
/// Empty for an identity that no ROUTER assigns.
std::optional<PeerId> read_id(std::span<const std::byte> bytes) noexcept {
  if (bytes.size() != kAssignedIdBytes || bytes[0] != std::byte{0}) return std::nullopt;
  PeerId id = 0;
  for (const std::byte byte : bytes) id = id << 8 | static_cast<uint8_t>(byte);
  return id;
}

/// libzmq counts up the identities that it assigns from a number of rand(), and ends the process when a peer
/// has chosen the next one before. So the first number must not be known.
void hide_identities(RandomSource& random) noexcept {
  srandom(static_cast<unsigned>(random.next()));  // the state of rand(), too
}

/// An address as ZeroMQ writes it, v4 or v4 in v6.
[[nodiscard]] bool is_loopback(std::string_view address) noexcept {
  if (address.starts_with("::ffff:")) address.remove_prefix(7);
  return address.starts_with("127.") || address == "::1";
}

class Hub;

/// What the hubs know about the keys that may connect.
struct KnownKeys {
  std::unordered_set<std::string> guests;  // names of keys that belong to no node
};

/// One node's connection at a hub.
class HubChannel final : public BurstChannel {
 public:
  HubChannel(std::shared_ptr<Hub> hub, ZmqMessage id, PeerId key) noexcept
      : hub_(std::move(hub)), id_(std::move(id)), key_(key) {}
  bool send_burst(ZmqMessage& message) noexcept override;
  void pump() noexcept override {}
  void wait_fds(std::vector<pollfd>& /*out*/) const override {}  // the acceptor waits for all
  bool quiet() noexcept override;
  bool gone() const noexcept override { return gone_; }
  void detach() noexcept override;

 private:
  std::shared_ptr<Hub> hub_;
  ZmqMessage id_;
  PeerId key_;
  bool gone_ = false;
};

class Hub final : public std::enable_shared_from_this<Hub> {
 public:
  Hub(std::unique_ptr<ZmqSocket> socket, Admission& admission, CounterSet<ZmqAcceptorCounter>& counters,
      Duration silence, std::shared_ptr<const KnownKeys> keys, bool own_user_only)
      : socket_(std::move(socket)),
        admission_(admission),
        counters_(counters),
        silence_(silence),
        keys_(std::move(keys)),
        takeover_(keys_ != nullptr || own_user_only ? Takeover::kAllow : Takeover::kRefuse) {}

  /// Takes kMessagesPerPump messages, or as many parts of one that has more than two.
  int pump(Instant now) noexcept {
    int work = 0;
    for (; work < kMessagesPerPump; ++work) {
      if (skips_) {
        ZmqMessage surplus;
        if (!socket_->receive(surplus)) break;
        skips_ = surplus.more();
        continue;
      }
      ZmqMessage id;
      ZmqMessage body;
      if (!socket_->receive(id)) break;
      const std::optional<PeerId> key = read_id(id.bytes());
      const bool whole = id.more() && socket_->receive(body) && !body.more();
      if (key && whole) {
        take(id, *key, body, now);
      } else {
        skips_ = body.more();
        refuse(key);
      }
    }
    return work;
  }

  enum class Sent : uint8_t { kYes, kRefused, kNobody };
  Sent send(ZmqMessage& id, ZmqMessage& message) noexcept {
    ZmqMessage to = id.share();
    if (socket_->send(to, true) && socket_->send(message)) return Sent::kYes;
    const bool nobody = zmq_errno() == EHOSTUNREACH;
    counters_.add(ZmqAcceptorCounter::kSendsRefused);
    return nobody ? Sent::kNobody : Sent::kRefused;
  }
  /// Removes the connection, unless its endnode has sent HELLO again and it belongs to a newer link.
  void forget(PeerId key, const HubChannel* channel) noexcept {
    const auto peer = peers_.find(key);
    if (peer != peers_.end() && peer->second.channel == channel) peers_.erase(peer);
  }
  [[nodiscard]] const ZmqSocket& socket() const noexcept { return *socket_; }

 private:
  struct Peer {
    const HubChannel* channel = nullptr;
    ZmqCarrier* carrier = nullptr;
    LinkEngine* engine = nullptr;
  };

  /// A message of more parts than two, or of a connection with an identity of its own. No endnode of ours
  /// sends it: the link of this connection ends.
  void refuse(const std::optional<PeerId>& key) noexcept {
    counters_.add(ZmqAcceptorCounter::kMalformed);
    const auto peer = key ? peers_.find(*key) : peers_.end();
    if (peer != peers_.end()) peer->second.engine->take_down();
  }

  void take(ZmqMessage& id, PeerId key, ZmqMessage& body, Instant now) noexcept {
    LinkHello hello;
    if (decode_link_hello(body.bytes(), hello) == LinkHelloError::kNone) {
      greet(id, key, body, hello, now);
      return;
    }
    const auto peer = peers_.find(key);
    if (peer == peers_.end()) {
      counters_.add(body.bytes().size() >= sizeof(uint64_t) ? ZmqAcceptorCounter::kUnknownPeer
                                                            : ZmqAcceptorCounter::kMalformed);
    } else if (peer->second.carrier->deliver(body)) {
      counters_.add(ZmqAcceptorCounter::kBursts);
      peer->second.engine->ring();
    } else {
      counters_.add(ZmqAcceptorCounter::kStaleNonce);
    }
  }

  /// Under CURVE, the node that owns this connection's key must be the node that HELLO names (decisions
  /// section 4). A spare port is only for keys that belong to no node.
  [[nodiscard]] bool key_fits(const ZmqMessage& body, const LinkHello& hello) const noexcept {
    if (keys_ == nullptr) return true;
    const std::string_view name = body.property("User-Id");
    if ((hello.flags & kLinkAnyPort) != 0) return keys_->guests.contains(std::string(name));
    const NodeEntry* node = admission_.find(hello.guid);
    return node != nullptr && name == node->name;
  }

  /// Name of this connection's key; without CURVE its address, behind an "@" that no key name has. A user of
  /// this machine has all loopback addresses, so they are one.
  [[nodiscard]] std::string owner_of(const ZmqMessage& body) const {
    if (keys_ != nullptr) return std::string(body.property("User-Id"));
    const std::string_view address = body.property("Peer-Address");
    return is_loopback(address) ? "@loopback" : fmt::format("@{}", address);
  }

  void greet(ZmqMessage& id, PeerId key, const ZmqMessage& body, const LinkHello& hello,
             Instant now) noexcept {
    LinkRefusal reason = LinkRefusal::kNone;
    AdmittedLink link;
    // The rate counts per key, so that other nodes behind the same address cannot use up a key's HELLOs.
    const std::string owner = owner_of(body);
    if (!limiter_.allow(owner, now)) {
      reason = LinkRefusal::kRate;
      admission_.counters().add(AdmissionCounter::kRefusedRate);
    } else if (!key_fits(body, hello) || (hello.boot_nonce & kZmqNonceBit) == 0) {
      reason = LinkRefusal::kNotAllowed;
      admission_.counters().add(AdmissionCounter::kRefusedNotAllowed);
    } else {
      // The endnode of this connection begins anew.
      if (const auto own = peers_.find(key); own != peers_.end()) own->second.engine->take_down();
      reason = admission_.admit(hello, {owner, owner}, takeover_, now, link);
    }
    const LinkHello answer = reason == LinkRefusal::kNone ? link.welcome : admission_.refusal(hello, reason);
    if (reason == LinkRefusal::kNone) {
      body.widen_connection();
      bring_up(id, key, hello, link, now);
    }
    const LinkHelloWire wire = encode_link_hello(answer);
    ZmqMessage message;
    if (message.assign(bytes_of(wire))) static_cast<void>(send(id, message));
    if (reason != LinkRefusal::kNone && log_limiter_.allow(now)) {
      log(LogLevel::kWarn, "refused guid {:016x}: {}", hello.guid.value(), to_string(reason));
    }
  }

  void bring_up(ZmqMessage& id, PeerId key, const LinkHello& hello, const AdmittedLink& link,
                Instant now) noexcept {
    link.engine->take_down();  // its carrier is removed from its hub's table
    auto channel = std::make_shared<HubChannel>(shared_from_this(), id.share(), key);
    const HubChannel* const mine = channel.get();
    auto carrier = std::make_unique<ZmqCarrier>(std::move(channel), hello.boot_nonce,
                                                link.params.flit_payload_bytes, silence_, now);
    peers_[key] = {mine, carrier.get(), link.engine};
    link.engine->bring_up(std::move(carrier), link.params, now);
    link.engine->expect_bell();
    // An endnode may join again a hundred times in a second.
    LogLimiter& joins = join_logs_.try_emplace(link.params.switch_port, kJoinLogInterval).first->second;
    if (!joins.allow(now)) return;
    log(LogLevel::kInfo, "port {}: lid {} guid {:016x} joined over ZeroMQ", link.params.switch_port,
        link.params.lid.value(), link.params.peer_guid.value());
  }

  std::unique_ptr<ZmqSocket> socket_;
  Admission& admission_;
  CounterSet<ZmqAcceptorCounter>& counters_;
  Duration silence_;
  std::shared_ptr<const KnownKeys> keys_;  // null without CURVE
  Takeover takeover_;  // where nothing proves who an endnode is, it takes no link from another that is up
  std::unordered_map<PeerId, Peer> peers_;
  bool skips_ = false;  // the next part belongs to a message that was refused
  HelloLimiter limiter_;
  LogLimiter log_limiter_{std::chrono::seconds(1)};
  std::unordered_map<uint32_t, LogLimiter> join_logs_;  // by port
};

/// A closed connection never comes back under its old identity, so the link need not wait for the silence
/// limit.
bool HubChannel::send_burst(ZmqMessage& message) noexcept {
  const Hub::Sent sent = hub_->send(id_, message);
  if (sent == Hub::Sent::kNobody) gone_ = true;
  return sent == Hub::Sent::kYes;
}
/// Checks again although the acceptor has. A send before the sleep may consume the signal of a message that
/// arrives meanwhile, and the descriptor then does not become readable for it.
bool HubChannel::quiet() noexcept {
  return !hub_->socket().readable();
}
void HubChannel::detach() noexcept {
  hub_->forget(key_, this);
}

class ZmqAcceptorImpl final : public ZmqAcceptor {
 public:
  explicit ZmqAcceptorImpl(std::shared_ptr<ZmqContext> context) : context_(std::move(context)) {}
  ~ZmqAcceptorImpl() override {
    for (const std::string& path : paths_) unlink(path.c_str());  // libzmq does not remove them
  }

  Status listen(const ZmqAcceptorConfig& config, Admission& admission) {
    std::shared_ptr<KnownKeys> keys;
    if (!config.keys.secret_key.empty()) {
      keys = std::make_shared<KnownKeys>();
      for (const CurveAllowed& node : config.allowed)
        if (node.guid == Guid{}) keys->guests.insert(node.name);
      Result<std::unique_ptr<ZapHandler>> zap =
          ZapHandler::create(context_, config.allowed, admission.counters());
      if (!zap) return zap.error();
      zap_ = std::move(*zap);
    }
    for (const std::string& endpoint : config.endpoints) {
      const Duration silence = silence_limit(config.silence, endpoint);
      Result<std::unique_ptr<ZmqSocket>> socket = ZmqSocket::create(context_, ZMQ_ROUTER);
      if (!socket) return socket.error();
      if (Status done = prepare(**socket, endpoint, silence, config); !done) return done;
      if (endpoint.starts_with(kIpc)) paths_.push_back(endpoint.substr(kIpc.size()));
      hubs_.push_back(std::make_shared<Hub>(std::move(*socket), admission, counters_, silence, keys,
                                            endpoint.starts_with(kIpc)));
    }
    return {};
  }

  CounterSet<ZmqAcceptorCounter>& counters() noexcept override { return counters_; }
  int poll(Instant now) noexcept override {
    int work = 0;
    for (const std::shared_ptr<Hub>& hub : hubs_) work += hub->pump(now);
    if (zap_ != nullptr && now >= zap_at_) {
      zap_at_ = now + kZapInterval;
      zap_->pump(now);
    }
    return work;
  }
  void wait_fds(std::vector<pollfd>& out) const override {
    for (const std::shared_ptr<Hub>& hub : hubs_) out.push_back({hub->socket().fd(), POLLIN, 0});
    if (zap_ != nullptr) zap_->wait_fds(out);
  }
  bool prepare_sleep() noexcept override {
    const bool idle =
        std::none_of(hubs_.begin(), hubs_.end(), [](const auto& hub) { return hub->socket().readable(); });
    return idle && (zap_ == nullptr || zap_->quiet());
  }
  void finish_sleep() noexcept override { zap_at_ = Instant::min(); }
  Instant deadline() const noexcept override { return kNever; }

 private:
  static Status prepare(ZmqSocket& socket, const std::string& endpoint, Duration silence,
                        const ZmqAcceptorConfig& config) {
    if (Status done = socket.set_link_options(silence); !done) return done;
    if (Status done = socket.set(ZMQ_ROUTER_MANDATORY, 1); !done) return done;
    if (!config.keys.secret_key.empty()) {
      if (Status done = socket.set(ZMQ_CURVE_SERVER, 1); !done) return done;
      if (Status done = socket.set(ZMQ_CURVE_SECRETKEY, config.keys.secret_key); !done) return done;
      if (Status done = socket.set(ZMQ_ZAP_DOMAIN, std::string("weft")); !done) return done;
    }
    if (endpoint.starts_with(kIpc)) {
      if (Status mine = check_private_directory(endpoint.substr(kIpc.size())); !mine) return mine;
      if (Status done = socket.accept_own_user_only(); !done) return done;
    }
    return socket.bind(endpoint);
  }

  static constexpr std::string_view kIpc = "ipc://";
  std::shared_ptr<ZmqContext> context_;
  std::vector<std::string> paths_;  // of ipc sockets that we bound
  std::unique_ptr<ZapHandler> zap_;
  CounterSet<ZmqAcceptorCounter> counters_;
  std::vector<std::shared_ptr<Hub>> hubs_;
  Instant zap_at_ = Instant::min();
};

}  // namespace

Status ZmqAcceptor::check_endpoints(const std::vector<std::string>& endpoints, bool keys) {
  for (const std::string& endpoint : endpoints) {
    const bool known = endpoint.starts_with("ipc://") || endpoint.starts_with("tcp://");
    if (!known) return Error{fmt::format("endpoint {}: write ipc://PATH or tcp://ADDR:PORT", endpoint)};
    if (endpoint_needs_curve(endpoint) && !keys) {
      return Error{
          fmt::format("{} can be reached from other machines and needs keys: --curve-secret FILE "
                      "--curve-allow FILE; weft keygen makes them",
                      endpoint)};
    }
  }
  return {};
}

Result<std::unique_ptr<ZmqAcceptor>> ZmqAcceptor::create(const ZmqAcceptorConfig& config,
                                                         Admission& admission) {
  if (Status good = check_endpoints(config.endpoints, !config.keys.secret_key.empty()); !good) {
    return good.error();
  }
  SystemRandom random;
  hide_identities(random);
  Result<std::shared_ptr<ZmqContext>> context = ZmqContext::create();
  if (!context) return context.error();
  auto acceptor = std::make_unique<ZmqAcceptorImpl>(*context);
  if (Status done = acceptor->listen(config, admission); !done) return done.error();
  return std::unique_ptr<ZmqAcceptor>(std::move(acceptor));
}

}  // namespace weft::fabric
