// bench/path_cost.cc -- distribution of a cell's CPU time: host adapter, switch and unit adapter in one
// thread over links in memory, with RDMA writes on RC. No cache line moves between cores here, so the
// additional time in rc_write is transfer and waiting.
#include <fmt/core.h>

#include <algorithm>

#include "base/check.h"
#include "bench/support/late_cell_rig.h"
#include "bench/support/one_thread_fabric.h"
#include "bench/support/options.h"
#include "bench/support/verbs_rig.h"

namespace weft::bench {
namespace {

struct Options {
  uint32_t cell_payload_bytes = 256;
  uint32_t bytes = 4096;
  uint32_t window = 64;
  double seconds = 0.5;
  uint64_t writes = 0;
};

/// Time spent in one stage, in nanoseconds.
class Stage {
 public:
  template <class Function>
  void run(Function&& function) {
    const Instant start = Endnode::now();
    function();
    total_ += Endnode::now() - start;
  }
  [[nodiscard]] double nanoseconds() const noexcept { return static_cast<double>(total_.count()); }

 private:
  Duration total_{};
};

void measure(const Options& options) {
  OneThreadFabric world(options.cell_payload_bytes);
  VerbsExchange exchange{};
  VerbsEnd host(world.host_port, exchange, true, WriteStream::kMemoryBytes + options.bytes);
  VerbsEnd unit(world.unit_port, exchange, false, WriteStream::kMemoryBytes + options.bytes);
  host.bring_up();
  unit.bring_up();
  WriteStream stream(host, options.bytes, options.window);
  Stage stages[3];
  const double end = seconds_now() + options.seconds;
  const auto goes_on = [&] {
    return options.writes != 0 ? stream.completed() < options.writes : seconds_now() < end;
  };
  while (goes_on()) {
    stages[0].run([&] {
      stream.post();
      host.poll();
      stream.complete();
    });
    stages[1].run([&] { world.middle.poll(Endnode::now()); });
    stages[2].run([&] { unit.poll(); });
  }
  const double cells = static_cast<double>(stream.completed()) *
                       ((options.bytes + options.cell_payload_bytes - 1) / options.cell_payload_bytes);
  WEFT_CHECK(cells > 0, "nothing was written");
  constexpr const char* kNames[] = {"host", "switch", "unit"};
  for (size_t i = 0; i < 3; ++i) {
    print_figure(fmt::format("path_cost_{}_{}", kNames[i], options.cell_payload_bytes),
                 stages[i].nanoseconds() / cells, "ns/cell");
  }
}

/// The shortest of several turns in which a cell arrives behind those of later writes.
void measure_late_cell(const char* name, uint32_t later, LateCellRig::Later where) {
  LateCellRig rig(later, where);
  double least = 1e9;
  for (int round = 0; round < 200; ++round) {
    rig.send();
    Stage stage;
    stage.run([&] { rig.arrive(); });
    least = std::min(least, stage.nanoseconds());
    rig.finish();
  }
  print_figure(fmt::format("path_cost_late_cell_{}", name), least / 1000, "us");
}

}  // namespace

int run(int argc, char** argv) {
  namespace po = boost::program_options;
  Options options;
  po::options_description known("path_cost: CPU time per cell of host, switch and unit");
  known.add_options()("payload", po::value(&options.cell_payload_bytes)->default_value(256),
                      "payload bytes of a cell");
  known.add_options()("bytes", po::value(&options.bytes)->default_value(4096), "of one write");
  known.add_options()("window", po::value(&options.window)->default_value(64),
                      "writes outstanding, at most 1024");
  known.add_options()("seconds", po::value(&options.seconds)->default_value(0.5, "0.5"), "measured time");
  known.add_options()(
      "writes", po::value(&options.writes)->default_value(0),
      "number of writes instead of a time, to count instructions with valgrind --tool=callgrind");
  if (const int status = parse_options(argc, argv, known); status >= 0) return status;
  measure(options);
  if (options.writes == 0) {
    measure_late_cell("alone", 0, LateCellRig::Later::kSamePlace);
    measure_late_cell("same_place", LateCellRig::kLaterMost, LateCellRig::Later::kSamePlace);
    measure_late_cell("pieces", LateCellRig::kLaterMost, LateCellRig::Later::kPieces);
  }
  return 0;
}

}  // namespace weft::bench
