#include <gtest/gtest.h>
#include <pthread.h>

#include <thread>

#include "hca/object.h"

namespace weft::test {
namespace {

/// The end of a region waits for transfers of peers within functions that are noexcept, so a cancellation
/// there would end the process.
TEST(PauseForTransfer, is_no_cancellation_point) {
  bool went_on = false;
  std::thread cancelled([&] {
    pthread_cancel(pthread_self());
    hca::pause_for_transfer();
    went_on = true;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, nullptr);
  });
  cancelled.join();
  EXPECT_TRUE(went_on);
}

}  // namespace
}  // namespace weft::test
