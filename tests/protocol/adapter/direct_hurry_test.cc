// RC over a memory window: what callers in a hurry do instead of a whole turn. What they leave behind waits
// for the helper, up to 2 ms.
#include <gtest/gtest.h>

#include "tests/support/direct_case.h"

namespace weft::test {
using namespace adapter;
namespace {

class DirectHurry : public Direct {
 protected:
  ChannelAdapter& near() { return *pair.side(0).adapter; }
  ChannelAdapter& far() { return *pair.side(1).adapter; }
};

/// The Send waits for the end of the DMA, which comes in the same call.
TEST_F(DirectHurry, a_write_and_the_send_behind_it_leave_with_one_call) {
  connect();
  post(remote(SendOpcode::kRdmaWrite, 0), 0, 8);  // the owner shows the key
  pair.run(20);
  EXPECT_EQ(pair.take_completions(0).size(), 1U);
  pair.side(0).fill(0, 60, 1);
  receive(7, 4096, 60);
  post(remote(SendOpcode::kRdmaWrite, 64), 0, 8);
  send(3, 0, 60);
  EXPECT_TRUE(near().send_by_window(*qps[0], pair.clock.now()));
  EXPECT_GT(far().look_at_windows(pair.clock.now()), 0);
  EXPECT_EQ(pair.side(1).bytes_at(4096, 60), pair.side(0).bytes_at(0, 60));
}

}  // namespace
}  // namespace weft::test
