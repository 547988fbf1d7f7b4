// base/net/model_port.h -- base of the ports without a kernel interface, `EchoNic`, `SlirpNic`, `PcapNic`,
// `GenPort` and `UnixPort`: no offloads, a medium that is always up, an address and an MTU that are only
// numbers.
#pragma once

#include <string>
#include <vector>

#include "base/net/frame_port.h"

namespace weft {

/// Owner: the thread of the driver half.
class ModelPort : public FramePort {
 public:
  [[nodiscard]] const FramePortInfo& info() const noexcept override { return info_; }
  int poll(Instant) noexcept override { return 0; }
  void wait_fds(std::vector<pollfd>&) const override {}
  void set_carrier(bool) noexcept override {}
  [[nodiscard]] bool carrier() const noexcept override { return true; }
  Status set_offloads(Offload wanted) override;
  Status set_mac(const MacAddress& mac) override;
  Status set_mtu(uint32_t mtu_bytes) override;
  Status set_promiscuous(bool) override { return {}; }
  [[nodiscard]] CounterSet<PortCounter>& counters() noexcept override { return counters_; }

 protected:
  struct MtuRange {
    uint32_t least = 68;
    uint32_t most = 9000;  // highest MTU, and its initial value
  };
  ModelPort(std::string kind, const MacAddress& mac, const MtuRange& mtu, uint32_t frame_bytes_max);

  FramePortInfo info_;
  CounterSet<PortCounter> counters_;

 private:
  MtuRange mtu_;
};

}  // namespace weft
