// Batches of an extended CQ: an entry that came after the CQ was armed is left for the batch after its event.
#include <gtest/gtest.h>

#include <span>

#include "tests/support/two_devices.h"

namespace weft::test {
using hca::Answer;
namespace {

class Batches : public TwoDevices {
 protected:
  void SetUp() override {
    const auto [to, from] = connected();
    receiver = to;
    sender = from;
    for (uint64_t wr_id = 1; wr_id <= 4; ++wr_id) ASSERT_EQ(a().recv(*receiver, wr_id), Answer::kOk);
  }
  /// Makes the next receive complete.
  void arrives() {
    ASSERT_EQ(b().send(*sender, 9), Answer::kOk);
    help();
  }
  /// Takes an event and arms the CQ, as programs do before they poll.
  void take_event() {
    hca::Cq* told = nullptr;
    ASSERT_EQ(a().channel->get_event(told), Answer::kOk);
    ASSERT_EQ(told, a().cq);
    a().cq->ack_events(1);
    ASSERT_EQ(a().cq->arm(false), Answer::kOk);
  }
  /// @return wr_id of the batch's next entry; 0 at its end
  uint64_t more() {
    adapter::WorkCompletion out;
    return a().cq->poll_next(out) == 1 ? out.wr_id : 0;
  }

  hca::Qp* receiver = nullptr;
  hca::Qp* sender = nullptr;
};

TEST_F(Batches, end_before_an_entry_whose_event_waits) {
  ASSERT_EQ(a().cq->arm(false), Answer::kOk);
  arrives();
  take_event();
  arrives();
  arrives();
  EXPECT_EQ(next(*a().cq).wr_id, 1U);
  EXPECT_EQ(more(), 0U) << "the second has an event of its own";
  take_event();
  EXPECT_EQ(next(*a().cq).wr_id, 2U) << "each event has its entry";
  EXPECT_EQ(more(), 0U) << "the arming told of the third";
  take_event();
  EXPECT_EQ(next(*a().cq).wr_id, 3U);
  EXPECT_EQ(more(), 0U);
  EXPECT_FALSE(readable(a().channel->fd()));
}

TEST_F(Batches, end_there_once) {
  ASSERT_EQ(a().cq->arm(false), Answer::kOk);
  arrives();
  take_event();
  arrives();
  EXPECT_EQ(next(*a().cq).wr_id, 1U);
  EXPECT_EQ(more(), 0U);
  EXPECT_EQ(more(), 2U) << "a program that insists gets it";
}

/// UCX polls until the queue is empty, arms it and waits, without another poll.
TEST_F(Batches, need_no_poll_between_arming_and_waiting) {
  arrives();
  EXPECT_FALSE(readable(a().channel->fd()));
  ASSERT_EQ(a().cq->arm(false), Answer::kOk);
  EXPECT_TRUE(readable(a().channel->fd())) << "it came before the arming, and after the last poll";
  EXPECT_EQ(next(*a().cq).wr_id, 1U);
  take_event();
  ASSERT_EQ(b().send(*sender, 9), Answer::kOk);
  EXPECT_FALSE(readable(a().channel->fd()));
  ASSERT_EQ(a().cq->arm(false), Answer::kOk);
  EXPECT_TRUE(readable(a().channel->fd())) << "the turn of the call has brought it";
}

/// A program may arm a queue and poll without taking events: the events do not delay it.
TEST_F(Batches, begin_with_any_entry) {
  ASSERT_EQ(a().cq->arm(false), Answer::kOk);
  arrives();
  EXPECT_EQ(next(*a().cq).wr_id, 1U);
  arrives();
  EXPECT_EQ(more(), 2U);
  EXPECT_TRUE(readable(a().channel->fd()));
}

TEST_F(Batches, go_on_with_an_entry_whose_event_was_taken) {
  ASSERT_EQ(a().cq->arm(false), Answer::kOk);
  for (int i = 0; i < 2; ++i) {
    arrives();
    take_event();
  }
  EXPECT_EQ(next(*a().cq).wr_id, 1U);
  EXPECT_EQ(more(), 2U);
}

}  // namespace
}  // namespace weft::test
