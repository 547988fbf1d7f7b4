// Windows bound by work request, types 1 and 2, end to end: what a peer can access before, during and after
// the
// binding, and which side can end it.
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "adapter/counters.h"
#include "tests/support/adapter_pair.h"

namespace weft::test {
using namespace adapter;
namespace {

constexpr Access kBoth = Access::kRemoteRead | Access::kRemoteWrite;

/// Side 1 owns the memory and binds; side 0 accesses it.
class BoundWindows : public ::testing::Test {
 protected:
  void SetUp() override { connect(); }
  void connect() {
    qps_ = pair_.connect({});
    beside_ = pair_.connect({});
    for (int i = 0; i < 2; ++i) pair_.side(i).completions.clear();
  }
  [[nodiscard]] PairSide& near() { return pair_.side(0); }
  [[nodiscard]] PairSide& owner() { return pair_.side(1); }
  [[nodiscard]] MemoryTable& table() { return owner().adapter->memory(); }
  [[nodiscard]] BindRequest range(Rkey key, uint64_t offset, uint64_t bytes) {
    return {key, owner().region.lkey, owner().region.addr + offset, bytes, kBoth};
  }
  static Rkey inc(Rkey key) { return Rkey((key.value() & ~0xFFU) | ((key.value() + 1) & 0xFFU)); }

  void post(int side, QueuePair& qp, const SendRequest& request) {
    ASSERT_EQ(pair_.side(side).adapter->post_send(qp, request), PostResult::kOk);
  }
  WcStatus last(int side) {
    const auto& got = pair_.side(side).completions;
    return got.empty() ? WcStatus::kGeneral : got.back().status;
  }
  /// @return the status of a bind request of the owner
  WcStatus bind(QueuePair& qp, const BindRequest& request) {
    post(1, qp, {.wr_id = 50, .opcode = SendOpcode::kBindWindow, .bind = request});
    pair_.run(20);
    return last(1);
  }
  WcStatus invalidate(QueuePair& qp, Rkey key) {
    post(1, qp, {.wr_id = 51, .opcode = SendOpcode::kLocalInvalidate, .rkey = key});
    pair_.run(20);
    return last(1);
  }
  void post_write(QueuePair& qp, uint64_t va_offset, uint32_t bytes, Rkey key) {
    near().fill(0, bytes, static_cast<uint8_t>(++pattern_));
    const Sge sge = near().sge(0, bytes);
    post(0, qp,
         {.wr_id = 60,
          .opcode = SendOpcode::kRdmaWrite,
          .sges = {&sge, 1},
          .remote_addr = owner().region.addr + va_offset,
          .rkey = key});
  }
  WcStatus write(QueuePair& qp, uint64_t va_offset, uint32_t bytes, Rkey key) {
    post_write(qp, va_offset, bytes, key);
    pair_.run(60);
    return last(0);
  }

  AdapterPair pair_;
  std::array<QueuePair*, 2> qps_{};
  std::array<QueuePair*, 2> beside_{};
  uint32_t pattern_ = 0;
};

TEST_F(BoundWindows, of_type_2_open_memory_to_the_peer_of_one_queue_pair) {
  const Rkey first = table().windows.alloc_window(owner().pd, WindowKind::kType2).value();
  const Rkey key = inc(first);
  ASSERT_EQ(bind(*qps_[1], range(key, 100, 64)), WcStatus::kSuccess);
  EXPECT_EQ(owner().completions.back().opcode, WcOpcode::kBindWindow);
  ASSERT_EQ(write(*qps_[0], 100, 64, key), WcStatus::kSuccess);
  EXPECT_EQ(owner().bytes_at(100, 64), near().bytes_at(0, 64));
  const auto before = owner().memory;
  EXPECT_EQ(write(*beside_[0], 100, 64, key), WcStatus::kRemoteAccess) << "another QP of the domain";
  EXPECT_EQ(owner().adapter->access_faults().get(AccessFault::kWrongQp), 1U);
  EXPECT_EQ(owner().memory, before);
  ASSERT_EQ(invalidate(*qps_[1], key), WcStatus::kSuccess);
  EXPECT_EQ(owner().completions.back().opcode, WcOpcode::kLocalInvalidate);
  EXPECT_EQ(write(*qps_[0], 100, 64, key), WcStatus::kRemoteAccess);
  EXPECT_EQ(owner().memory, before);
}

TEST_F(BoundWindows, of_type_2_are_bound_once_and_ended_by_their_queue_pair_alone) {
  const Rkey key = table().windows.alloc_window(owner().pd, WindowKind::kType2).value();
  ASSERT_EQ(bind(*qps_[1], range(key, 0, 64)), WcStatus::kSuccess);
  EXPECT_EQ(bind(*qps_[1], range(inc(key), 64, 64)), WcStatus::kMwBind);
  EXPECT_EQ(owner().adapter->query_qp(*qps_[1]).state, QpState::kErr);
  EXPECT_EQ(invalidate(*beside_[1], key), WcStatus::kMwBind) << "it is bound to the other one";
  EXPECT_TRUE(table().query(key.value())->valid);
  connect();
  EXPECT_EQ(bind(*qps_[1], {.window = inc(key)}), WcStatus::kMwBind) << "length zero, and not its QP";
  ASSERT_TRUE(table().windows.dealloc_rkey(key).ok()) << "the program ends it whatever became of the QP";
  connect();
  EXPECT_EQ(bind(*qps_[1], range(inc(key), 0, 64)), WcStatus::kMwBind);
}

TEST_F(BoundWindows, of_type_2_are_invalidated_by_the_peer_and_the_owner_hears_of_it) {
  const Rkey key = table().windows.alloc_window(owner().pd, WindowKind::kType2).value();
  ASSERT_EQ(bind(*qps_[1], range(key, 0, 64)), WcStatus::kSuccess);
  const Sge sge = near().sge(0, 16);
  const SendRequest end{
      .wr_id = 1, .opcode = SendOpcode::kSendWithInvalidate, .sges = {&sge, 1}, .rkey = key};
  ASSERT_EQ(pair_.post_recv(1, *beside_[1], 9, {owner().sge(4096, 64)}), PostResult::kOk);
  post(0, *beside_[0], end);
  pair_.run(50);
  EXPECT_EQ(last(0), WcStatus::kRemoteAccess) << "by way of another QP";
  EXPECT_TRUE(table().query(key.value())->valid);
  ASSERT_EQ(pair_.post_recv(1, *qps_[1], 10, {owner().sge(4096, 64)}), PostResult::kOk);
  post(0, *qps_[0], end);
  pair_.run(50);
  EXPECT_EQ(last(0), WcStatus::kSuccess);
  const WorkCompletion& told = owner().completions.back();
  EXPECT_EQ(told.wr_id, 10U);
  EXPECT_NE(told.flags & kWcWithInvalidate, 0);
  EXPECT_EQ(told.invalidated, key);
  EXPECT_FALSE(table().query(key.value())->valid);
  EXPECT_EQ(bind(*qps_[1], range(inc(key), 0, 64)), WcStatus::kSuccess) << "and may be bound again";
}

/// Other peers may use the key of a registered region, so a peer cannot invalidate it.
TEST_F(BoundWindows, a_peer_cannot_end_the_key_of_an_ordinary_region) {
  const Sge sge = near().sge(0, 16);
  ASSERT_EQ(pair_.post_recv(1, *qps_[1], 9, {owner().sge(4096, 64)}), PostResult::kOk);
  post(0, *qps_[0],
       {.wr_id = 1,
        .opcode = SendOpcode::kSendWithInvalidate,
        .sges = {&sge, 1},
        .rkey = owner().region.rkey});
  pair_.run(50);
  EXPECT_EQ(last(0), WcStatus::kRemoteAccess);
  EXPECT_EQ(owner().adapter->access_faults().get(AccessFault::kWrongType), 1U);
  EXPECT_EQ(write(*beside_[0], 0, 64, owner().region.rkey), WcStatus::kSuccess);
}

/// A write is half placed when its window ends: the rest is not placed, not even after the same key is bound
/// to
/// the same or other memory again.
TEST_F(BoundWindows, take_nothing_of_a_write_that_began_before_they_were_invalidated) {
  for (const uint64_t again_at : {uint64_t{0}, uint64_t{8192}}) {
    connect();
    const Rkey key = table().windows.alloc_window(owner().pd, WindowKind::kType2).value();
    ASSERT_EQ(bind(*qps_[1], range(key, 0, 4096)), WcStatus::kSuccess);
    uint32_t sent = 0;
    pair_.pipe.set_filter([&](int from, std::vector<std::byte>&) {
      return from == 0 && ++sent > 3 ? Verdict::kHold : Verdict::kPass;
    });
    post_write(*qps_[0], 0, 2048, key);
    pair_.run(5);
    ASSERT_EQ(owner().bytes_at(0, 512), near().bytes_at(0, 512)) << "it has begun";
    ASSERT_EQ(invalidate(*qps_[1], key), WcStatus::kSuccess);
    ASSERT_EQ(bind(*qps_[1], range(key, again_at, 4096)), WcStatus::kSuccess);
    const auto before = owner().memory;
    pair_.pipe.set_filter(nullptr);
    pair_.pipe.release_held();
    pair_.run(60);
    EXPECT_EQ(last(0), WcStatus::kRemoteAccess);
    EXPECT_EQ(owner().memory, before);
    ASSERT_TRUE(table().windows.dealloc_rkey(key).ok());
  }
}

TEST_F(BoundWindows, of_type_1_move_with_each_bind_and_every_queue_pair_of_the_domain_reaches_them) {
  const Rkey first = table().windows.alloc_window(owner().pd, WindowKind::kType1).value();
  const Rkey second = table().windows.promise_key(first);
  const Rkey third = table().windows.promise_key(second);
  // Two binds in a row.
  post(1, *qps_[1], {.wr_id = 1, .opcode = SendOpcode::kBindWindow, .bind = range(second, 0, 64)});
  post(1, *qps_[1], {.wr_id = 2, .opcode = SendOpcode::kBindWindow, .bind = range(third, 1000, 64)});
  pair_.run(20);
  ASSERT_EQ(owner().completions.size(), 2U);
  for (const WorkCompletion& done : owner().completions) EXPECT_EQ(done.status, WcStatus::kSuccess);
  EXPECT_EQ(write(*qps_[0], 1000, 64, third), WcStatus::kSuccess);
  EXPECT_EQ(write(*beside_[0], 1000, 64, third), WcStatus::kSuccess);
  EXPECT_EQ(owner().bytes_at(1000, 64), near().bytes_at(0, 64));
  EXPECT_EQ(write(*beside_[0], 0, 64, second), WcStatus::kRemoteAccess);
  // Neither the peer nor a local invalidation can end it.
  const Sge sge = near().sge(0, 16);
  ASSERT_EQ(pair_.post_recv(1, *qps_[1], 9, {owner().sge(4096, 64)}), PostResult::kOk);
  post(0, *qps_[0],
       {.wr_id = 1, .opcode = SendOpcode::kSendWithInvalidate, .sges = {&sge, 1}, .rkey = third});
  pair_.run(50);
  EXPECT_EQ(last(0), WcStatus::kRemoteAccess);
  connect();
  EXPECT_EQ(invalidate(*qps_[1], third), WcStatus::kMwBind);
  connect();
  EXPECT_EQ(write(*qps_[0], 1000, 64, third), WcStatus::kSuccess) << "still bound";
  ASSERT_EQ(bind(*qps_[1], {.window = table().windows.promise_key(third)}), WcStatus::kSuccess)
      << "length zero";
  EXPECT_EQ(write(*qps_[0], 1000, 64, third), WcStatus::kRemoteAccess);
}

}  // namespace
}  // namespace weft::test
