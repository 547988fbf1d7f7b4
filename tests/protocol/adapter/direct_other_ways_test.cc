// Computers with several NICs whose programs also look for memory windows: a queue pair that has no window to
// its peer finds its other ways through switches, as one that never asked for a window (ways_test.cc).
#include <gtest/gtest.h>

#include "tests/support/direct_pair.h"
#include "tests/support/nic_pair.h"

namespace weft::test {
using namespace adapter;
namespace {

class DirectOtherWays : public ::testing::Test {
 protected:
  DirectOtherWays() {
    pair.sets_alternates = false;
    for (TestPaths& one : paths) one.refused = true;  // what the adapter hears in its next turn
  }
  void cut(size_t pipe) {
    pair.pipes[pipe]->set_filter([](int, std::vector<std::byte>&) { return Verdict::kDrop; });
  }
  void write(QueuePair& qp, int value) {
    const size_t before = pair.near.done.size();
    pair.near.fill(0, 8, value);
    ASSERT_EQ(pair.write(qp, 0, 8), PostResult::kOk);
    for (int turn = 0; turn < 40'000 && pair.near.done.size() == before; ++turn) pair.run(1);
    ASSERT_EQ(pair.near.last_status(), WcStatus::kSuccess);
    ASSERT_EQ(pair.far.at(0), std::byte(value));
  }

  std::array<TestPaths, 2> paths{TestPaths(Lid(2), [] {}), TestPaths(Lid(1), [] {})};
  NicPair pair{2, false, {&paths[0], &paths[1]}};
};

/// RTR and RTS follow each other at once, and only then the window is refused.
TEST_F(DirectOtherWays, are_found_by_a_queue_pair_whose_window_is_refused) {
  const auto qps = pair.connect();
  EXPECT_EQ(paths[0].asked, 1);
  write(*qps[0], 1);
  cut(0);
  write(*qps[0], 2);
  EXPECT_EQ(pair.near.adapter->query_qp(*qps[0]).port, 2);
  EXPECT_EQ(pair.far.adapter->query_qp(*qps[1]).port, 2) << "the peer has followed";
}

}  // namespace
}  // namespace weft::test
