// bench/cells_through_switch.cc -- cells per second from one link end through weft-switch to another, with
// CRC checks at each hop, credits, acknowledgements and the arbiter, but without queue pairs. Its yardstick
// is bare_pipeline.
//
// How it works: the host end composes cells from registers and copies the payload in under the same CRC. The
// unit end takes whole cells that its link has checked and copies the payload out. Both run on one core and
// yield when idle.
#include <fmt/core.h>

#include <atomic>
#include <cstring>

#include "base/check.h"
#include "base/crc32c.h"
#include "bench/support/fabric_rig.h"
#include "bench/support/options.h"
#include "messages/cell.h"

namespace weft::bench {
namespace {

constexpr uint64_t kMemoryBytes = 64 * 1024;  // source and sink of payload, as in bare_pipeline
constexpr VirtualLane kLane{0};

struct Shared {
  std::atomic<bool> unit_ready;
  std::atomic<bool> stop;
  alignas(128) std::atomic<uint64_t> delivered;
};

struct Options {
  RigConfig rig;
  uint64_t batch = 32;
  double seconds = 0.3;
};

class Source {
 public:
  Source(fabric::CellPort& port, uint32_t payload_bytes)
      : port_(port),
        payload_bytes_(payload_bytes),
        memory_(kMemoryBytes + kCellPayloadBytesMax, std::byte{7}),
        fixed_(make_cell_template({port.info().subnet, port.info().subnet, kUnitLid, kHostLid, kLane,
                                   ServiceLevel(0), Qpn(2), Qpn(3)})) {}

  /// Sends up to `batch` cells. @return the number for which there was credit
  uint64_t send(uint64_t batch) noexcept {
    const uint32_t cell_bytes = kCellHeaderBytes + payload_bytes_ + kCrcBytes;
    uint64_t sent = 0;
    for (; sent < batch; ++sent) {
      std::byte* cell = port_.claim(kLane, cell_bytes);
      if (cell == nullptr) break;
      const CellVariable variable{.opcode = Opcode::kSend,
                                  .flags = kCellFirst | kCellLast,
                                  .psn = Psn(static_cast<uint32_t>(sequence_++)),
                                  .payload_bytes = static_cast<uint16_t>(payload_bytes_)};
      const uint32_t head = compose_cell_header(cell, fixed_, variable);
      const uint32_t crc = crc32c_copy(head, cell + kCellHeaderBytes, memory_.data() + at_, payload_bytes_);
      store_be(cell + kCellHeaderBytes + payload_bytes_, crc);
      port_.commit(kLane, cell_bytes, crc);
      at_ = (at_ + payload_bytes_) % kMemoryBytes;
    }
    return sent;
  }

 private:
  fabric::CellPort& port_;
  uint32_t payload_bytes_;
  std::vector<std::byte> memory_;
  CellTemplate fixed_;
  uint64_t sequence_ = 0;
  uint64_t at_ = 0;
};

/// Keeps the link busy. @return cells per second at the unit, after a short warm-up
double run_source(Endnode& node, const Shared& shared, const Options& options) {
  fabric::CellPort& port = node.port();
  Source source(port, options.rig.cell_payload_bytes);
  double start = 0;
  uint64_t before = 0;
  const double begin = seconds_now();
  for (;;) {
    const Instant now = Endnode::now();
    port.poll(now);
    uint64_t work = source.send(options.batch);
    work += port.receive().size();
    port.release();
    port.flush(now);
    if (work == 0) yield_core();
    const double at = seconds_now();
    if (start == 0 && at - begin > options.seconds / 4) {
      start = at;
      before = shared.delivered.load(std::memory_order_relaxed);
    } else if (start != 0 && at - start > options.seconds) {
      return static_cast<double>(shared.delivered.load(std::memory_order_relaxed) - before) / (at - start);
    }
  }
}

void run_sink(Endnode& node, Shared& shared) {
  fabric::CellPort& port = node.port();
  std::vector<std::byte> memory(kMemoryBytes + kCellPayloadBytesMax);
  uint64_t at = 0;
  uint64_t delivered = 0;
  while (!shared.stop.load(std::memory_order_relaxed)) {
    const Instant now = Endnode::now();
    port.poll(now);
    const auto cells = port.receive();
    for (const fabric::RxCell& cell : cells) {
      const size_t payload = cell.bytes.size() - kCellHeaderBytes - kCrcBytes;
      std::memcpy(memory.data() + at, cell.bytes.data() + kCellHeaderBytes, payload);
      at = (at + payload) % kMemoryBytes;
    }
    const bool idle = cells.empty();
    delivered += cells.size();
    port.release();
    port.flush(now);
    shared.delivered.store(delivered, std::memory_order_relaxed);
    if (idle) yield_core();
  }
}

void measure(const Options& options) {
  auto& shared = *reinterpret_cast<Shared*>(map_shared(sizeof(Shared)));
  const Fabric fabric(options.rig);
  Children unit;
  unit.start([&] {
    Endnode node(fabric, kUnitLid);
    node.wait_up();
    shared.unit_ready.store(true);
    run_sink(node, shared);
  });
  Endnode node(fabric, kHostLid);
  node.wait_up();
  while (!shared.unit_ready.load()) yield_core();
  const double value = run_source(node, shared, options);
  shared.stop.store(true);
  WEFT_CHECK(unit.wait(), "the unit's process failed");
  print_figure(fmt::format("cells_through_switch_{}", options.rig.cell_payload_bytes), value, "cells/s");
}

}  // namespace

int run(int argc, char** argv) {
  namespace po = boost::program_options;
  Options options;
  po::options_description known("cells_through_switch: link ends through the real switch");
  known.add_options()("batch", po::value(&options.batch)->default_value(32), "cells composed per turn");
  known.add_options()("seconds", po::value(&options.seconds)->default_value(0.3, "0.3"), "measured time");
  add_rig_options(known, options.rig);
  if (const int status = parse_options(argc, argv, known); status >= 0) return status;
  measure(options);
  return 0;
}

}  // namespace weft::bench
