// A region whose rights change while a peer writes to it in many records of a memory window.
#include <gtest/gtest.h>

#include "tests/support/direct_pair.h"

namespace weft::test {
using namespace adapter;
namespace {

constexpr uint32_t kRecordsBytes = 8000;  // of records with 256 bytes at most
constexpr Access kAllRemote = Access::kLocalWrite | Access::kRemoteRead | Access::kRemoteWrite;

class DirectRights : public ::testing::Test {
 protected:
  /// Posts a write and lets its first records arrive.
  void begin_write() {
    pair.run(20);
    pair.side(0).fill(0, kRecordsBytes, 3);
    ASSERT_EQ(
        pair.post_send(0, *qps[0],
                       {.opcode = SendOpcode::kRdmaWrite, .remote_addr = region.addr, .rkey = region.rkey},
                       {pair.side(0).sge(0, kRecordsBytes)}),
        PostResult::kOk);
    pair.run(2);
    ASSERT_TRUE(pair.take_completions(0).empty());
    ASSERT_EQ(pair.side(1).bytes_at(0, 64), pair.side(0).bytes_at(0, 64)) << "it has begun";
  }
  WcStatus go_on_with(Access rights) {
    EXPECT_TRUE(regions.rereg_mr(region.lkey, {.access = rights}).ok());
    pair.run(40);
    const auto done = pair.take_completions(0);
    return done.size() == 1 ? done[0].status : WcStatus::kGeneral;
  }
  [[nodiscard]] bool is_written() {
    return pair.side(1).bytes_at(0, kRecordsBytes) == pair.side(0).bytes_at(0, kRecordsBytes);
  }

  DirectPair pair;
  std::array<QueuePair*, 2> qps = pair.connect({});
  Regions& regions = pair.side(1).adapter->memory().regions;
  const MemoryRegion region =
      regions.reg_mr(pair.side(1).pd, pair.side(1).memory, kAllRemote, {.one_key = true}).value();
};

TEST_F(DirectRights, that_still_allow_a_write_let_it_go_on) {
  begin_write();
  EXPECT_EQ(go_on_with(kAllRemote), WcStatus::kSuccess);
  EXPECT_TRUE(is_written());
}

TEST_F(DirectRights, that_no_longer_allow_a_write_stop_it_and_are_its_reason) {
  begin_write();
  EXPECT_EQ(go_on_with(Access::kLocalWrite | Access::kRemoteRead), WcStatus::kRemoteAccess);
  EXPECT_FALSE(is_written());
  Failure why;
  ASSERT_TRUE(pair.side(1).adapter->next_failure(why));
  EXPECT_EQ(why.reason, Reason::kRemoteRightMissing);
}

/// The answer takes many records. The refusal names the read, and not the request that would come next.
TEST_F(DirectRights, that_no_longer_allow_a_read_stop_it_and_are_its_reason) {
  pair.run(20);
  ASSERT_EQ(pair.post_send(0, *qps[0],
                           {.opcode = SendOpcode::kRdmaRead, .remote_addr = region.addr, .rkey = region.rkey},
                           {pair.side(0).sge(0, kRecordsBytes)}),
            PostResult::kOk);
  pair.run(2);
  ASSERT_TRUE(pair.take_completions(0).empty());
  EXPECT_EQ(go_on_with(Access::kLocalWrite | Access::kRemoteWrite), WcStatus::kRemoteAccess);
  Failure why;
  ASSERT_TRUE(pair.side(1).adapter->next_failure(why));
  EXPECT_EQ(why.reason, Reason::kRemoteRightMissing);
}

/// The region allows both and its key is shown, so a peer that thought that it may read would not ask.
TEST_F(DirectRights, of_a_queue_pair_that_takes_writes_alone_refuse_a_read) {
  const QpAttr attr{.access = Access::kRemoteWrite};
  ASSERT_EQ(pair.side(1).adapter->modify_qp(*qps[1], attr, kQpAttrAccess), ModifyResult::kOk);
  pair.run(20);
  const auto access = [&](SendOpcode opcode, uint32_t bytes) {
    EXPECT_EQ(pair.post_send(0, *qps[0], {.opcode = opcode, .remote_addr = region.addr, .rkey = region.rkey},
                             {pair.side(0).sge(0, bytes)}),
              PostResult::kOk);
    pair.run(20);
    const auto done = pair.take_completions(0);
    return done.size() == 1 ? done[0].status : WcStatus::kGeneral;
  };
  for (int i = 0; i < 2; ++i) ASSERT_EQ(access(SendOpcode::kRdmaWrite, 64), WcStatus::kSuccess);
  pair.side(0).fill(0, 64, 9);
  const auto before = pair.side(0).bytes_at(0, 64);
  EXPECT_EQ(access(SendOpcode::kRdmaRead, 64), WcStatus::kRemoteInvalidRequest);
  EXPECT_EQ(pair.side(0).bytes_at(0, 64), before) << "nothing was read";
}

/// The key is shown by then, so the peer's device could go on.
TEST_F(DirectRights, that_a_queue_pair_takes_back_end_at_once) {
  const auto write = [&](QueuePair& qp, int value) {
    pair.side(0).fill(0, 64, static_cast<uint8_t>(value));
    EXPECT_EQ(pair.post_send(
                  0, qp, {.opcode = SendOpcode::kRdmaWrite, .remote_addr = region.addr, .rkey = region.rkey},
                  {pair.side(0).sge(0, 64)}),
              PostResult::kOk);
    pair.run(20);
    const auto done = pair.take_completions(0);
    return done.size() == 1 ? done[0].status : WcStatus::kGeneral;
  };
  const auto others = pair.connect({});
  pair.run(20);
  for (int i = 0; i < 2; ++i) ASSERT_EQ(write(*qps[0], i), WcStatus::kSuccess);
  ASSERT_EQ(pair.end(0).peer().entries().size(), 1U) << "shown";
  const QpAttr none{};
  ASSERT_EQ(pair.side(1).adapter->modify_qp(*qps[1], none, kQpAttrAccess), ModifyResult::kOk);
  for (int i = 2; i < 5; ++i) ASSERT_EQ(write(*others[0], i), WcStatus::kSuccess) << "it takes none back";
  EXPECT_TRUE(pair.end(0).peer().entries().empty())
      << "the peer may not know yet what its other queue pair has lost";
  const auto before = pair.side(1).bytes_at(0, 64);
  EXPECT_NE(write(*qps[0], 9), WcStatus::kSuccess);
  EXPECT_EQ(pair.side(1).bytes_at(0, 64), before);
}

TEST_F(DirectRights, that_a_queue_pair_takes_back_end_before_the_peer_hears_of_it) {
  pair.run(20);
  const SendRequest request{
      .opcode = SendOpcode::kRdmaWrite, .remote_addr = region.addr, .rkey = region.rkey};
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(pair.post_send(0, *qps[0], request, {pair.side(0).sge(0, 64)}), PostResult::kOk);
    pair.run(20);
  }
  pair.side(0).fill(0, 64, 9);
  const auto before = pair.side(1).bytes_at(0, 64);
  ASSERT_EQ(pair.side(1).adapter->modify_qp(*qps[1], {}, kQpAttrAccess), ModifyResult::kOk);
  static_cast<void>(pair.take_completions(0));
  ASSERT_EQ(pair.post_send(0, *qps[0], request, {pair.side(0).sge(0, 64)}), PostResult::kOk);
  for (int turn = 0; turn < 5; ++turn) pair.run_one(0);  // the other side does nothing meanwhile
  pair.run(20);
  const auto done = pair.take_completions(0);
  ASSERT_EQ(done.size(), 1U);
  EXPECT_EQ(done[0].status, WcStatus::kRemoteInvalidRequest) << "as over cells";
  EXPECT_EQ(pair.side(1).bytes_at(0, 64), before);
}

TEST_F(DirectRights, of_a_one_shot_key_are_for_one_read) {
  const PairSide& far = pair.side(1);
  Windows& windows = far.adapter->memory().windows;
  const Rkey key = windows.alloc_rkey(far.pd).value();
  ASSERT_EQ(windows.bind_rkey(far.pd, {.window = key,
                                       .region = far.region.lkey,
                                       .addr = far.region.addr,
                                       .length = 4096,
                                       .access = Access::kRemoteRead | Access::kOneShot}),
            AccessFault::kNone);
  pair.run(20);
  for (const WcStatus expected : {WcStatus::kSuccess, WcStatus::kRemoteAccess}) {
    ASSERT_EQ(pair.post_send(0, *qps[0],
                             {.opcode = SendOpcode::kRdmaRead, .remote_addr = far.region.addr, .rkey = key},
                             {pair.side(0).sge(0, 64)}),
              PostResult::kOk);
    pair.run(40);
    const auto done = pair.take_completions(0);
    ASSERT_EQ(done.size(), 1U);
    EXPECT_EQ(done[0].status, expected);
  }
}

}  // namespace
}  // namespace weft::test
