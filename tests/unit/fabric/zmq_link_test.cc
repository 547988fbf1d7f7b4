// ZeroMQ links between an acceptor and connectors in one process. ZeroMQ has threads of its own, so these
// tests run in real time -- until something has happened, never for a given time.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cstdlib>
#include <functional>
#include <thread>

#include "fabric/carrier/hello_limiter.h"
#include "fabric/carrier/link_connect.h"
#include "fabric/carrier/zmq_carrier.h"
#include "fabric/carrier/zmq_connector.h"
#include "fabric/carrier/zmq_socket.h"
#include "fabric/link/link_cell_port.h"
#include "fabric/switch/admission.h"
#include "fabric/switch/zmq_acceptor.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_fabric.h"

namespace weft::test {
using namespace fabric;
namespace {

class ZmqLink : public ::testing::Test {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "ZeroMQ's own threads are not instrumented and look like races; any other build runs it";
#endif
  }
  void listen(const std::string& endpoint, bool curve = false) {
    fabric = std::make_unique<Switch>(small_switch());
    admission = std::make_unique<Admission>(
        *fabric, std::vector<NodeEntry>{{"a", Guid(0xA), Lid(1)}, {"b", Guid(0xB), Lid(2)}});
    ZmqAcceptorConfig config;
    config.endpoints = {endpoint};
    if (curve) {
      config.keys = switch_keys;
      config.allowed = {{"a", Guid(0xA), a_keys.public_key}, {"b", Guid(0xB), b_keys.public_key}};
    }
    acceptor = std::move(ZmqAcceptor::create(config, *admission).value());
  }
  std::unique_ptr<LinkConnection> join(const std::string& endpoint, uint64_t guid,
                                       const CurveKeyPair* keys = nullptr) {
    ZmqConnectorConfig config;
    config.link = small_switch().link;
    config.link.guid = Guid(guid);
    config.endpoint = endpoint;
    if (keys != nullptr) {
      config.own_keys = *keys;
      config.server_public_key = switch_keys.public_key;
    }
    return std::make_unique<LinkConnection>(LinkTimers{},
                                            std::move(make_zmq_connector(config, random).value()));
  }
  void step() {
    const Instant now = clock.now();
    if (acceptor != nullptr) acceptor->poll(now);
    if (fabric != nullptr) fabric->poll(now);
    for (LinkCellPort* port : ports) {
      port->poll(now);
      const std::span<const RxCell> cells = port->receive();
      for (const RxCell& cell : cells) received.emplace_back(cell.bytes.begin(), cell.bytes.end());
      if (!cells.empty()) port->release();
      port->flush(now);
    }
  }
  bool until(const std::function<bool()>& done) {
    for (const Instant end = clock.now() + 20s; clock.now() < end;) {
      step();
      if (done()) return true;
      std::this_thread::sleep_for(100us);
    }
    return false;
  }
  void exchange(LinkCellPort& from, uint32_t count) {
    const std::vector<std::byte> cell = make_cell({});
    uint32_t sent = 0;
    received.clear();
    ASSERT_TRUE(until([&] {
      while (sent < count && send_cell(from, cell)) ++sent;
      return received.size() == count;
    })) << received.size()
        << " of " << count;
    for (const std::vector<std::byte>& got : received) ASSERT_EQ(got, cell);
  }

  TempDir dir;
  SeededRandom random{1};
  MonotonicClock clock;
  CurveKeyPair switch_keys = generate_curve_keys().value();
  CurveKeyPair a_keys = generate_curve_keys().value();
  CurveKeyPair b_keys = generate_curve_keys().value();
  std::unique_ptr<Switch> fabric;
  std::unique_ptr<Admission> admission;
  std::unique_ptr<ZmqAcceptor> acceptor;
  std::vector<LinkCellPort*> ports;
  std::vector<std::vector<std::byte>> received;
};

// Sending makes ZeroMQ take notice of what arrives, and its descriptor then stays silent: the links, which
// send before they sleep, must look again after the acceptor did.
TEST_F(ZmqLink, a_switch_does_not_sleep_while_a_burst_waits) {
  const std::string endpoint = "ipc://" + dir.path() + "/z";
  listen(endpoint);
  const auto a = join(endpoint, 0xA);
  LinkCellPort port_a(a->link());
  ports = {&port_a};
  ASSERT_TRUE(until([&] { return port_a.up(); }));
  ASSERT_TRUE(send_cell(port_a, make_cell({})));
  port_a.flush(clock.now());
  const Instant end = clock.now() + 20s;
  while (acceptor->prepare_sleep() && clock.now() < end) std::this_thread::sleep_for(100us);
  EXPECT_FALSE(fabric->prepare_sleep()) << "its links look for themselves";
  fabric->finish_sleep();
}

TEST_F(ZmqLink, ipc_carries_cells_and_comes_back_when_the_switch_does) {
  const std::string endpoint = "ipc://" + dir.path() + "/z";
  listen(endpoint);
  const auto a = join(endpoint, 0xA);
  const auto b = join(endpoint, 0xB);
  LinkCellPort port_a(a->link());
  LinkCellPort port_b(b->link());
  ports = {&port_a, &port_b};
  ASSERT_TRUE(until([&] { return port_a.up() && port_b.up(); }));
  EXPECT_EQ(a->link().carrier_kind(), "zmq");
  exchange(port_a, 5000);
  acceptor.reset();
  fabric.reset();
  admission.reset();
  ASSERT_TRUE(until([&] { return !port_a.up() && !port_b.up(); }));
  listen(endpoint);
  ASSERT_TRUE(until([&] { return port_a.up() && port_b.up(); }));
  EXPECT_EQ(port_a.incarnation(), 2U);
  exchange(port_a, 10);
}

TEST_F(ZmqLink, a_new_incarnation_of_a_node_takes_its_port_over) {
  const std::string endpoint = "ipc://" + dir.path() + "/z";
  listen(endpoint);
  auto a = join(endpoint, 0xA);
  auto port = std::make_unique<LinkCellPort>(a->link());
  ports = {port.get()};
  ASSERT_TRUE(until([&] { return port->up(); }));
  ports.clear();
  port.reset();
  a = join(endpoint, 0xA);
  port = std::make_unique<LinkCellPort>(a->link());
  ports = {port.get()};
  ASSERT_TRUE(until([&] { return port->up(); }));
  EXPECT_EQ(admission->engine(0).incarnation(), 2U);
  EXPECT_EQ(admission->engine(0).state(), LinkState::kUp);
}

/// A TCP socket that listens, and whose process does not answer: a stopped switch. The kernel makes up to
/// `backlog + 1` connections that are not taken.
class SilentListener {
 public:
  explicit SilentListener(int backlog = 8) : fd_(tcp_socket(SOCK_NONBLOCK)) {
    address_.sin_family = AF_INET;
    address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t bytes = sizeof address_;
    EXPECT_EQ(bind(fd_.get(), generic(), bytes), 0);
    EXPECT_EQ(::listen(fd_.get(), backlog), 0);
    EXPECT_EQ(getsockname(fd_.get(), generic(), &bytes), 0);
  }
  /// Takes the places of all connections, so that the kernel leaves further ones without an answer.
  void fill() {
    for (int i = 0; i < 16; ++i) {
      filling_.push_back(tcp_socket(SOCK_NONBLOCK));
      (void)connect(filling_.back().get(), generic(), sizeof address_);
    }
  }
  [[nodiscard]] std::string endpoint() const {
    return "tcp://127.0.0.1:" + std::to_string(ntohs(address_.sin_port));
  }
  /// How many connections there have been. They stay, and nothing is read from them.
  size_t connections() {
    for (UniqueFd next; (next = UniqueFd(accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC))).valid();)
      taken_.push_back(std::move(next));
    return taken_.size();
  }
  void close() { fd_.reset(); }

 private:
  static UniqueFd tcp_socket(int flags) {
    return UniqueFd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | flags, 0));
  }
  sockaddr* generic() { return reinterpret_cast<sockaddr*>(&address_); }
  UniqueFd fd_;
  sockaddr_in address_{};
  std::vector<UniqueFd> filling_, taken_;
};

// A program waits longer for a switch that is there: verbs/process/process_node.cc.
TEST_F(ZmqLink, a_switch_that_takes_the_connection_and_does_not_answer_is_there) {
  SilentListener silent;
  const auto a = join(silent.endpoint(), 0xA);
  LinkCellPort port(a->link());
  ports = {&port};
  ASSERT_TRUE(until([&] { return !a->trouble().why.empty(); }));
  EXPECT_EQ(a->trouble().why, "the switch does not answer");
  EXPECT_TRUE(a->trouble().later);
  // libzmq ends a connection without handshake after 2 s and makes another one.
  ASSERT_TRUE(until([&] {
    EXPECT_EQ(a->trouble().why, "the switch does not answer");
    EXPECT_TRUE(a->trouble().later);
    return HasFailure() || silent.connections() == 2;
  }));
  silent.close();
  ASSERT_TRUE(until([&] { return a->trouble().why == "no switch listens there"; })) << a->trouble().why;
  EXPECT_FALSE(a->trouble().later);
}

TEST_F(ZmqLink, a_connection_without_an_answer_is_given_up_in_time) {
  SilentListener silent(0);
  silent.fill();
  const auto a = join(silent.endpoint(), 0xA);
  LinkCellPort port(a->link());
  ports = {&port};
  ASSERT_TRUE(until([&] { return !a->trouble().why.empty(); }));
  EXPECT_EQ(a->trouble().why, "no answer to the connection; is the host right?");
  EXPECT_TRUE(a->trouble().later) << "the thread that connects may have had no core yet";
  port.poll(clock.now() + 10s);
  EXPECT_FALSE(a->trouble().later);
}

TEST_F(ZmqLink, curve_binds_a_key_to_a_node) {
  const std::string endpoint = "tcp://127.0.0.1:" + std::to_string(20000 + getpid() % 20000);
  listen(endpoint, true);
  const auto a = join(endpoint, 0xA, &a_keys);
  const CurveKeyPair stranger_keys = generate_curve_keys().value();
  const auto stranger = join(endpoint, 0xB, &stranger_keys);
  const auto liar = join(endpoint, 0xB, &a_keys);  // a's key, b's name
  const auto keyless = join(endpoint, 0xB);
  LinkCellPort port_a(a->link());
  LinkCellPort port_stranger(stranger->link());
  LinkCellPort port_liar(liar->link());
  LinkCellPort port_keyless(keyless->link());
  ports = {&port_a, &port_stranger, &port_liar, &port_keyless};
  const auto count = [&](AdmissionCounter counter) { return admission->counters().get(counter); };
  ASSERT_TRUE(until([&] {
    return port_a.up() && count(AdmissionCounter::kUnknownKey) > 0 &&
           count(AdmissionCounter::kRefusedNotAllowed) > 0;
  }));
  EXPECT_FALSE(port_stranger.up());
  EXPECT_FALSE(port_liar.up());
  EXPECT_FALSE(port_keyless.up());
  const auto b = join(endpoint, 0xB, &b_keys);
  LinkCellPort port_b(b->link());
  ports.push_back(&port_b);
  ASSERT_TRUE(until([&] { return port_b.up(); }));
  exchange(port_a, 100);
}

/// Any user of the machine can name the GUID of a node there.
TEST_F(ZmqLink, without_keys_no_connection_takes_the_port_of_a_node_that_is_up) {
  const std::string endpoint = "tcp://127.0.0.1:" + std::to_string(20000 + getpid() % 20000);
  listen(endpoint);
  auto a = join(endpoint, 0xA);
  auto port_a = std::make_unique<LinkCellPort>(a->link());
  ports = {port_a.get()};
  ASSERT_TRUE(until([&] { return port_a->up(); }));
  const auto intruder = join(endpoint, 0xA);
  LinkCellPort port_intruder(intruder->link());
  ports.push_back(&port_intruder);
  ASSERT_TRUE(until([&] { return admission->counters().get(AdmissionCounter::kRefusedLidTaken) != 0; }));
  EXPECT_TRUE(port_a->up());
  EXPECT_EQ(a->link().incarnation(), 1U);
  EXPECT_FALSE(port_intruder.up());
  ASSERT_TRUE(until([&] { return intruder->trouble().refusal == LinkRefusal::kLidTaken; }));
  EXPECT_LE(intruder->link().deadline(), clock.now() + kLinkRetryInterval)
      << "the switch may hear late that an endnode has gone";
  ports = {&port_intruder};
  port_a.reset();
  a.reset();
  EXPECT_TRUE(until([&] { return port_intruder.up(); }))
      << "the node itself, say, that has been started again";
}

/// A user of the machine has as many of them as he likes.
TEST_F(ZmqLink, all_loopback_addresses_are_one_origin) {
  const std::string at = "127.0.0.1:" + std::to_string(20000 + getpid() % 20000);
  listen("tcp://" + at);
  const auto context = ZmqContext::create().value();
  const auto greet = [&](const std::string& from, uint32_t times) {
    auto socket = std::move(ZmqSocket::create(context, ZMQ_DEALER).value());
    EXPECT_TRUE(socket->connect("tcp://" + from + ":0;" + at).ok());
    LinkConfig link = small_switch().link;
    link.guid = Guid(0xC);  // no node: refused, but within the rate
    for (uint32_t i = 0; i < times; ++i) {
      ZmqMessage message;
      EXPECT_TRUE(message.assign(bytes_of(encode_link_hello(make_hello(link, kZmqNonceBit | i)))) &&
                  socket->send(message));
    }
    uint32_t answers = 0;
    LinkRefusal last{};
    EXPECT_TRUE(until([&] {
      for (ZmqMessage answer; socket->receive(answer); ++answers) {
        LinkHello hello;
        EXPECT_EQ(decode_link_hello(answer.bytes(), hello), LinkHelloError::kNone);
        last = hello.refusal;
      }
      return answers == times;
    }));
    return last;
  };
  for (int i = 2; i < 20; ++i) {
    if (greet("127.0.0." + std::to_string(i), kHelloBurst / 4) == LinkRefusal::kRate) return;
  }
  FAIL() << "each address had a burst of its own";
}

/// One connection that is first a, then b: a's link ends, and b's stays in the hub's table.
TEST_F(ZmqLink, a_connection_that_says_another_name_gives_up_its_first) {
  const std::string endpoint = "ipc://" + dir.path() + "/z";
  listen(endpoint);
  const auto context = ZmqContext::create().value();
  auto socket = std::move(ZmqSocket::create(context, ZMQ_DEALER).value());
  ASSERT_TRUE(socket->connect(endpoint).ok());
  const auto hello = [&](uint64_t guid, uint64_t nonce) {
    LinkConfig link = small_switch().link;
    link.guid = Guid(guid);
    ZmqMessage message;
    const LinkHelloWire wire = encode_link_hello(make_hello(link, kZmqNonceBit | nonce));
    ASSERT_TRUE(message.assign(bytes_of(wire)) && socket->send(message));
  };
  const auto up = [&](size_t node) { return admission->engine(node).state() == LinkState::kUp; };
  hello(0xA, 1);
  ASSERT_TRUE(until([&] { return up(0); }));
  hello(0xB, 2);
  ASSERT_TRUE(until([&] { return up(1); }));
  EXPECT_FALSE(up(0)) << "its endnode speaks for another node now";
  const uint64_t unknown = acceptor->counters().get(ZmqAcceptorCounter::kUnknownPeer);
  ZmqMessage burst;
  const std::array<std::byte, 24> bytes{};
  ASSERT_TRUE(burst.assign(bytes) && socket->send(burst));
  ASSERT_TRUE(until([&] { return acceptor->counters().get(ZmqAcceptorCounter::kStaleNonce) == 1; }))
      << "the hub still knows whose connection it is";
  EXPECT_EQ(acceptor->counters().get(ZmqAcceptorCounter::kUnknownPeer), unknown);
}

TEST_F(ZmqLink, unknown_connections_stale_bursts_and_floods_of_hellos_are_counted) {
  const std::string endpoint = "ipc://" + dir.path() + "/z";
  listen(endpoint);
  const auto context = ZmqContext::create().value();
  auto socket = std::move(ZmqSocket::create(context, ZMQ_DEALER).value());
  ASSERT_TRUE(socket->connect(endpoint).ok());
  const auto send = [&](std::span<const std::byte> bytes) {
    ZmqMessage message;
    ASSERT_TRUE(message.assign(bytes) && socket->send(message));
  };
  const std::array<std::byte, 24> burst{};
  send(burst);
  send(std::span(burst).first(3));
  LinkConfig link = small_switch().link;
  link.guid = Guid(0xA);
  send(bytes_of(encode_link_hello(make_hello(link, 7))));  // a nonce by which a burst might pass for a HELLO
  for (uint64_t i = 0; i < kHelloBurst + 300; ++i)         // 100 a second pass while they are sent
    send(bytes_of(encode_link_hello(make_hello(link, kZmqNonceBit | i))));
  send(burst);
  ASSERT_TRUE(until([&] { return acceptor->counters().get(ZmqAcceptorCounter::kStaleNonce) == 1; }));
  EXPECT_EQ(acceptor->counters().get(ZmqAcceptorCounter::kUnknownPeer), 1U);
  EXPECT_EQ(acceptor->counters().get(ZmqAcceptorCounter::kMalformed), 1U);
  EXPECT_GE(admission->counters().get(AdmissionCounter::kRefusedRate), 50U);
  EXPECT_EQ(admission->counters().get(AdmissionCounter::kRefusedNotAllowed), 1U);
  ASSERT_TRUE(until([&] {
    ZmqMessage answer;
    LinkHello hello;
    return socket->receive(answer) && decode_link_hello(answer.bytes(), hello) == LinkHelloError::kNone &&
           hello.refusal == LinkRefusal::kRate;
  }));
  socket.reset();  // gone, and its link still has something to say
  EXPECT_TRUE(until([&] { return acceptor->counters().get(ZmqAcceptorCounter::kSendsRefused) != 0; }));
}

/// ZeroMQ limits neither the parts of a message nor, by its high-water mark, what they take.
TEST_F(ZmqLink, a_message_of_many_parts_costs_a_turn_no_more_than_others_and_ends_its_link) {
  constexpr uint32_t kParts = 10'000;
  constexpr int kMostPerTurn = 64;
  const std::string endpoint = "ipc://" + dir.path() + "/z";
  listen(endpoint);
  const auto context = ZmqContext::create().value();
  auto socket = std::move(ZmqSocket::create(context, ZMQ_DEALER).value());
  ASSERT_TRUE(socket->connect(endpoint).ok());
  const auto send = [&](std::span<const std::byte> bytes, bool more = false) {
    ZmqMessage message;
    ASSERT_TRUE(message.assign(bytes) && socket->send(message, more));
  };
  LinkConfig link = small_switch().link;
  link.guid = Guid(0xA);
  send(bytes_of(encode_link_hello(make_hello(link, kZmqNonceBit | 1))));
  ASSERT_TRUE(until([&] { return fabric->port(1).link->state() == LinkState::kUp; }));
  for (uint32_t part = 1; part < kParts; ++part) send({}, true);
  send({});
  const std::array<std::byte, 24> burst{};
  send(burst);
  ASSERT_TRUE(until([&] {
    EXPECT_LE(acceptor->poll(clock.now()), kMostPerTurn);
    return acceptor->counters().get(ZmqAcceptorCounter::kUnknownPeer) == 1;
  })) << "the next message is taken as ever";
  EXPECT_EQ(acceptor->counters().get(ZmqAcceptorCounter::kMalformed), 1U);
  EXPECT_NE(fabric->port(1).link->state(), LinkState::kUp);
}

TEST_F(ZmqLink, a_connection_that_chooses_its_identity_does_not_join) {
  const std::string endpoint = "ipc://" + dir.path() + "/z";
  listen(endpoint);
  const auto context = ZmqContext::create().value();
  auto socket = std::move(ZmqSocket::create(context, ZMQ_DEALER).value());
  ASSERT_TRUE(socket->set(ZMQ_ROUTING_ID, std::string("chosen")).ok());
  ASSERT_TRUE(socket->connect(endpoint).ok());
  LinkConfig link = small_switch().link;
  link.guid = Guid(0xA);
  ZmqMessage message;
  ASSERT_TRUE(message.assign(bytes_of(encode_link_hello(make_hello(link, kZmqNonceBit | 1)))) &&
              socket->send(message));
  ASSERT_TRUE(until([&] { return acceptor->counters().get(ZmqAcceptorCounter::kMalformed) == 1; }));
  EXPECT_NE(fabric->port(1).link->state(), LinkState::kUp);
}

/// libzmq takes the first identity that it assigns from rand(), and aborts when a peer has chosen the next.
TEST_F(ZmqLink, no_peer_knows_the_identities_that_will_be_assigned) {
  std::array<int, 2> next{};
  for (size_t i = 0; i < 2; ++i) {
    std::srand(1);
    listen("ipc://" + dir.path() + "/" + std::to_string(i));
    next[i] = std::rand();  // NOLINT(concurrency-mt-unsafe): ZeroMQ draws in this thread
  }
  EXPECT_NE(next[0], next[1]);
}

TEST_F(ZmqLink, an_ipc_endpoint_needs_a_private_directory) {
  Switch core(small_switch());
  Admission nodes(core, {{"a", Guid(0xA), Lid(1)}});
  ZmqAcceptorConfig config;
  config.endpoints = {"ipc://" + dir.path() + "/z"};
  ASSERT_EQ(chmod(dir.path().c_str(), 0755), 0);
  EXPECT_FALSE(ZmqAcceptor::create(config, nodes).ok());
  ASSERT_EQ(chmod(dir.path().c_str(), 0700), 0);
  EXPECT_TRUE(ZmqAcceptor::create(config, nodes).ok());
}

TEST_F(ZmqLink, tcp_beyond_loopback_needs_keys) {
  ZmqAcceptorConfig config;
  config.endpoints = {"tcp://0.0.0.0:7000"};
  Switch core(small_switch());
  Admission nodes(core, {{"a", Guid(0xA), Lid(1)}});
  EXPECT_FALSE(ZmqAcceptor::create(config, nodes).ok());
  LinkEndpointConfig end;
  end.link = small_switch().link;
  end.link.guid = Guid(0xA);
  for (const char* endpoint : {"tcp://192.0.2.1:7000", "tcp://example.org:7000", "http://x", "shm:", "ipc"}) {
    end.endpoint = endpoint;
    EXPECT_FALSE(connect_link(end, random).ok()) << endpoint;
  }
  end.endpoint = "tcp://127.0.0.1:7000";
  EXPECT_TRUE(connect_link(end, random).ok());
}

TEST(CurveKeys, only_a_numeric_loopback_address_needs_none) {
  for (const char* local :
       {"tcp://127.0.0.1:5555", "tcp://127.1.2.3:5555", "tcp://[::1]:5555", "ipc:///run/x"})
    EXPECT_FALSE(endpoint_needs_curve(local)) << local;
  for (const char* reachable :
       {"tcp://127.example.org:5555", "tcp://127.0.0.1:0;192.0.2.7:5555", "tcp://192.0.2.7:0;127.0.0.1:5555",
        "tcp://localhost:5555", "tcp://127.0.0.1.example.org:5555", "tcp://*:5555", "tcp://lo:5555",
        "tcp://:5555", "tcp://[::]:5555", "tcp://[::ffff:192.0.2.7]:5555", "tcp://0.0.0.0:5555",
        "tcp://126.0.0.1:5555", "tcp://128.0.0.1:5555", "tcp://"})
    EXPECT_TRUE(endpoint_needs_curve(reachable)) << reachable;
}

TEST(CurveKeys, files_keep_secrets_and_refuse_what_is_wrong) {
  const TempDir dir;
  const std::string path = dir.path() + "/key";
  const CurveKeyPair keys = generate_curve_keys().value();
  ASSERT_TRUE(write_curve_keys(path, keys).ok());
  EXPECT_FALSE(write_curve_keys(path, keys).ok());
  EXPECT_EQ(read_curve_secret(path).value().public_key, keys.public_key);
  EXPECT_EQ(read_curve_public(path + ".pub").value(), keys.public_key);
  ASSERT_EQ(chmod(path.c_str(), 0640), 0);
  EXPECT_FALSE(read_curve_secret(path).ok());
  ASSERT_EQ(chmod((path + ".pub").c_str(), 0646), 0);
  EXPECT_FALSE(read_curve_public(path + ".pub").ok()) << "anybody could put another switch there";
  const auto write = [&](const std::string& text) {
    FILE* file = fopen((dir.path() + "/allow").c_str(), "w");
    ASSERT_NE(file, nullptr);
    fputs(text.c_str(), file);
    static_cast<void>(fclose(file));
  };
  write("# who may join\na 0xA " + keys.public_key + "\n");
  ASSERT_EQ(read_curve_allow(dir.path() + "/allow").value().size(), 1U);
  for (const std::string& bad :
       {std::string("a A short\n"), "a A " + keys.public_key + "\nb B " + keys.public_key + "\n",
        std::string("a\n"), "a XYZ " + keys.public_key + "\n"}) {
    write(bad);
    EXPECT_FALSE(read_curve_allow(dir.path() + "/allow").ok()) << bad;
  }
}

}  // namespace
}  // namespace weft::test
