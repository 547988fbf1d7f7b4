// sim/goodput.h -- what is left of a connection's throughput where cells are lost, in virtual time: RDMA
// writes of one RC queue pair over a link of 2 us that loses cells of both directions. The same seed gives
// the same figure.
#pragma once

#include <cstdint>

namespace weft::sim {

/// The longest write.
inline constexpr uint32_t kGoodputBytesMax = 1 << 20;

struct GoodputRun {
  uint64_t seed = 1;
  uint32_t loss_ppm = 0;
  uint32_t message_bytes = 64 * 1024;
  uint64_t bytes = 32 << 20;  // in all
};

struct Goodput {
  double bytes_per_second = 0;  // 0: a write failed
  uint64_t cells_sent = 0;
  uint64_t cells_repeated = 0;
  uint64_t timeouts = 0;  // retransmission timer
};

[[nodiscard]] Goodput measure_goodput(const GoodputRun& run);

}  // namespace weft::sim
