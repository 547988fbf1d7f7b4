// tests/support/adapter_sides.h -- channel adapters in virtual time, with what most tests need: a PD, a CQ
// and a registered buffer on each side, and connected QPs on demand. Side i has LID i + 1. What joins them is
// a traced pipe (adapter_pair.h) or a switch with real links (adapter_star.h).
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "adapter/adapter.h"
#include "adapter/queues/qp_rules.h"
#include "base/clock.h"
#include "base/rng.h"

namespace weft::test {

inline constexpr uint32_t kPairBufferBytes = 1U << 20;

struct PairSide {
  explicit PairSide(uint64_t seed) : random(seed), memory(kPairBufferBytes) {}
  SeededRandom random;
  std::unique_ptr<adapter::ChannelAdapter> adapter;
  adapter::PdId pd;
  adapter::CompletionQueue* cq = nullptr;
  std::vector<std::byte> memory;
  adapter::MemoryRegion region;
  std::vector<adapter::WorkCompletion> completions;  // everything polled so far

  [[nodiscard]] adapter::Sge sge(uint32_t offset, uint32_t bytes) const {
    return {.addr = region.addr + offset, .length = bytes, .lkey = region.lkey};
  }
  void fill(uint32_t offset, uint32_t bytes, uint8_t first) {
    for (uint32_t i = 0; i < bytes; ++i)
      memory[offset + i] = static_cast<std::byte>(first + i * 7 + (i >> 8));
  }
  [[nodiscard]] std::vector<std::byte> bytes_at(uint32_t offset, uint32_t bytes) const {
    return {memory.begin() + offset, memory.begin() + offset + bytes};
  }
};

class AdapterSides {
 public:
  virtual ~AdapterSides() = default;

  [[nodiscard]] PairSide& side(int index) { return sides[static_cast<size_t>(index)]; }

  adapter::QueuePair* make_qp(int index, adapter::QpConfig config) {
    PairSide& at = side(index);
    config.pd = at.pd;
    if (config.send_cq == nullptr) config.send_cq = at.cq;
    if (config.recv_cq == nullptr) config.recv_cq = at.cq;
    return at.adapter->create_qp(config).value();
  }

  /// Takes a QP from RESET to RTS. `peer` and `dlid` matter for connected services only.
  void bring_up(int index, adapter::QueuePair& qp, const adapter::QpConfig& config, Qpn peer, Lid dlid,
                Psn sq, Psn rq, adapter::QpAttr attr = {}) {
    adapter::ChannelAdapter& adapter = *side(index).adapter;
    attr.access = adapter::Access::kRemoteWrite | adapter::Access::kRemoteRead;
    attr.qkey = kQkey;
    attr.dest_qpn = peer;
    attr.dlid = dlid;
    attr.sq_psn = sq;
    attr.rq_psn = rq;
    adapter::QpState from = adapter::QpState::kReset;
    for (const adapter::QpState to :
         {adapter::QpState::kInit, adapter::QpState::kRtr, adapter::QpState::kRts}) {
      attr.state = to;
      const uint32_t mask = adapter::kQpAttrState | adapter::find_qp_rule(config.type, from, to)->required;
      ASSERT_EQ(adapter.modify_qp(qp, attr, mask), adapter::ModifyResult::kOk);
      from = to;
    }
  }

  /// A QP of side `a` and one of side `b` bound to each other, both in RTS.
  std::array<adapter::QueuePair*, 2> connect(const adapter::QpConfig& config,
                                             const adapter::QpAttr& attr = {}, int a = 0, int b = 1) {
    const std::array<adapter::QueuePair*, 2> qps{make_qp(a, config), make_qp(b, config)};
    const auto lid = [](int index) { return Lid(static_cast<uint16_t>(index + 1)); };
    bring_up(a, *qps[0], config, side(b).adapter->qpn(*qps[1]), lid(b), Psn(100), Psn(0xFFFFF0), attr);
    bring_up(b, *qps[1], config, side(a).adapter->qpn(*qps[0]), lid(a), Psn(0xFFFFF0), Psn(100), attr);
    return qps;
  }

  adapter::PostResult post_recv(int index, adapter::QueuePair& qp, uint64_t wr_id,
                                std::vector<adapter::Sge> sges) {
    return side(index).adapter->post_recv(qp, adapter::RecvRequest{.wr_id = wr_id, .sges = sges});
  }

  /// One turn of one adapter; time stands still.
  void run_one(int index) {
    PairSide& at = side(index);
    at.adapter->poll(now());
    std::array<adapter::WorkCompletion, 32> got;
    uint32_t count;
    while ((count = at.adapter->cqs().poll(*at.cq, got)) > 0) {
      at.completions.insert(at.completions.end(), got.begin(), got.begin() + count);
    }
  }

  /// `turns` turns of all adapters; virtual time moves on by `step` after each.
  void run(int turns = 200, Duration step = std::chrono::microseconds(10)) {
    for (int turn = 0; turn < turns; ++turn) {
      for (int i = 0; i < static_cast<int>(sides.size()); ++i) run_one(i);
      pass(step);
    }
  }

  static constexpr uint32_t kQkey = 0x1234;
  std::deque<PairSide> sides;

 protected:
  /// Adapters go before the ports they use.
  void remove_sides() { sides.clear(); }
  /// The next side, whose adapter gets `port`.
  void add_side(fabric::CellPort& port, const adapter::AdapterLimits& limits = {}, bool verify_cells = false,
                std::span<const adapter::ServiceRow* const> services = {},
                adapter::DirectPaths* direct = nullptr) {
    const uint64_t index = sides.size();
    PairSide& side = sides.emplace_back(11 * (index + 1));
    const adapter::AdapterConfig config{.guid = Guid(0x1001 + index),
                                        .limits = limits,
                                        .verify_cells = verify_cells,
                                        .services = services,
                                        .direct = direct};
    side.adapter = std::make_unique<adapter::ChannelAdapter>(config, side.random);
    side.adapter->ports().attach(port);
    side.pd = side.adapter->alloc_pd().value();
    side.cq = side.adapter->cqs().create(1024).value();
    const adapter::Access all = adapter::Access::kLocalWrite | adapter::Access::kRemoteWrite |
                                adapter::Access::kRemoteRead | adapter::Access::kRemoteAtomic |
                                adapter::Access::kWindowBind;
    side.region = side.adapter->memory().regions.reg_mr(side.pd, side.memory, all).value();
  }
  [[nodiscard]] virtual Instant now() const = 0;
  /// Moves cells and time.
  virtual void pass(Duration step) = 0;
};

}  // namespace weft::test
