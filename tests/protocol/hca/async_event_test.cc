// Asynchronous events at the consumer: each reaches the right context once and counts until it is
// acknowledged;
// none is lost, however many objects have one.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "tests/support/two_devices.h"

namespace weft::test {
using hca::Answer;
using hca::EventKind;
namespace {

using namespace std::chrono_literals;

class AsyncEvents : public TwoDevices {
 protected:
  void SetUp() override { ASSERT_EQ(fcntl(a().context->async_fd(), F_SETFL, O_NONBLOCK), 0); }
  std::vector<hca::AsyncEvent> take() {
    std::vector<hca::AsyncEvent> events;
    for (hca::AsyncEvent event; a().context->get_async_event(event) == Answer::kOk;) {
      events.push_back(event);
      a().context->ack_async_event(event);
    }
    return events;
  }
};

TEST_F(AsyncEvents, of_more_qps_than_any_list_would_hold_are_all_told) {
  constexpr size_t kQps = 1500;
  std::map<hca::Object*, int> told;
  for (size_t i = 0; i < kQps; ++i) {
    hca::Qp* qp = a().context
                      ->create_qp(*a().pd, {.send_cq = a().cq,
                                            .recv_cq = a().cq,
                                            .config = {.send_wqes = 1, .recv_wqes = 1, .sges = 1}})
                      .object;
    ASSERT_EQ(bring_up(*qp, Qpn(0x222), Lid(2)), Answer::kOk);
    told[qp] = 0;
  }
  take();
  pipe.set_up(false);
  help(15, 1s);
  help(kQps / 64 + 2);
  for (const hca::AsyncEvent& event : take()) {
    if (event.kind == EventKind::kQpFatal) ++told[event.object];
  }
  EXPECT_EQ(told.size(), kQps);
  for (const auto& [qp, count] : told) ASSERT_EQ(count, 1);
  EXPECT_FALSE(readable(a().context->async_fd())) << "a unit for each, and no more";
}

TEST_F(AsyncEvents, of_a_port_are_few_and_the_last_is_true) {
  take();
  for (int i = 0; i <= 30; ++i) {
    pipe.set_up(i % 2 != 0);
    help(1);
  }
  const std::vector<hca::AsyncEvent> events = take();
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[1].kind, EventKind::kPortError);
  EXPECT_EQ(events[1].port, 1);
  EXPECT_FALSE(readable(a().context->async_fd()));
}

TEST_F(AsyncEvents, tell_of_the_first_packet_in_rtr) {
  hca::Qp* qa = a().make_qp();
  hca::Qp* qb = b().make_qp();
  ASSERT_EQ(bring_up(*qb, qa->number(), Lid(1)), Answer::kOk);
  adapter::QpAttr attr{
      .access = adapter::Access::kRemoteWrite, .dlid = Lid(2), .rq_psn = Psn(5), .dest_qpn = qb->number()};
  ASSERT_EQ(bring_up(*qa, adapter::QpType::kRc, attr, adapter::QpState::kRtr), Answer::kOk);
  take();
  ASSERT_EQ(a().recv(*qa, 1), Answer::kOk);
  ASSERT_EQ(b().send(*qb, 2), Answer::kOk);
  help();
  const std::vector<hca::AsyncEvent> events = take();
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].kind, EventKind::kCommEstablished);
  EXPECT_EQ(events[0].object, qa);
}

}  // namespace
}  // namespace weft::test
