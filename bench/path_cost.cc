// bench/path_cost.cc -- where the CPU time of a cell goes: host adapter, switch and unit adapter in one
// thread over memory links, RDMA writes on RC flowing. No cache line crosses between cores here, so what the
// figures of rc_write cost on top is transfer and waiting.
#include <fmt/core.h>

#include "base/check.h"
#include "bench/support/options.h"
#include "bench/support/verbs_rig.h"
#include "fabric/link/memory_link.h"
#include "fabric/switch/switch.h"

namespace weft::bench {
namespace {

struct Options {
  uint32_t cell_payload_bytes = 256;
  uint32_t bytes = 4096;
  uint32_t window = 64;
  double seconds = 0.5;
};

fabric::MemoryCableConfig cable_config(const Options& options, Lid lid) {
  fabric::MemoryCableConfig config;
  for (fabric::LinkConfig& end : config.ends) end.cell_payload_bytes = options.cell_payload_bytes;
  config.ends[0].guid = Guid(lid.value() + 1U);
  config.ends[0].lid = lid;
  config.ends[1].guid = Guid(1);
  config.ends[1].is_switch = true;
  config.receiver_rereads = true;
  return config;
}

fabric::SwitchConfig switch_config(const Options& options) {
  fabric::SwitchConfig config;
  config.link = cable_config(options, kLidNone).ends[1];
  config.ports = 2;
  return config;
}

/// Two endnodes on one switch.
struct World {
  explicit World(const Options& options)
      : host_cable(cable_config(options, kHostLid), random),
        unit_cable(cable_config(options, kUnitLid), random),
        middle(switch_config(options)),
        host_port(host_cable.end(0)),
        unit_port(unit_cable.end(0)) {
    const Instant now = Endnode::now();
    WEFT_CHECK(host_cable.plug(now) == LinkRefusal::kNone && unit_cable.plug(now) == LinkRefusal::kNone,
               "plug");
    middle.attach(1, host_cable.end(1));
    middle.attach(2, unit_cable.end(1));
    middle.forwarding().set(kHostLid, 1);
    middle.forwarding().set(kUnitLid, 2);
    middle.poll(now);
    host_port.poll(now);
    unit_port.poll(now);
  }

  SystemRandom random;
  fabric::MemoryCable host_cable;
  fabric::MemoryCable unit_cable;
  fabric::Switch middle;
  fabric::LinkCellPort host_port;
  fabric::LinkCellPort unit_port;
};

/// Time spent in one part, in nanoseconds.
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
  World world(options);
  VerbsExchange exchange{};
  VerbsEnd host(world.host_port, exchange, true, WriteStream::kMemoryBytes + options.bytes);
  VerbsEnd unit(world.unit_port, exchange, false, WriteStream::kMemoryBytes + options.bytes);
  host.bring_up();
  unit.bring_up();
  WriteStream stream(host, options.bytes, options.window);
  Stage stages[3];
  const double end = seconds_now() + options.seconds;
  while (seconds_now() < end) {
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
  if (const int status = parse_options(argc, argv, known); status >= 0) return status;
  measure(options);
  return 0;
}

}  // namespace
}  // namespace weft::bench

int main(int argc, char** argv) {
  return weft::bench::run(argc, argv);
}
