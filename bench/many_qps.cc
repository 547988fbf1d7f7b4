// bench/many_qps.cc -- cost of a message if messages use many queue pairs and many regions in turn: small
// RDMA writes on RC through a switch, all in one thread. --list is the number of messages that a queue pair
// posts in its turn. With 1, the default, each message has its own acknowledgement. scripts/bench compares it
// with a run with one queue pair and one region.
#include <fmt/core.h>

#include <array>
#include <vector>

#include "adapter/adapter.h"
#include "adapter/bring_up.h"
#include "bench/support/one_thread_fabric.h"
#include "bench/support/options.h"

namespace weft::bench {
namespace {

using namespace adapter;

constexpr size_t kMemoryBytes = 16U << 20;
constexpr uint32_t kRegionBytes = 4096;
constexpr uint32_t kWindow = 64;  // outstanding messages of all queue pairs
constexpr uint32_t kRounds = 5;

struct Options {
  uint32_t qps = 10'000;
  uint32_t regions = 1'000'000;
  uint32_t bytes = 8;
  uint32_t list = 1;
  double seconds = 0.2;  // length of one round
};

/// One adapter with its queue pairs and regions.
struct Node {
  Node(fabric::CellPort& port, RandomSource& random, const Options& options, bool is_host)
      : adapter({.guid = Guid(is_host ? 2 : 3), .limits = limits(options)}, random), memory(kMemoryBytes) {
    adapter.ports().attach(port);
    pd = adapter.alloc_pd().value();
    cq = adapter.cqs().create(4096).value();
    // A region with a remote right uses two entries: its own and that of its window.
    const Access rights = is_host ? Access::kLocalWrite : Access::kLocalWrite | Access::kRemoteWrite;
    const uint32_t count = is_host ? options.regions : (options.regions + 1) / 2;
    for (uint32_t i = 0; i < count; ++i) {
      const size_t at = size_t{i} * 64 % (kMemoryBytes - kRegionBytes);
      regions.push_back(
          adapter.memory().regions.reg_mr(pd, std::span(memory).subspan(at, kRegionBytes), rights).value());
    }
    QpConfig config{.pd = pd, .send_cq = cq, .recv_cq = cq};
    config.send_wqes = !is_host ? 1 : options.qps == 1 ? kWindow : std::max(4U, options.list);
    config.recv_wqes = config.sges = 1;
    for (uint32_t i = 0; i < options.qps; ++i) qps.push_back(adapter.create_qp(config).value());
  }
  static AdapterLimits limits(const Options& options) {
    AdapterLimits limits;
    limits.queue_pairs = std::max(options.qps, limits.queue_pairs);
    limits.keys = std::max(options.regions + 8, limits.keys);
    limits.inline_bytes = 0;
    return limits;
  }
  void connect(const Node& peer, Lid lid) {
    for (size_t i = 0; i < qps.size(); ++i) {
      QpAttr attr;
      attr.access = Access::kRemoteWrite;
      attr.dlid = lid;
      attr.dest_qpn = peer.adapter.qpn(*peer.qps[i]);
      WEFT_CHECK(bring_up(adapter, *qps[i], attr) == ModifyResult::kOk, "a queue pair does not come up");
    }
  }

  ChannelAdapter adapter;
  std::vector<std::byte> memory;
  PdId pd;
  CompletionQueue* cq = nullptr;
  std::vector<MemoryRegion> regions;
  std::vector<QueuePair*> qps;
};

class World {
 public:
  explicit World(const Options& options)
      : bytes_(options.bytes),
        list_(options.list),
        fabric_(fabric::kCellPayloadBytesDefault),
        host_(fabric_.host_port, fabric_.random, options, true),
        unit_(fabric_.unit_port, fabric_.random, options, false) {
    host_.connect(unit_, kUnitLid);
    unit_.connect(host_, kHostLid);
  }
  /// @return nanoseconds per message
  double measure(double seconds) {
    const uint64_t before = completed_;
    const double begin = seconds_now();
    double now = begin;
    do {
      for (int turn = 0; turn < 16; ++turn) run_turn();
      now = seconds_now();
    } while (now - begin < seconds);
    WEFT_CHECK(completed_ > before, "nothing was written");
    return (now - begin) * 1e9 / static_cast<double>(completed_ - before);
  }

 private:
  void run_turn() {
    for (; posted_ < completed_ + kWindow; ++posted_) {
      const MemoryRegion& from = host_.regions[posted_ % host_.regions.size()];
      const MemoryRegion& to = unit_.regions[posted_ % unit_.regions.size()];
      const Sge sge{from.addr, bytes_, from.lkey};
      const SendRequest request{
          .opcode = SendOpcode::kRdmaWrite, .sges = {&sge, 1}, .remote_addr = to.addr, .rkey = to.rkey};
      QueuePair& qp = *host_.qps[posted_ / list_ % host_.qps.size()];
      if (host_.adapter.post_send(qp, request) != PostResult::kOk) break;
    }
    const Instant now = Endnode::now();
    host_.adapter.poll(now);
    fabric_.middle.poll(now);
    unit_.adapter.poll(now);
    fabric_.middle.poll(now);
    std::array<WorkCompletion, kWindow> done;
    const uint32_t count = host_.adapter.cqs().poll(*host_.cq, done);
    for (uint32_t i = 0; i < count; ++i) {
      WEFT_CHECK(done[i].status == WcStatus::kSuccess, "a work request failed");
    }
    completed_ += count;
  }

  uint32_t bytes_;
  uint32_t list_;
  OneThreadFabric fabric_;
  Node host_;
  Node unit_;
  uint64_t posted_ = 0;
  uint64_t completed_ = 0;
};

}  // namespace

int run(int argc, char** argv) {
  namespace po = boost::program_options;
  Options options;
  po::options_description known("many_qps: cost of a message beside many queue pairs and regions");
  known.add_options()("qps", po::value(&options.qps)->default_value(10'000), "queue pairs, in turn");
  known.add_options()("regions", po::value(&options.regions)->default_value(1'000'000),
                      "entries of each memory table, in turn");
  known.add_options()("bytes", po::value(&options.bytes)->default_value(8), "of one write, at most 4096");
  known.add_options()("list", po::value(&options.list)->default_value(1),
                      "messages of a queue pair in its turn, at most 64");
  known.add_options()("seconds", po::value(&options.seconds)->default_value(0.2, "0.2"), "of each round");
  if (const int status = parse_options(argc, argv, known); status >= 0) return status;
  const bool list_fits = options.list != 0 && kWindow % options.list == 0;
  if (options.qps == 0 || options.regions == 0 || options.bytes > kRegionBytes || !list_fits) {
    fmt::print(stderr,
               "many_qps: --qps and --regions are at least 1, --bytes at most {}, --list divides {}\n",
               kRegionBytes, kWindow);
    return 2;
  }
  World world(options);
  (void)world.measure(options.seconds);  // warm-up: every queue pair is used once
  std::vector<double> rounds;
  for (uint32_t round = 0; round < kRounds; ++round) rounds.push_back(world.measure(options.seconds));
  print_figure(fmt::format("message_{}_qps_{}_regions", options.qps, options.regions),
               percentile(rounds, 0.5), "ns");
  return 0;
}

}  // namespace weft::bench
