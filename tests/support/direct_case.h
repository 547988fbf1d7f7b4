// tests/support/direct_case.h -- the fixture of tests of RC over a memory window: two connected queue pairs,
// and what most tests do with them.
#pragma once

#include <gtest/gtest.h>

#include <array>

#include "tests/support/direct_pair.h"

namespace weft::test {

class Direct : public ::testing::Test {
 protected:
  void connect(const adapter::QpConfig& config = {}, adapter::QpAttr attr = {}) {
    attr.max_rd_atomic = attr.max_dest_rd_atomic = 4;
    attr.ack_timeout = 10ms;
    attr.retry_count = 2;
    qps = pair.connect(config, attr);
  }
  void send(uint64_t wr_id, uint32_t offset, uint32_t bytes) {
    ASSERT_EQ(pair.post_send(0, *qps[0], {.wr_id = wr_id}, {pair.side(0).sge(offset, bytes)}),
              adapter::PostResult::kOk);
  }
  adapter::SendRequest remote(adapter::SendOpcode opcode, uint64_t offset) {
    return {
        .opcode = opcode, .remote_addr = pair.side(1).region.addr + offset, .rkey = pair.side(1).region.rkey};
  }
  void post(const adapter::SendRequest& request, uint32_t offset, uint32_t bytes) {
    ASSERT_EQ(pair.post_send(0, *qps[0], request, {pair.side(0).sge(offset, bytes)}),
              adapter::PostResult::kOk);
  }
  /// A request that needs no peer and takes 100 us.
  void delay(uint64_t wr_id) {
    const adapter::SendRequest request{.wr_id = wr_id, .opcode = adapter::SendOpcode::kDelay, .delay = 100us};
    ASSERT_EQ(pair.post_send(0, *qps[0], request, {}), adapter::PostResult::kOk);
  }
  void post_wrong_key(int index = 0) {
    adapter::Sge wrong = pair.side(index).sge(0, 8);
    wrong.lkey = Lkey(77);
    ASSERT_EQ(pair.post_send(index, *qps[static_cast<size_t>(index)], {}, {wrong}), adapter::PostResult::kOk);
  }
  void expect_wrong_key() {
    const auto done = pair.take_completions(0);
    ASSERT_EQ(done.size(), 1U);
    EXPECT_EQ(done[0].status, adapter::WcStatus::kLocalProtection);
  }
  void expect_given_up() {
    const auto done = pair.take_completions(0);
    ASSERT_EQ(done.size(), 1U);
    EXPECT_EQ(done[0].status, adapter::WcStatus::kRetryExceeded);
  }
  void receive(uint64_t wr_id, uint32_t offset, uint32_t bytes) {
    ASSERT_EQ(pair.post_recv(1, *qps[1], wr_id, {pair.side(1).sge(offset, bytes)}), adapter::PostResult::kOk);
  }

  DirectPair pair;
  std::array<adapter::QueuePair*, 2> qps{};
};

}  // namespace weft::test
