// bench/limits/zmq_relay.cc -- the yardstick for links over ZeroMQ: three processes, of which the middle one
// forwards each message without reading it, like a switch. One message carries one burst of cells; no cells
// are checked, composed or answered. The middle process binds one ROUTER for the sender and one for the
// receiver, like the ports of Weft's switch. The I/O threads run with SCHED_BATCH, as Weft's do. --ping
// measures single messages there and back.
#include <fmt/core.h>
#include <sched.h>
#include <unistd.h>
#include <zmq.h>

#include <atomic>
#include <cstring>
#include <string>
#include <vector>

#include "base/check.h"
#include "bench/support/measure.h"
#include "bench/support/options.h"

namespace weft::bench {
namespace {

constexpr int kMessagesQueuedMax = 64;  // per pipe: limits the data in flight, as credits do

struct Options {
  uint32_t burst_bytes = 16 * 1024;
  double seconds = 0.5;
  bool ping = false;
};

/// One context with its sockets, closed at the end of the scope.
class Node {
 public:
  Node() : context_(zmq_ctx_new()) { zmq_ctx_set(context_, ZMQ_THREAD_SCHED_POLICY, SCHED_BATCH); }
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;
  ~Node() {
    for (void* socket : sockets_) zmq_close(socket);
    zmq_ctx_term(context_);
  }
  void* open(int type) {
    void* socket = zmq_socket(context_, type);
    WEFT_CHECK(socket != nullptr, "zmq_socket");
    const int queued = kMessagesQueuedMax;
    const int zero = 0;
    const int wait_ms = 200;
    zmq_setsockopt(socket, ZMQ_SNDHWM, &queued, sizeof queued);
    zmq_setsockopt(socket, ZMQ_RCVHWM, &queued, sizeof queued);
    zmq_setsockopt(socket, ZMQ_LINGER, &zero, sizeof zero);
    zmq_setsockopt(socket, ZMQ_RCVTIMEO, &wait_ms, sizeof wait_ms);
    zmq_setsockopt(socket, ZMQ_SNDTIMEO, &wait_ms, sizeof wait_ms);
    sockets_.push_back(socket);
    return socket;
  }
  void* bind(int type, const std::string& endpoint) {
    void* socket = open(type);
    WEFT_CHECK(zmq_bind(socket, endpoint.c_str()) == 0, "zmq_bind");
    return socket;
  }
  void* connect(const std::string& endpoint) {
    void* socket = open(ZMQ_DEALER);
    WEFT_CHECK(zmq_connect(socket, endpoint.c_str()) == 0, "zmq_connect");
    return socket;
  }

 private:
  void* context_;
  std::vector<void*> sockets_;
};

struct World {
  std::string directory;
  std::atomic<bool>* stop;
  std::atomic<uint64_t>* delivered;  // messages delivered
  [[nodiscard]] std::string host_end() const { return "ipc://" + directory + "/host"; }
  [[nodiscard]] std::string unit_end() const { return "ipc://" + directory + "/unit"; }
  [[nodiscard]] bool stopped() const noexcept { return stop->load(std::memory_order_relaxed); }
};

/// Holds the ROUTER identity of a peer, which is the first frame of each of its messages.
struct Port {
  void* socket;
  zmq_msg_t identity;
  bool known = false;

  explicit Port(void* with) : socket(with) { zmq_msg_init(&identity); }
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;
  ~Port() { zmq_msg_close(&identity); }

  bool receive(zmq_msg_t& body) {
    zmq_msg_t from;  // a receive without a message would empty `identity`
    zmq_msg_init(&from);
    const bool got = zmq_msg_recv(&from, socket, ZMQ_DONTWAIT) >= 0;
    if (got) zmq_msg_move(&identity, &from);
    zmq_msg_close(&from);
    if (!got) return false;
    known = true;
    return zmq_msg_recv(&body, socket, ZMQ_DONTWAIT) >= 0;
  }
  void send(zmq_msg_t& body, const World& world) {
    zmq_msg_t to;
    zmq_msg_init(&to);
    zmq_msg_copy(&to, &identity);
    while (zmq_msg_send(&to, socket, ZMQ_SNDMORE) < 0 && !world.stopped()) yield_core();
    while (zmq_msg_send(&body, socket, 0) < 0 && !world.stopped()) yield_core();
  }
};

void pass(Port& from, Port& to, const World& world, int limit) {
  zmq_msg_t body;
  zmq_msg_init(&body);
  for (int i = 0; i < limit && from.receive(body); ++i) {
    if (to.known) to.send(body, world);
  }
  zmq_msg_close(&body);
}

void run_relay(const World& world) {
  Node node;
  Port host(node.bind(ZMQ_ROUTER, world.host_end()));
  Port unit(node.bind(ZMQ_ROUTER, world.unit_end()));
  const int mandatory = 1;  // on a full pipe the relay waits; by default ROUTER drops
  zmq_setsockopt(host.socket, ZMQ_ROUTER_MANDATORY, &mandatory, sizeof mandatory);
  zmq_setsockopt(unit.socket, ZMQ_ROUTER_MANDATORY, &mandatory, sizeof mandatory);
  zmq_pollitem_t items[2] = {{host.socket, 0, ZMQ_POLLIN, 0}, {unit.socket, 0, ZMQ_POLLIN, 0}};
  while (!world.stopped()) {
    if (zmq_poll(items, 2, 100) <= 0) continue;
    constexpr int kMessagesPerTurn = 16;
    pass(host, unit, world, kMessagesPerTurn);
    pass(unit, host, world, kMessagesPerTurn);
  }
}

/// Receives until told to stop; with `echo` answers each message.
void run_unit(const World& world, bool echo) {
  Node node;
  void* socket = node.connect(world.unit_end());
  zmq_send(socket, "hello", 5, 0);
  std::vector<std::byte> sink(1 << 20);
  uint64_t delivered = 0;
  while (!world.stopped()) {
    const int bytes = zmq_recv(socket, sink.data(), sink.size(), 0);
    if (bytes <= 0) continue;
    world.delivered->store(++delivered, std::memory_order_relaxed);
    if (echo) zmq_send(socket, sink.data(), static_cast<size_t>(bytes), 0);
  }
}

void wait_for_first(const World& world, void* socket, const std::vector<std::byte>& burst) {
  while (world.delivered->load() == 0) {
    zmq_send(socket, burst.data(), burst.size(), 0);
    usleep(10'000);
  }
  usleep(50'000);
}

/// @return megabytes per second that arrive at the unit
double run_source(const World& world, const Options& options) {
  Node node;
  void* socket = node.connect(world.host_end());
  const std::vector<std::byte> burst(options.burst_bytes, std::byte{1});
  wait_for_first(world, socket, burst);
  const double begin = seconds_now();
  double start = 0;
  uint64_t before = 0;
  for (;;) {
    zmq_send(socket, burst.data(), burst.size(), 0);
    const double now = seconds_now();
    if (start == 0 && now - begin > options.seconds / 4) {
      start = now;
      before = world.delivered->load();
    } else if (start != 0 && now - start > options.seconds) {
      const auto messages = static_cast<double>(world.delivered->load() - before);
      return messages * options.burst_bytes / (now - start) / 1e6;
    }
  }
}

double run_ping(const World& world, const Options& options) {
  Node node;
  void* socket = node.connect(world.host_end());
  std::vector<std::byte> burst(options.burst_bytes, std::byte{1});
  wait_for_first(world, socket, burst);
  while (zmq_recv(socket, burst.data(), burst.size(), ZMQ_DONTWAIT) >= 0) continue;
  std::vector<double> samples;
  const double end = seconds_now() + options.seconds;
  while (seconds_now() < end) {
    const double start = seconds_now();
    zmq_send(socket, burst.data(), burst.size(), 0);
    if (zmq_recv(socket, burst.data(), burst.size(), 0) < 0) continue;
    samples.push_back((seconds_now() - start) * 1e6);
  }
  return percentile(samples, 0.5);
}

void measure(const Options& options) {
  char directory[] = "/tmp/weft-zmq-relay-XXXXXX";
  WEFT_CHECK(mkdtemp(directory) != nullptr, "mkdtemp");
  std::byte* flags = map_shared(4096);
  const World world{directory, reinterpret_cast<std::atomic<bool>*>(flags),
                    reinterpret_cast<std::atomic<uint64_t>*>(flags + 128)};
  Children children;
  children.start([&] { run_relay(world); });
  children.start([&] { run_unit(world, options.ping); });
  const double value = options.ping ? run_ping(world, options) : run_source(world, options);
  world.stop->store(true);
  WEFT_CHECK(children.wait(), "a child failed");
  unlink((world.directory + "/host").c_str());
  unlink((world.directory + "/unit").c_str());
  rmdir(directory);
  print_figure(fmt::format("zmq_relay_{}_{}", options.ping ? "ping" : "burst", options.burst_bytes), value,
               options.ping ? "us" : "MB/s");
}

}  // namespace

int run(int argc, char** argv) {
  namespace po = boost::program_options;
  Options options;
  po::options_description known("zmq_relay: three processes over ZeroMQ ipc, no protocol");
  known.add_options()("burst", po::value(&options.burst_bytes)->default_value(16 * 1024),
                      "bytes of one message");
  known.add_options()("ping", po::bool_switch(&options.ping), "one message there and back at a time");
  known.add_options()("seconds", po::value(&options.seconds)->default_value(0.5, "0.5"), "measured time");
  if (const int status = parse_options(argc, argv, known); status >= 0) return status;
  measure(options);
  return 0;
}

}  // namespace weft::bench
