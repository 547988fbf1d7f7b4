// bench/goodput_loss.cc -- throughput of RDMA writes over a simulated link of 2 us that loses cells, in
// virtual time, so the result is the same on every machine. scripts/bench compares losses of 1 % and 30 %
// with none.
#include <fmt/core.h>

#include "bench/support/measure.h"
#include "bench/support/options.h"
#include "sim/goodput.h"

namespace weft::bench {

int run(int argc, char** argv) {
  namespace po = boost::program_options;
  double loss = 0;
  sim::GoodputRun wanted;
  po::options_description known(
      "goodput_loss: RDMA writes over a link of 2 us that loses cells, in virtual time");
  known.add_options()("loss", po::value(&loss)->default_value(0), "per cent of cells, both ways")(
      "bytes", po::value(&wanted.message_bytes)->default_value(wanted.message_bytes),
      "of a write, at most 1 MiB")("total", po::value(&wanted.bytes)->default_value(wanted.bytes),
                                   "bytes of all writes")(
      "seed", po::value(&wanted.seed)->default_value(wanted.seed), "of the losses");
  if (const int status = parse_options(argc, argv, known); status >= 0) return status;
  if (loss < 0 || loss > 90 || wanted.message_bytes == 0 || wanted.message_bytes > sim::kGoodputBytesMax) {
    fmt::print(stderr, "goodput_loss: --loss is 0 to 90, --bytes 1 to {}\n", sim::kGoodputBytesMax);
    return 2;
  }
  wanted.loss_ppm = static_cast<uint32_t>(loss * 10'000);
  const sim::Goodput got = sim::measure_goodput(wanted);
  fmt::print("{} cells sent, {} of them again, {} timeouts\n", got.cells_sent, got.cells_repeated,
             got.timeouts);
  if (got.bytes_per_second == 0) {
    fmt::print(stderr, "goodput_loss: a write failed\n");
    return 1;
  }
  print_figure(fmt::format("goodput_loss_{}", loss), got.bytes_per_second / 1e6, "MB/s");
  return 0;
}

}  // namespace weft::bench
