// RC under every fault the wire can show: random work requests, random loss, repetition and reordering, in
// virtual time. Whatever happens, messages arrive once, in order, intact, and every WQE completes well.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <deque>

#include "tests/support/adapter_pair.h"

namespace weft::test {
using namespace adapter;
namespace {

struct Faults {
  uint64_t seed;
  uint32_t loss_ppm;
  uint32_t twice_ppm;
  uint32_t hold_ppm;
  AckMode mode;
  bool packet_crc;
};

void PrintTo(const Faults& faults, std::ostream* out) {
  *out << "seed " << faults.seed << " loss " << faults.loss_ppm << " held " << faults.hold_ppm
       << (faults.mode == AckMode::kStrict ? " strict" : " selective") << (faults.packet_crc ? " crc" : "");
}

class RcRandom : public ::testing::TestWithParam<Faults> {
 protected:
  static constexpr uint32_t kSlotBytes = 16 * 1024;
  static constexpr uint32_t kSlots = kPairBufferBytes / kSlotBytes;
  static constexpr uint32_t kDepth = 24;

  struct Posted {
    uint64_t wr_id;
    SendOpcode opcode;
    uint32_t bytes;
    uint32_t slot;  // on both sides
  };

  RcRandom() : random(GetParam().seed) {
    const Faults faults = GetParam();
    QpConfig config{.send_wqes = kDepth, .recv_wqes = kDepth};
    config.ack_mode = faults.mode;
    config.packet_crc = faults.packet_crc;
    config.packet_bytes = 2048;
    qps = pair.connect(config);
    pair.pipe.set_filter([this, faults](int, std::vector<std::byte>&) {
      if (random.chance_ppm(faults.loss_ppm)) return Verdict::kDrop;
      if (random.chance_ppm(faults.twice_ppm)) return Verdict::kTwice;
      return random.chance_ppm(faults.hold_ppm) ? Verdict::kHold : Verdict::kPass;
    });
  }

  static std::byte pattern(uint64_t wr_id, uint32_t at) {
    return static_cast<std::byte>(wr_id * 31 + at * 7 + (at >> 8));
  }
  void expect_pattern(int index, const Posted& op) {
    const std::vector<std::byte>& memory = pair.side(index).memory;
    for (uint32_t i = 0; i < op.bytes; ++i) {
      ASSERT_EQ(memory[op.slot * kSlotBytes + i], pattern(op.wr_id, i)) << "op " << op.wr_id << " byte " << i;
    }
  }

  void post_one() {
    constexpr SendOpcode kKinds[] = {SendOpcode::kSend, SendOpcode::kSendWithImm, SendOpcode::kRdmaWrite,
                                     SendOpcode::kRdmaWriteWithImm, SendOpcode::kRdmaRead};
    Posted op{.wr_id = next_id++, .opcode = kKinds[random.below(5)], .bytes = 0, .slot = 0};
    op.bytes = static_cast<uint32_t>(random.below(4) == 0 ? random.below(10'000) : random.below(300));
    op.slot = static_cast<uint32_t>(op.wr_id % kSlots);
    const bool read = op.opcode == SendOpcode::kRdmaRead;
    std::vector<std::byte>& source = pair.side(read ? 1 : 0).memory;
    std::vector<std::byte>& sink = pair.side(read ? 0 : 1).memory;
    for (uint32_t i = 0; i < op.bytes; ++i) source[op.slot * kSlotBytes + i] = pattern(op.wr_id, i);
    std::fill_n(sink.begin() + op.slot * kSlotBytes, op.bytes, std::byte{0xEE});
    const uint32_t cut = static_cast<uint32_t>(random.below(op.bytes + 1));
    const Sge sges[2] = {pair.side(0).sge(op.slot * kSlotBytes, cut),
                         pair.side(0).sge(op.slot * kSlotBytes + cut, op.bytes - cut)};
    ASSERT_EQ(pair.side(0).adapter->post_send(*qps[0],
                                              {.wr_id = op.wr_id,
                                               .opcode = op.opcode,
                                               .sges = sges,
                                               .imm = static_cast<uint32_t>(op.wr_id),
                                               .remote_addr = pair.side(1).region.addr + op.slot * kSlotBytes,
                                               .rkey = pair.side(1).region.rkey}),
              PostResult::kOk);
    sent.push_back(op);
    if (op.opcode == SendOpcode::kSend || op.opcode == SendOpcode::kSendWithImm ||
        op.opcode == SendOpcode::kRdmaWriteWithImm) {
      expected.push_back(op);
      wqes.push_back(op);
    }
  }

  /// Receive WQEs come late, in order, each where its message's slot is.
  void post_some_recvs() {
    for (uint64_t n = random.below(4); n > 0 && !wqes.empty(); --n) {
      const Posted op = wqes.front();
      if (pair.post_recv(1, *qps[1], op.wr_id, {pair.side(1).sge(op.slot * kSlotBytes, kSlotBytes)}) !=
          PostResult::kOk) {
        return;
      }
      wqes.pop_front();
    }
  }

  void check_completions() {
    for (const WorkCompletion& got : pair.side(1).completions) {
      ASSERT_FALSE(expected.empty());
      const Posted op = expected.front();
      expected.pop_front();
      ASSERT_EQ(got.status, WcStatus::kSuccess);
      ASSERT_EQ(got.wr_id, op.wr_id);
      ASSERT_EQ(got.byte_count, op.bytes);
      ASSERT_EQ(got.imm, op.opcode == SendOpcode::kSend ? 0 : op.wr_id);
      expect_pattern(1, op);
    }
    pair.side(1).completions.clear();
    for (const WorkCompletion& got : pair.side(0).completions) {
      ASSERT_FALSE(sent.empty());
      const Posted op = sent.front();
      sent.pop_front();
      ASSERT_EQ(got.status, WcStatus::kSuccess) << "op " << op.wr_id;
      ASSERT_EQ(got.wr_id, op.wr_id);
      expect_pattern(op.opcode == SendOpcode::kRdmaRead ? 0 : 1, op);
      ++completed;
    }
    pair.side(0).completions.clear();
  }

  SeededRandom random;
  AdapterPair pair;
  std::array<QueuePair*, 2> qps;
  std::deque<Posted> sent, expected, wqes;
  uint64_t next_id = 1;
  uint64_t completed = 0;
};

TEST_P(RcRandom, everything_arrives_once_in_order_and_intact) {
  constexpr uint64_t kOps = 600;
  const Instant end = pair.clock.now() + std::chrono::seconds(20);
  while (completed < kOps && pair.clock.now() < end) {
    while (next_id <= kOps && sent.size() < kDepth && random.below(3) != 0) post_one();
    post_some_recvs();
    pair.run(static_cast<int>(random.below(30)) + 1);
    pair.pipe.release_held(random.below(2) == 0);
    pair.pipe.clear_trace();
    ASSERT_NO_FATAL_FAILURE(check_completions());
  }
  EXPECT_EQ(completed, kOps);
  EXPECT_TRUE(expected.empty());
  EXPECT_EQ(pair.side(0).adapter->query_qp(*qps[0]).state, QpState::kRts);
  EXPECT_EQ(pair.side(1).adapter->query_qp(*qps[1]).state, QpState::kRts);
}

std::vector<Faults> all_faults() {
  std::vector<Faults> out;
  uint64_t seed =
      std::getenv("WEFT_SEED") != nullptr ? std::strtoull(std::getenv("WEFT_SEED"), nullptr, 10) : 1;
  for (const AckMode mode : {AckMode::kSelective, AckMode::kStrict}) {
    for (const uint32_t loss : {0U, 10'000U, 100'000U, 300'000U}) {
      for (const uint32_t held : {0U, 100'000U})
        out.push_back({seed++, loss, held / 4, held, mode, seed % 3 == 0});
    }
  }
  return out;
}

INSTANTIATE_TEST_SUITE_P(Faults, RcRandom, ::testing::ValuesIn(all_faults()));

}  // namespace
}  // namespace weft::test
