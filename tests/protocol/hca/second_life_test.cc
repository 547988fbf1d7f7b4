// What an object gives back when it ends, and the state that the next object finds.
#include <fcntl.h>
#include <gtest/gtest.h>

#include "tests/support/two_devices.h"

namespace weft::test {
using adapter::WcStatus;
using hca::Answer;
namespace {

class SecondLife : public TwoDevices {
 protected:
  void SetUp() override {
    ASSERT_EQ(fcntl(b().channel->fd(), F_SETFL, O_NONBLOCK), 0);
    ASSERT_EQ(fcntl(b().context->async_fd(), F_SETFL, O_NONBLOCK), 0);
  }
  /// A CQ of b on its channel, and a QP there with one completion that the channel has reported.
  struct Told {
    hca::Cq* cq = nullptr;
    hca::Qp* near = nullptr;
    hca::Qp* far = nullptr;
  };
  Told make_told() {
    Told out;
    out.cq = b().context->create_cq(16, b().channel).object;
    out.near = a().make_qp();
    out.far = b().make_qp(out.cq);
    connect(*out.near, Lid(1), *out.far, Lid(2));
    EXPECT_EQ(out.cq->arm(false), Answer::kOk);
    EXPECT_EQ(b().recv(*out.far, 1), Answer::kOk);
    EXPECT_EQ(a().send(*out.near, 1), Answer::kOk);
    help();
    return out;
  }
  void end(const Told& told) {
    EXPECT_EQ(b().context->destroy(told.far), Answer::kOk);
    EXPECT_EQ(b().context->destroy(told.cq), Answer::kOk);
  }
  hca::Cq* next_told() {
    hca::Cq* cq = nullptr;
    if (b().channel->get_event(cq) != Answer::kOk) return nullptr;
    cq->ack_events(1);
    return cq;
  }
};

/// By this WEFT_DEBUG explains to a thread that waits for an event why none can come.
TEST_F(SecondLife, a_channel_counts_no_queue_as_armed_that_has_ended) {
  const uint32_t before = b().channel->armed();
  hca::Cq* cq = b().context->create_cq(16, b().channel).object;
  ASSERT_EQ(cq->arm(false), Answer::kOk);
  EXPECT_EQ(b().channel->armed(), before + 1);
  ASSERT_EQ(b().context->destroy(cq), Answer::kOk);
  EXPECT_EQ(b().channel->armed(), before);
}

/// The wait for it ends, though the notification has disarmed the queue.
TEST_F(SecondLife, a_queue_whose_event_waits_counts_as_armed) {
  const uint32_t before = b().channel->armed();
  const Told told = make_told();
  EXPECT_EQ(b().channel->armed(), before + 1);
  EXPECT_EQ(next_told(), told.cq);
  EXPECT_EQ(b().channel->armed(), before);
  end(told);
}

/// The first, the middle and the last of the queues that a channel has to report.
TEST_F(SecondLife, a_completion_queue_that_ends_leaves_the_others_in_their_order) {
  for (size_t ending = 0; ending < 3; ++ending) {
    std::vector<Told> waiting{make_told(), make_told(), make_told()};
    end(waiting[ending]);
    waiting.erase(waiting.begin() + static_cast<ptrdiff_t>(ending));
    waiting.push_back(make_told());
    for (const Told& told : waiting) EXPECT_EQ(next_told(), told.cq) << ending;
    EXPECT_EQ(next_told(), nullptr);
    EXPECT_FALSE(readable(b().channel->fd()));
    for (const Told& told : waiting) end(told);
  }
}

TEST_F(SecondLife, a_channel_that_has_told_of_all_begins_anew) {
  const Told only = make_told();
  end(only);
  EXPECT_EQ(next_told(), nullptr);
  const Told next = make_told();
  EXPECT_EQ(next_told(), next.cq);
  EXPECT_EQ(next_told(), nullptr);
}

TEST_F(SecondLife, a_limit_that_is_reached_when_it_is_set_is_told_of_at_once) {
  hca::Srq* srq = b().context->create_srq(*b().pd, 16, 1, &b()).object;
  ASSERT_NE(srq, nullptr);
  const auto told = [&] {
    int count = 0;
    for (hca::AsyncEvent event; b().context->get_async_event(event) == Answer::kOk;) {
      b().context->ack_async_event(event);
      count += event.kind == hca::EventKind::kSrqLimitReached && event.object == srq ? 1 : 0;
    }
    return count;
  };
  static_cast<void>(told());
  for (int life = 0; life < 2; ++life) {
    ASSERT_EQ(srq->modify({.limit = 1}, adapter::kSrqLimit), Answer::kOk);
    EXPECT_EQ(told(), 1) << "it is empty";
    EXPECT_EQ(told(), 0);
  }
}

/// Otherwise the peer would repeat until it gives up and report an error that did not happen.
TEST_F(SecondLife, the_last_acknowledgement_of_a_queue_pair_leaves_before_it_ends) {
  const auto [qa, qb] = connected();
  ASSERT_EQ(b().recv(*qb, 1), Answer::kOk);
  ASSERT_EQ(a().send(*qa, 2), Answer::kOk);
  adapter::WorkCompletion none;
  static_cast<void>(a().cq->poll(std::span(&none, 0)));
  ASSERT_EQ(b().context->destroy(qb), Answer::kOk);
  const adapter::WorkCompletion done = next(*a().cq);
  EXPECT_EQ(done.status, WcStatus::kSuccess);
  EXPECT_EQ(done.wr_id, 2U);
}

/// Two notifications in one turn, and two queues: the channel's count drops by each notification of the CQ.
TEST_F(SecondLife, a_completion_queue_takes_all_its_notifications_along) {
  for (int life = 0; life < 2; ++life) {
    const Told told = make_told();
    ASSERT_EQ(told.cq->arm(false), Answer::kOk);
    ASSERT_EQ(b().recv(*told.far, 2), Answer::kOk);
    ASSERT_EQ(a().send(*told.near, 2), Answer::kOk);
    help();
    const Told other = make_told();
    ASSERT_TRUE(readable(b().channel->fd()));
    end(told);
    EXPECT_EQ(next_told(), other.cq);
    EXPECT_FALSE(readable(b().channel->fd()));
    end(other);
  }
}

TEST_F(SecondLife, acknowledging_more_events_than_there_were_does_no_harm) {
  for (int life = 0; life < 2; ++life) {
    const Told told = make_told();
    hca::Cq* cq = nullptr;
    ASSERT_EQ(b().channel->get_event(cq), Answer::kOk);
    cq->ack_events(3);
    end(told);
  }
}

TEST_F(SecondLife, a_post_answers_why_it_was_refused) {
  EXPECT_EQ(a().send(*a().make_qp(), 1), Answer::kBadState) << "it is not up";
}

TEST_F(SecondLife, a_completion_queue_may_be_as_large_as_the_limit) {
  const uint32_t most = b().device.limits().cqes_per_queue;
  hca::Cq* cq = b().context->create_cq(1, b().channel).object;
  ASSERT_NE(cq, nullptr);
  for (int life = 0; life < 2; ++life) {
    EXPECT_EQ(cq->resize(most + 1), Answer::kBadSize);
    EXPECT_EQ(cq->resize(most), Answer::kOk);
    EXPECT_EQ(cq->resize(most - 1), Answer::kOk);
    EXPECT_EQ(cq->resize(1), Answer::kOk);
    EXPECT_EQ(cq->resize(0), Answer::kBadSize);
  }
  EXPECT_EQ(b().context->create_cq(most + 1).answer(), Answer::kBadSize);
  EXPECT_EQ(b().context->destroy(b().context->create_cq(most).object), Answer::kOk);
  EXPECT_EQ(b().context->destroy(cq), Answer::kOk);
}

}  // namespace
}  // namespace weft::test
