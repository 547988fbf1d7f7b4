// bench/rc_write.cc -- acknowledged RDMA writes on an RC QP through weft-switch in megabytes per second, with
// a window of outstanding writes. Prints the mean size of the host's bursts first. Its yardsticks are
// bare_pipeline with cells of the same size, and zmq_relay.
#include <fmt/core.h>

#include "base/check.h"
#include "bench/support/options.h"
#include "bench/support/verbs_rig.h"

namespace weft::bench {
namespace {

struct Options {
  RigConfig rig;
  uint32_t bytes = 4096;
  uint32_t window = 64;
  uint32_t list = 0;
  double seconds = 0.3;
};

size_t region_bytes(const Options& options) {
  return WriteStream::kMemoryBytes + options.bytes;
}

void run_unit(const Fabric& fabric, VerbsExchange& exchange, const Options& options) {
  Endnode node(fabric, kUnitLid);
  node.wait_up();
  VerbsEnd end(node.port(), exchange, false, region_bytes(options));
  end.connect();
  while (!end.stopped()) {
    const int work = end.poll();
    node.end_turn(static_cast<uint32_t>(work), end.adapter().deadline());
  }
}

/// @return megabytes per second
double run_host(Endnode& node, VerbsEnd& end, const Options& options) {
  end.connect();
  WriteStream stream(end, options.bytes, options.window, options.list);
  uint64_t before = 0;
  double start = 0;
  const double begin = seconds_now();
  for (;;) {
    uint32_t work = stream.post();
    work += static_cast<uint32_t>(end.poll());
    const uint32_t done = stream.complete();
    node.end_turn(work + done, end.adapter().deadline());
    const double now = seconds_now();
    if (start == 0 && now - begin > options.seconds / 4) {
      start = now;
      before = stream.completed();
    } else if (start != 0 && now - start > options.seconds) {
      return static_cast<double>((stream.completed() - before) * options.bytes) / (now - start) / 1e6;
    }
  }
}

void measure(const Options& options) {
  auto& exchange = *reinterpret_cast<VerbsExchange*>(map_shared(sizeof(VerbsExchange)));
  const Fabric fabric(options.rig);
  Children unit;
  unit.start([&] { run_unit(fabric, exchange, options); });
  Endnode node(fabric, kHostLid);
  node.wait_up();
  VerbsEnd end(node.port(), exchange, true, region_bytes(options));
  const double value = run_host(node, end, options);
  exchange.stop.store(true);
  WEFT_CHECK(unit.wait(), "the unit's process failed");
  const std::string name =
      fmt::format("rc_write_{}_cells_{}_{}", options.bytes, options.rig.cell_payload_bytes, options.rig.link);
  print_figure(name + "_burst", node.flits_per_burst() * options.rig.cell_payload_bytes, "bytes");
  print_figure(name, value, "MB/s");
}

}  // namespace

int run(int argc, char** argv) {
  namespace po = boost::program_options;
  Options options;
  po::options_description known("rc_write: RDMA writes on RC through the switch");
  known.add_options()("bytes", po::value(&options.bytes)->default_value(4096), "of one write");
  known.add_options()("window", po::value(&options.window)->default_value(64),
                      "writes outstanding, at most 1024");
  known.add_options()("list", po::value(&options.list)->default_value(0),
                      "writes posted by one call; 0: as many as the window has room for");
  known.add_options()("seconds", po::value(&options.seconds)->default_value(0.3, "0.3"), "measured time");
  add_rig_options(known, options.rig);
  if (const int status = parse_options(argc, argv, known); status >= 0) return status;
  measure(options);
  return 0;
}

}  // namespace weft::bench
