// tests/support/adapter_pair.h -- two channel adapters over a Pipe in virtual time, with what most tests
// need: a PD, a CQ and a registered buffer on each side, and connected QPs on demand. Side 0 has LID 1, side
// 1 has LID 2.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "base/clock.h"
#include "base/rng.h"
#include "channel/adapter.h"
#include "tests/support/pipe_port.h"

namespace weft::test {

inline constexpr uint32_t kPairBufferBytes = 1U << 20;

struct PairSide {
  explicit PairSide(uint64_t seed) : random(seed), memory(kPairBufferBytes) {}
  SeededRandom random;
  std::unique_ptr<ChannelAdapter> adapter;
  PdId pd;
  CompletionQueue* cq = nullptr;
  std::vector<std::byte> memory;
  MemoryRegion region;
  std::vector<WorkCompletion> completions;  // everything polled so far

  [[nodiscard]] Sge sge(uint32_t offset, uint32_t bytes) const {
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

class AdapterPair {
 public:
  explicit AdapterPair(uint32_t cell_payload_bytes = 256, const AdapterLimits& limits = {},
                       bool verify_cells = false)
      : pipe(cell_payload_bytes), sides{PairSide(11), PairSide(22)} {
    for (int i = 0; i < 2; ++i) {
      PairSide& side = sides[static_cast<size_t>(i)];
      const AdapterConfig config{
          .guid = Guid(0x1001U + static_cast<uint64_t>(i)), .limits = limits, .verify_cells = verify_cells};
      side.adapter = std::make_unique<ChannelAdapter>(config, side.random);
      side.adapter->attach(pipe.end(i));
      side.pd = side.adapter->alloc_pd().value();
      side.cq = side.adapter->create_cq(1024).value();
      const Access all =
          Access::kLocalWrite | Access::kRemoteWrite | Access::kRemoteRead | Access::kWindowBind;
      side.region = side.adapter->memory().reg_mr(side.pd, side.memory, all).value();
    }
  }

  [[nodiscard]] PairSide& side(int index) { return sides[static_cast<size_t>(index)]; }

  QueuePair* make_qp(int index, QpConfig config) {
    PairSide& at = side(index);
    config.pd = at.pd;
    if (config.send_cq == nullptr) config.send_cq = at.cq;
    if (config.recv_cq == nullptr) config.recv_cq = at.cq;
    return at.adapter->create_qp(config).value();
  }

  /// Takes a QP from RESET to RTS. `peer` and `dlid` matter for connected services only.
  void bring_up(int index, QueuePair& qp, const QpConfig& config, Qpn peer, Lid dlid, Psn sq, Psn rq,
                QpAttr attr = {}) {
    ChannelAdapter& adapter = *side(index).adapter;
    attr.access = Access::kRemoteWrite | Access::kRemoteRead;
    attr.qkey = kQkey;
    attr.dest_qpn = peer;
    attr.dlid = dlid;
    attr.sq_psn = sq;
    attr.rq_psn = rq;
    const bool acknowledged = is_acknowledged(config.type);
    const bool connected = is_connected(config.type);
    attr.state = QpState::kInit;
    uint32_t mask = kQpAttrState | kQpAttrPkeyIndex | kQpAttrPort;
    mask |= connected ? kQpAttrAccess : kQpAttrQkey;
    ASSERT_EQ(adapter.modify_qp(qp, attr, mask), ModifyResult::kOk);
    attr.state = QpState::kRtr;
    mask = kQpAttrState;
    if (connected) mask |= kQpAttrAddress | kQpAttrPathMtu | kQpAttrDestQpn | kQpAttrRqPsn;
    if (config.type == QpType::kRc) mask |= kQpAttrMaxDestRdAtomic | kQpAttrMinRnrTimer;
    if (config.type == QpType::kRd) mask |= kQpAttrMinRnrTimer;
    ASSERT_EQ(adapter.modify_qp(qp, attr, mask), ModifyResult::kOk);
    attr.state = QpState::kRts;
    mask = kQpAttrState | kQpAttrSqPsn;
    if (acknowledged) mask |= kQpAttrTimeout | kQpAttrRetryCount | kQpAttrRnrRetry;
    if (config.type == QpType::kRc) mask |= kQpAttrMaxRdAtomic;
    ASSERT_EQ(adapter.modify_qp(qp, attr, mask), ModifyResult::kOk);
  }

  /// Two QPs bound to each other, both in RTS.
  std::array<QueuePair*, 2> connect(const QpConfig& config, const QpAttr& attr = {}) {
    const std::array<QueuePair*, 2> qps{make_qp(0, config), make_qp(1, config)};
    const Qpn n0 = side(0).adapter->qpn(*qps[0]);
    const Qpn n1 = side(1).adapter->qpn(*qps[1]);
    bring_up(0, *qps[0], config, n1, Lid(2), Psn(100), Psn(0xFFFFF0), attr);
    bring_up(1, *qps[1], config, n0, Lid(1), Psn(0xFFFFF0), Psn(100), attr);
    return qps;
  }

  PostResult post_recv(int index, QueuePair& qp, uint64_t wr_id, std::vector<Sge> sges) {
    return side(index).adapter->post_recv(qp, RecvRequest{.wr_id = wr_id, .sges = sges});
  }

  /// One turn of one adapter; time stands still.
  void run_one(int index) {
    PairSide& at = side(index);
    at.adapter->poll(clock.now());
    std::array<WorkCompletion, 32> got;
    uint32_t count;
    while ((count = at.adapter->poll_cq(*at.cq, got)) > 0) {
      at.completions.insert(at.completions.end(), got.begin(), got.begin() + count);
    }
  }

  /// Polls both adapters until nothing moves, moving virtual time on by `step` per turn, at most `turns`
  /// turns.
  void run(int turns = 200, Duration step = std::chrono::microseconds(10)) {
    for (int turn = 0; turn < turns; ++turn) {
      for (PairSide& at : sides) {
        at.adapter->poll(clock.now());
        std::array<WorkCompletion, 32> got;
        uint32_t count;
        while ((count = at.adapter->poll_cq(*at.cq, got)) > 0) {
          at.completions.insert(at.completions.end(), got.begin(), got.begin() + count);
        }
      }
      clock.advance(step);
    }
  }

  static constexpr uint32_t kQkey = 0x1234;
  ManualClock clock;
  Pipe pipe;
  std::array<PairSide, 2> sides;
};

}  // namespace weft::test
