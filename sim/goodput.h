// sim/goodput.h -- throughput of a connection over a link that loses cells, in virtual time: RDMA writes of
// one RC queue pair over a link of 2 us that loses cells in both directions. The same seed gives the same
// figure.
#pragma once

#include <cstdint>

namespace weft::sim {

/// Largest write.
inline constexpr uint32_t kGoodputBytesMax = 1 << 20;

struct GoodputRun {
  uint64_t seed = 1;
  uint32_t loss_ppm = 0;
  uint32_t message_bytes = 64 * 1024;
  uint64_t bytes = 32 << 20;  // total of all writes
};

struct Goodput {
  double bytes_per_second = 0;  // 0: a write failed
  uint64_t cells_sent = 0;
  uint64_t cells_repeated = 0;
  uint64_t timeouts = 0;  // expiries of the retransmission timer
};

[[nodiscard]] Goodput measure_goodput(const GoodputRun& run);

}  // namespace weft::sim
