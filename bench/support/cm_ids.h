// bench/support/cm_ids.h -- identifiers of connection management, made, resolved and ended as librdmacm's
// commands do it.
#pragma once

#include <cstdint>
#include <vector>

#include "base/rng.h"
#include "rdma_cm/endnode.h"

namespace weft::bench {

/// An endnode alone, without a fabric. Owner: the measuring thread.
class CmIds final : rdma_cm::NodeView, management::MadPort {
 public:
  CmIds();
  /// Makes `count` identifiers on a channel, resolves an address for each and closes the channel; then the
  /// same, with each identifier destroyed by itself, the oldest first.
  void open_and_close(uint32_t count);

 private:
  void make(rdma_cm::CmFile& file, uint32_t count);

  [[nodiscard]] rdma_cm::NodeIdentity identity() noexcept override { return {}; }
  [[nodiscard]] bool owns(const rdma_cm::IpAddress& /*address*/) noexcept override { return true; }
  [[nodiscard]] rdma_cm::IpAddress own(uint8_t /*family*/) noexcept override { return {}; }
  [[nodiscard]] int hold_port(uint16_t /*space*/, const rdma_cm::IpAddress& /*address*/,
                              bool /*shared*/) noexcept override {
    return 0;
  }
  void release_port(uint16_t /*space*/, const rdma_cm::IpAddress& /*address*/) noexcept override {}
  [[nodiscard]] bool port_taken(uint16_t /*space*/, const rdma_cm::IpAddress& /*address*/) noexcept override {
    return false;
  }
  [[nodiscard]] rdma_cm::Presence presence(const MadProcess& /*process*/) noexcept override { return {}; }
  void fail_qp(uint32_t /*qpn*/) noexcept override {}
  [[nodiscard]] bool send(Lid /*to*/, const MadBytes& /*mad*/) noexcept override { return true; }
  [[nodiscard]] bool flood(const MadBytes& /*mad*/) noexcept override { return true; }

  Instant now_{};
  SeededRandom random_{1};
  rdma_cm::Endnode endnode_;
  std::vector<rdma_cm::CmId*> ids_;
};

}  // namespace weft::bench
