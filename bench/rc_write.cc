// bench/rc_write.cc -- RDMA writes on an RC QP through weft-switch, a window of them outstanding, as megabytes per second
// that were acknowledged. The yardsticks beside it are bare_pipeline with cells of the same size, and zmq_relay.
#include <fmt/core.h>

#include "base/check.h"
#include "bench/support/options.h"
#include "bench/support/verbs_rig.h"

namespace weft::bench {
namespace {

constexpr size_t kMemoryBytes = 64 * 1024;  // as in bare_pipeline

struct Options {
  RigConfig rig;
  uint32_t bytes = 4096;
  uint32_t window = 64;
  double seconds = 0.3;
};

size_t region_bytes(const Options& options) {
  return kMemoryBytes + options.bytes;
}

void run_unit(const Fabric& fabric, VerbsExchange& exchange, const Options& options) {
  pin_to_core(options.rig.unit_core);
  VerbsEnd end(fabric, exchange, false, region_bytes(options));
  end.connect();
  while (!end.stopped()) {
    if (end.poll() == 0) yield_core();
  }
}

class Writer {
 public:
  Writer(VerbsEnd& end, const Options& options) : end_(end), options_(options) {}

  /// Fills the window; returns the writes posted.
  uint32_t post() noexcept {
    uint32_t posted = 0;
    for (; outstanding_ < options_.window; ++outstanding_, ++posted) {
      const Sge sge = end_.sge(at_, options_.bytes);
      SendRequest request;
      request.opcode = SendOpcode::kRdmaWrite;
      request.sges = {&sge, 1};
      request.remote_addr = end_.peer().addr + at_;
      request.rkey = Rkey(end_.peer().rkey);
      if (end_.adapter().post(end_.qp(), request) != PostResult::kOk) break;
      at_ = (at_ + options_.bytes) % kMemoryBytes;
    }
    if (posted != 0) end_.adapter().ring_send(end_.qp());
    return posted;
  }
  /// Takes what has completed; returns how many writes.
  uint32_t complete() noexcept {
    const auto count = static_cast<uint32_t>(end_.completions().size());
    outstanding_ -= count;
    return count;
  }

 private:
  VerbsEnd& end_;
  Options options_;
  uint32_t outstanding_ = 0;
  uint64_t at_ = 0;
};

/// Megabytes per second.
double run_host(VerbsEnd& end, const Options& options) {
  end.connect();
  Writer writer(end, options);
  uint64_t completed = 0;
  uint64_t before = 0;
  double start = 0;
  const double begin = seconds_now();
  for (;;) {
    uint32_t work = writer.post();
    work += static_cast<uint32_t>(end.poll());
    const uint32_t done = writer.complete();
    completed += done;
    if (work + done == 0) yield_core();
    const double now = seconds_now();
    if (start == 0 && now - begin > options.seconds / 4) {
      start = now;
      before = completed;
    } else if (start != 0 && now - start > options.seconds) {
      return static_cast<double>((completed - before) * options.bytes) / (now - start) / 1e6;
    }
  }
}

void measure(const Options& options) {
  auto& exchange = *reinterpret_cast<VerbsExchange*>(map_shared(sizeof(VerbsExchange)));
  const Fabric fabric(options.rig);
  Children unit;
  unit.start([&] { run_unit(fabric, exchange, options); });
  pin_to_core(options.rig.host_core);
  VerbsEnd end(fabric, exchange, true, region_bytes(options));
  const double value = run_host(end, options);
  exchange.stop.store(true);
  WEFT_CHECK(unit.wait(), "the unit's process failed");
  print_figure(
      fmt::format("rc_write_{}_cells_{}_{}", options.bytes, options.rig.cell_payload_bytes, options.rig.link),
      value, "MB/s");
}

int run(int argc, char** argv) {
  namespace po = boost::program_options;
  Options options;
  po::options_description known("rc_write: RDMA writes on RC through the switch");
  known.add_options()("bytes", po::value(&options.bytes)->default_value(4096), "of one write");
  known.add_options()("window", po::value(&options.window)->default_value(64),
                      "writes outstanding, at most 256");
  known.add_options()("seconds", po::value(&options.seconds)->default_value(0.3, "0.3"), "measured time");
  add_rig_options(known, options.rig);
  if (const int status = parse_options(argc, argv, known); status >= 0) return status;
  measure(options);
  return 0;
}

}  // namespace
}  // namespace weft::bench

int main(int argc, char** argv) {
  return weft::bench::run(argc, argv);
}
