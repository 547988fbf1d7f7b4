// bench/rc_latency.cc -- round trip of a small Send on an RC QP: host -> weft-switch -> unit -> weft-switch
// -> host. All processes poll; one message at a time. Its yardstick is bare_pipeline --ping.
#include <fmt/core.h>

#include <vector>

#include "base/check.h"
#include "bench/support/options.h"
#include "bench/support/verbs_rig.h"

namespace weft::bench {
namespace {

constexpr size_t kRegionBytes = 64 * 1024;
constexpr uint32_t kReceives = 64;
constexpr size_t kSamplesMax = 2'000'000;

struct Options {
  RigConfig rig;
  uint32_t bytes = 8;
  double seconds = 0.3;
};

void post_receive(VerbsEnd& end, uint32_t bytes) {
  const adapter::Sge sge = end.sge(0, bytes);
  WEFT_CHECK(end.adapter().post_recv(end.qp(), {.wr_id = 1, .sges = {&sge, 1}}) == adapter::PostResult::kOk,
             "post_recv");
}

void post_message(VerbsEnd& end, uint32_t bytes) {
  const adapter::Sge sge = end.sge(kRegionBytes / 2, bytes);
  adapter::SendRequest request;
  request.flags = adapter::kSendInline;
  request.sges = {&sge, 1};
  WEFT_CHECK(end.adapter().post_send(end.qp(), request) == adapter::PostResult::kOk, "post_send");
}

/// Waits for the next message and posts another receive WQE; false when told to stop.
bool await_message(VerbsEnd& end, uint32_t bytes) {
  for (;;) {
    bool got = false;
    for (const adapter::WorkCompletion& completion : end.completions())
      got = got || completion.opcode == adapter::WcOpcode::kRecv;
    if (got) {
      post_receive(end, bytes);
      return true;
    }
    if (end.stopped()) return false;
    if (end.poll() == 0) yield_core();
  }
}

void run_unit(const Fabric& fabric, VerbsExchange& exchange, const Options& options) {
  Endnode node(fabric, kUnitLid);
  node.wait_up();
  VerbsEnd end(node.port(), exchange, false, kRegionBytes);
  for (uint32_t i = 0; i < kReceives; ++i) post_receive(end, options.bytes);
  end.connect();
  while (await_message(end, options.bytes)) {
    post_message(end, options.bytes);
    end.poll();
  }
}

/// @return median round trip in microseconds
double run_host(VerbsEnd& end, const Options& options) {
  for (uint32_t i = 0; i < kReceives; ++i) post_receive(end, options.bytes);
  end.connect();
  std::vector<double> samples;
  samples.reserve(kSamplesMax);
  const double stop = seconds_now() + options.seconds;
  while (samples.size() < kSamplesMax) {
    const double start = seconds_now();
    if (start > stop) break;
    post_message(end, options.bytes);
    end.poll();
    await_message(end, options.bytes);
    samples.push_back((seconds_now() - start) * 1e6);
  }
  return percentile(samples, 0.5);
}

void measure(const Options& options) {
  auto& exchange = *reinterpret_cast<VerbsExchange*>(map_shared(sizeof(VerbsExchange)));
  const Fabric fabric(options.rig);
  Children unit;
  unit.start([&] { run_unit(fabric, exchange, options); });
  Endnode node(fabric, kHostLid);
  node.wait_up();
  VerbsEnd end(node.port(), exchange, true, kRegionBytes);
  const double value = run_host(end, options);
  exchange.stop.store(true);
  WEFT_CHECK(unit.wait(), "the unit's process failed");
  print_figure(fmt::format("send_{}_round_trip_{}", options.bytes, options.rig.link), value, "us");
}

}  // namespace

int run(int argc, char** argv) {
  namespace po = boost::program_options;
  Options options;
  po::options_description known("rc_latency: round trip of a Send on RC through the switch, polling");
  known.add_options()("bytes", po::value(&options.bytes)->default_value(8), "of a message, at most 256");
  known.add_options()("seconds", po::value(&options.seconds)->default_value(0.3, "0.3"), "measured time");
  add_rig_options(known, options.rig);
  if (const int status = parse_options(argc, argv, known); status >= 0) return status;
  if (options.bytes == 0 || options.bytes > 256) {
    fmt::print(stderr, "rc_latency: --bytes is 1 to 256\n");
    return 2;
  }
  measure(options);
  return 0;
}

}  // namespace weft::bench
