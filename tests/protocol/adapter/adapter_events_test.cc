// Asynchronous events of an adapter whose owner does not take them.
#include <gtest/gtest.h>

#include "adapter/limits.h"
#include "tests/support/adapter_pair.h"

namespace weft::test {
using namespace adapter;
namespace {

TEST(AdapterEvents, those_nobody_takes_are_bounded_and_their_loss_is_counted) {
  AdapterPair pair;
  for (int i = 0; i < 1400; ++i) {
    pair.pipe.set_up(i % 2 != 0);
    pair.run(1);
  }
  EXPECT_GT(pair.side(0).adapter->counters().get(AdapterCounter::kEventsLost), 0U);
  uint64_t taken = 0;
  AsyncEvent event;
  while (pair.side(0).adapter->next_event(event)) ++taken;
  EXPECT_EQ(taken, kAsyncEventsMax);
}

}  // namespace
}  // namespace weft::test
