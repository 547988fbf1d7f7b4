// Calls of a signal handler that has interrupted another call of its thread on the device: the lock is the
// thread's already.
#include <gtest/gtest.h>

#include <array>
#include <mutex>
#include <thread>

#include "hca/device_core.h"
#include "tests/support/two_devices.h"

namespace weft::test {
using hca::Answer;
namespace {

class SignalHandler : public TwoDevices {
 protected:
  SignalHandler() {
    near_ = a().make_qp();
    far_ = b().make_qp();
    connect(*near_, Lid(1), *far_, Lid(2));
  }
  hca::DeviceLock& lock() { return a().pd->context().core().lock; }

  hca::Qp* near_ = nullptr;
  hca::Qp* far_ = nullptr;
};

TEST_F(SignalHandler, is_refused_what_would_wait_for_its_own_thread) {
  hca::Srq* srq = a().context->create_srq(*a().pd, 4, 1).object;
  const adapter::Sge to = a().sge(0, 64);
  const adapter::RecvRequest receive{.wr_id = 1, .sges = std::span(&to, 1)};
  std::array<adapter::WorkCompletion, 1> got;
  size_t posted = 0;
  const std::lock_guard interrupted(lock());
  EXPECT_EQ(a().cq->poll(got), 0);
  EXPECT_EQ(a().cq->poll_next(got[0]), 0);
  EXPECT_EQ(a().cq->arm(false), Answer::kReentered);
  EXPECT_EQ(a().send(*near_, 1), Answer::kReentered);
  EXPECT_EQ(near_->post_batch({}), Answer::kReentered);
  EXPECT_EQ(a().recv(*near_, 1), Answer::kReentered);
  EXPECT_EQ(srq->post_recv(std::span(&receive, 1), posted), Answer::kReentered);
}

TEST_F(SignalHandler, may_use_another_device) {
  const std::lock_guard interrupted(lock());
  EXPECT_EQ(b().recv(*far_, 1), Answer::kOk);
}

TEST_F(SignalHandler, leaves_other_threads_alone) {
  lock().lock();
  EXPECT_TRUE(lock().is_mine());
  std::thread([&] { EXPECT_FALSE(lock().is_mine()); }).join();
  lock().unlock();
  EXPECT_FALSE(lock().is_mine());
  EXPECT_EQ(a().send(*near_, 1), Answer::kOk);
}

TEST_F(SignalHandler, ends_the_process_by_a_call_that_has_no_answer_for_it) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a child of fork() has no device
  EXPECT_DEATH(
      {
        const std::lock_guard interrupted(lock());
        static_cast<void>(a().context->alloc_pd());
      },
      "a signal handler has called a function of an RDMA device");
}

}  // namespace
}  // namespace weft::test
