// The oldest packet of a requester waits for an answer that was lost, while later packets are acknowledged:
// their acknowledgements do not put its repetition off.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <vector>

#include "tests/support/adapter_pair.h"

namespace weft::test {
using namespace adapter;
using namespace std::chrono_literals;
namespace {

class OldestPacket : public ::testing::Test {
 protected:
  void connect(QpConfig config = {}) {
    config.send_wqes = 256;
    QpAttr attr;
    attr.access = Access::kRemoteWrite | Access::kRemoteRead;
    attr.ack_timeout = 400ms;
    qps = pair.connect(config, attr);
  }
  void post(SendOpcode opcode, uint64_t wr_id, uint32_t bytes = 8) {
    const Sge sge = pair.side(0).sge(static_cast<uint32_t>(64 * wr_id), bytes);
    ASSERT_EQ(pair.side(0).adapter->post_send(*qps[0], {.wr_id = wr_id,
                                                        .opcode = opcode,
                                                        .flags = kSendSignaled,
                                                        .sges = {&sge, 1},
                                                        .remote_addr = pair.side(1).region.addr,
                                                        .rkey = pair.side(1).region.rkey}),
              PostResult::kOk);
  }
  void receive(uint64_t count) {
    for (uint64_t i = 0; i < count; ++i)
      EXPECT_EQ(pair.post_recv(1, *qps[1], i, {pair.side(1).sge(4096, 64)}), PostResult::kOk);
  }
  /// Drops the peer's next cell, or its next one of more than `bytes`.
  void lose_an_answer(size_t bytes = 0) {
    pair.pipe.set_filter([this, bytes](int from, std::vector<std::byte>& cell) {
      return from == 1 && cell.size() > bytes && lost++ == 0 ? Verdict::kDrop : Verdict::kPass;
    });
  }
  /// Posts a request every `step` until one has completed. @return the time that it took
  Duration until_completed(SendOpcode opcode, Duration step) {
    const Instant begin = pair.clock.now();
    for (uint64_t i = 1; i < 200 && pair.side(0).completions.empty(); ++i) {
      post(opcode, i);
      for (Duration run{}; run < step; run += 500us) pair.run(1, 500us);
    }
    return pair.clock.now() - begin;
  }

  static constexpr uint32_t kRead = 200;  // longer than a cell without data

  AdapterPair pair;
  std::array<QueuePair*, 2> qps{};
  int lost = 0;
};

TEST_F(OldestPacket, is_a_read_whose_response_was_lost) {
  connect();
  lose_an_answer(kRead);
  post(SendOpcode::kRdmaRead, 0, kRead);
  pair.run(4, 100us);
  ASSERT_GE(lost, 1);
  EXPECT_LE(until_completed(SendOpcode::kRdmaWrite, 5ms), 40ms);
  ASSERT_FALSE(pair.side(0).completions.empty());
  EXPECT_EQ(pair.side(0).completions[0].wr_id, 0U);
  EXPECT_EQ(pair.side(0).completions[0].status, WcStatus::kSuccess);
}

TEST_F(OldestPacket, is_a_message_whose_strict_acknowledgement_was_lost) {
  connect({.ack_mode = AckMode::kStrict});
  receive(100);
  lose_an_answer();
  post(SendOpcode::kSend, 0);
  pair.run(4, 100us);
  ASSERT_GE(lost, 1);
  EXPECT_LE(until_completed(SendOpcode::kSend, 5ms), 40ms);
  ASSERT_FALSE(pair.side(0).completions.empty());
  EXPECT_EQ(pair.side(0).completions[0].wr_id, 0U);
}

/// The repetitions of a packet that the peer does not answer come at growing distances.
TEST_F(OldestPacket, is_repeated_at_growing_distances) {
  connect();
  int answers = 0;
  pair.pipe.set_filter([&](int from, std::vector<std::byte>& cell) {
    const bool response = from == 1 && cell.size() > kRead;
    answers += response ? 1 : 0;
    return response ? Verdict::kDrop : Verdict::kPass;
  });
  post(SendOpcode::kRdmaRead, 0, kRead);
  EXPECT_EQ(until_completed(SendOpcode::kRdmaWrite, 5ms), 995ms);
  EXPECT_GE(answers, 4);
  EXPECT_LE(answers, 9);
}

}  // namespace
}  // namespace weft::test
