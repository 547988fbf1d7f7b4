// The units of an event descriptor: one for each event that waits, in whichever order the threads that owe
// and take back units come to write them.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <thread>

#include "hca/deferred_work.h"
#include "tests/support/two_devices.h"

namespace weft::test {
using hca::Answer;
namespace {

bool readable(const hca::EventFd& descriptor) {
  pollfd look{descriptor.fd(), POLLIN, 0};
  return ::poll(&look, 1, 0) == 1;
}

/// The helper has an event's unit to write and loses its core. The program destroys the queue.
TEST(EventUnits, of_an_event_that_was_dropped_are_not_written_later) {
  fabric::WakeList wakes(4);
  hca::DeferredWork deferred(wakes);
  hca::EventSource source{hca::EventFd::create()};
  deferred.owe(source);
  deferred.owe(source);
  hca::DeferredWork::Batch late = deferred.take();
  deferred.take_back(source, 1);
  deferred.take().ring();
  late.ring();
  EXPECT_TRUE(readable(*source.descriptor)) << "the second event waits";
  EXPECT_EQ(source.descriptor->take(), Answer::kOk);
  EXPECT_FALSE(readable(*source.descriptor)) << "the first was dropped";
  deferred.owe(source);
  deferred.take().ring();
  EXPECT_TRUE(readable(*source.descriptor)) << "the next event";
}

/// A reader has taken the unit of a dropped event before the thread that dropped it comes to take it back.
TEST(EventUnits, of_a_reader_that_found_no_event_are_not_taken_back_again) {
  const std::shared_ptr<hca::EventFd> descriptor = hca::EventFd::create();
  descriptor->add_unordered(1);
  EXPECT_EQ(descriptor->take(), Answer::kOk);
  descriptor->no_event_for_unit();
  descriptor->add_unordered(1);  // the next event
  descriptor->take_back_unordered();
  EXPECT_TRUE(readable(*descriptor));
}

TEST(EventUnits, add_up_when_two_threads_write_and_take_back) {
  const std::shared_ptr<hca::EventFd> descriptor = hca::EventFd::create();
  constexpr int kEvents = 10'000;
  std::thread dropper([&] {
    for (int i = 0; i < kEvents; ++i) descriptor->take_back_unordered();
  });
  for (int i = 0; i < kEvents; ++i) descriptor->add_unordered(1);
  dropper.join();
  EXPECT_FALSE(readable(*descriptor));
  descriptor->add_unordered(1);
  EXPECT_TRUE(readable(*descriptor));
  EXPECT_EQ(descriptor->take(), Answer::kOk);
  EXPECT_FALSE(readable(*descriptor));
}

/// A call reads the clock before it takes the lock: what `once` does comes between.
class InterruptedClock final : public Clock {
 public:
  [[nodiscard]] Instant now() const noexcept override {
    if (due && due()) {
      due = nullptr;
      once();
    }
    return Instant{};
  }
  mutable std::function<bool()> due;
  std::function<void()> once;
};

class TakenUnits : public ::testing::Test {
 protected:
  TakenUnits() {
    of.device.attach(pipe.end(0));
    of.open();
    EXPECT_EQ(fcntl(of.channel->fd(), F_SETFL, O_NONBLOCK), 0);
    EXPECT_EQ(fcntl(of.context->async_fd(), F_SETFL, O_NONBLOCK), 0);
  }
  static bool is_readable(int fd) {
    pollfd look{fd, POLLIN, 0};
    return ::poll(&look, 1, 0) == 1;
  }
  /// A CQ on the channel with a notification that waits.
  hca::Cq* make_told() {
    hca::Cq* cq = of.context->create_cq(16, of.channel).object;
    hca::Qp* qp = of.make_qp(cq);
    EXPECT_EQ(bring_up(*qp, Qpn(9), Lid(2)), Answer::kOk);
    EXPECT_EQ(qp->modify({.state = adapter::QpState::kErr}, adapter::kQpAttrState), Answer::kOk);
    EXPECT_EQ(cq->arm(false), Answer::kOk);
    EXPECT_EQ(of.recv(*qp, 1), Answer::kOk);
    EXPECT_EQ(of.context->destroy(qp), Answer::kOk);
    return cq;
  }
  /// An SRQ whose limit event waits.
  hca::Srq* make_low() {
    hca::Srq* srq = of.context->create_srq(*of.pd, 4, 1).object;
    EXPECT_EQ(srq->modify({.limit = 2}, adapter::kSrqLimit), Answer::kOk);
    return srq;
  }
  void take_async_events() {
    for (hca::AsyncEvent event; of.context->get_async_event(event) == Answer::kOk;)
      of.context->ack_async_event(event);
  }

  InterruptedClock clock;
  Pipe pipe;
  Consumer of{1, clock};
};

/// The queue ends when the reader has taken the unit, and has not yet looked for the event.
TEST_F(TakenUnits, of_a_dropped_notification_cost_the_next_one_nothing) {
  hca::Cq* cq = make_told();
  ASSERT_TRUE(is_readable(of.channel->fd()));
  clock.once = [&] { EXPECT_EQ(of.context->destroy(cq), Answer::kOk); };
  clock.due = [&] { return !is_readable(of.channel->fd()); };
  hca::Cq* told = nullptr;
  EXPECT_EQ(of.channel->get_event(told), Answer::kAgain);
  EXPECT_FALSE(clock.due) << "the queue ended between";
  EXPECT_FALSE(is_readable(of.channel->fd()));
  cq = make_told();
  EXPECT_TRUE(is_readable(of.channel->fd()));
  EXPECT_EQ(of.channel->get_event(told), Answer::kOk);
  EXPECT_EQ(told, cq);
  cq->ack_events(1);
}

TEST_F(TakenUnits, of_a_dropped_event_cost_the_next_one_nothing) {
  take_async_events();
  hca::Srq* srq = make_low();
  ASSERT_TRUE(is_readable(of.context->async_fd()));
  clock.once = [&] { EXPECT_EQ(of.context->destroy(srq), Answer::kOk); };
  clock.due = [&] { return !is_readable(of.context->async_fd()); };
  hca::AsyncEvent event;
  EXPECT_EQ(of.context->get_async_event(event), Answer::kAgain);
  EXPECT_FALSE(clock.due) << "the queue ended between";
  EXPECT_FALSE(is_readable(of.context->async_fd()));
  srq = make_low();
  EXPECT_TRUE(is_readable(of.context->async_fd()));
  EXPECT_EQ(of.context->get_async_event(event), Answer::kOk);
  EXPECT_EQ(event.object, srq);
  of.context->ack_async_event(event);
}

}  // namespace
}  // namespace weft::test
