// What a requester may have in flight, in virtual time: a peer that is slow to answer, as one behind ZeroMQ
// is, must not idle the sender before the byte window is full.
#include <gtest/gtest.h>

#include "channel/limits.h"
#include "tests/support/adapter_pair.h"

namespace weft::test {
namespace {

constexpr uint32_t kWriteBytes = 4096;
constexpr uint32_t kWrites = kByteWindow / kWriteBytes;

class RequesterWindow : public ::testing::Test {
 protected:
  AdapterPair pair{kWriteBytes};
  std::array<QueuePair*, 2> qps = pair.connect({.send_wqes = 2 * kWrites, .recv_wqes = 1});

  void post(uint32_t writes) {
    for (uint32_t i = 0; i < writes; ++i) {
      const uint32_t at = i * kWriteBytes % kPairBufferBytes;
      const Sge sge = pair.side(0).sge(at, kWriteBytes);
      SendRequest request;
      request.opcode = SendOpcode::kRdmaWrite;
      request.sges = {&sge, 1};
      request.remote_addr = pair.side(1).region.addr + at;
      request.rkey = pair.side(1).region.rkey;
      ASSERT_EQ(pair.side(0).adapter->post_send(*qps[0], request), PostResult::kOk);
    }
  }
};

TEST_F(RequesterWindow, two_mebibytes_leave_without_an_acknowledgement_and_no_more) {
  post(kWrites + 10);
  for (int turn = 0; turn < 50; ++turn) pair.run_one(0);
  EXPECT_EQ(kByteWindow, uint64_t{2} << 20);
  EXPECT_EQ(pair.pipe.sent_by(0, Opcode::kRdmaWrite).size(), kWrites);
  pair.run();
  EXPECT_EQ(pair.side(0).completions.size(), kWrites + 10);
}

TEST_F(RequesterWindow, one_turn_fills_a_burst) {
  post(kWrites);
  pair.run_one(0);
  EXPECT_EQ(pair.pipe.sent_by(0, Opcode::kRdmaWrite).size(), kCellsPerQpTurn);
}

}  // namespace
}  // namespace weft::test
