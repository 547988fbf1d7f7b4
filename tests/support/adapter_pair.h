// tests/support/adapter_pair.h -- two channel adapters over a Pipe: every cell is traced, and a filter may
// hold, drop, double or change it.
#pragma once

#include "tests/support/adapter_sides.h"
#include "tests/support/pipe_port.h"

namespace weft::test {

class AdapterPair final : public AdapterSides {
 public:
  explicit AdapterPair(uint32_t cell_payload_bytes = 256, const adapter::AdapterLimits& limits = {},
                       bool verify_cells = false, std::span<const adapter::ServiceRow* const> services = {})
      : pipe(cell_payload_bytes) {
    for (int i = 0; i < 2; ++i) add_side(pipe.end(i), limits, verify_cells, services);
  }

  ~AdapterPair() override { remove_sides(); }

  ManualClock clock;
  Pipe pipe;

 private:
  [[nodiscard]] Instant now() const override { return clock.now(); }
  void pass(Duration step) override { clock.advance(step); }
};

}  // namespace weft::test
