// Objects whose destroy() waits for an acknowledgement: they have left adapter and context, and every call of
// another thread for them is refused.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <thread>

#include "tests/support/two_devices.h"

namespace weft::test {
using hca::Answer;
using hca::EventKind;
namespace {

class EndingObjects : public TwoDevices {
 protected:
  void SetUp() override {
    ASSERT_EQ(fcntl(a().context->async_fd(), F_SETFL, O_NONBLOCK), 0);
    domain = a().context->alloc_pd().object;
    ASSERT_NE(domain, nullptr);
  }
  /// Takes the events that wait, and acknowledges all but those of `object`. @return how many it has.
  int take_events(const hca::Object* object) {
    int own = 0;
    for (hca::AsyncEvent event; a().context->get_async_event(event) == Answer::kOk;) {
      if (event.object == object) {
        ++own;
      } else {
        a().context->ack_async_event(event);
      }
    }
    return own;
  }
  /// A thread in destroy(). Returns once the object has let go of `domain`: then it only waits.
  std::thread destroy(hca::Object* object) {
    std::thread out([this, object] { EXPECT_EQ(a().context->destroy(object), Answer::kOk); });
    while (a().context->destroy(domain) == Answer::kBusy) std::this_thread::yield();
    return out;
  }
  hca::Qp* make_qp_of_domain() {
    return a().context->create_qp(*domain, {.send_cq = a().cq, .recv_cq = a().cq, .config = {}}).object;
  }

  hca::ProtectionDomain* domain = nullptr;
};

TEST_F(EndingObjects, an_srq_takes_no_call_and_raises_no_event) {
  hca::Srq* srq = a().context->create_srq(*domain, 4, 1).object;
  ASSERT_NE(srq, nullptr);
  ASSERT_EQ(srq->modify({.limit = 2}, adapter::kSrqLimit), Answer::kOk);
  ASSERT_EQ(take_events(srq), 1);
  std::thread destroyer = destroy(srq);
  EXPECT_EQ(srq->modify({.limit = 2}, adapter::kSrqLimit), Answer::kNoSuchObject);
  adapter::SrqAttr attr;
  EXPECT_EQ(srq->query(attr), Answer::kNoSuchObject);
  const adapter::RecvRequest request{.wr_id = 1};
  size_t posted = 0;
  EXPECT_EQ(srq->post_recv(std::span(&request, 1), posted), Answer::kBadState);
  EXPECT_EQ(posted, 0U);
  EXPECT_EQ(a().context->create_qp(*a().pd, {.send_cq = a().cq, .recv_cq = a().cq, .srq = srq}).answer(),
            Answer::kForeignObject);
  EXPECT_FALSE(readable(a().context->async_fd()));
  a().context->ack_async_event({.kind = EventKind::kSrqLimitReached, .object = srq});
  destroyer.join();
  EXPECT_EQ(take_events(nullptr), 0);
}

TEST_F(EndingObjects, a_qp_takes_no_call_and_leaves_timers_and_schedule_alone) {
  hca::Qp* far = b().make_qp();
  hca::Qp* qp = make_qp_of_domain();
  ASSERT_TRUE(far != nullptr && qp != nullptr);
  connect(*qp, Lid(1), *far, Lid(2));
  static_cast<void>(take_events(qp));
  ASSERT_EQ(qp->modify({.state = adapter::QpState::kSqd, .sqd_notify = true},
                       adapter::kQpAttrState | adapter::kQpAttrSqdNotify),
            Answer::kOk);
  help();
  ASSERT_EQ(take_events(qp), 1);
  ASSERT_EQ(qp->modify({.state = adapter::QpState::kRts}, adapter::kQpAttrState), Answer::kOk);
  std::thread destroyer = destroy(qp);
  EXPECT_EQ(a().send(*qp, 1), Answer::kBadState) << "the QP would enter the schedule";
  EXPECT_EQ(a().recv(*qp, 1), Answer::kBadState);
  EXPECT_EQ(qp->modify({.state = adapter::QpState::kErr}, adapter::kQpAttrState), Answer::kNoSuchObject);
  EXPECT_EQ(qp->attach_mcast({}, Lid(0xC001)), Answer::kNoSuchObject);
  EXPECT_EQ(qp->detach_mcast({}, Lid(0xC001)), Answer::kNoSuchObject);
  adapter::QpAttr attr;
  adapter::QpConfig config;
  EXPECT_EQ(qp->query(attr, config), Answer::kNoSuchObject);
  help();
  a().context->ack_async_event({.kind = EventKind::kSqDrained, .object = qp});
  destroyer.join();
  adapter::WorkCompletion none;
  EXPECT_EQ(a().cq->poll(std::span(&none, 1)), 0);
}

/// A handle of an XRC target waits, while the other handle ends the target.
TEST_F(EndingObjects, a_handle_keeps_the_memory_of_its_target) {
  hca::XrcDomain* xrc = a().context->open_xrcd({}).object;
  hca::Qp* waits = a().context->create_target(*xrc, {}).object;
  ASSERT_NE(waits, nullptr);
  adapter::QpAttr attr{.access = adapter::Access::kRemoteWrite, .dlid = Lid(2), .dest_qpn = Qpn(0x222)};
  ASSERT_EQ(bring_up(*waits, adapter::QpType::kXrcRecv, attr), Answer::kOk);
  static_cast<void>(take_events(waits));
  pipe.set_up(false);
  help(15, std::chrono::seconds(1));
  ASSERT_EQ(take_events(waits), 1) << "the port stays down";
  hca::Qp* last = a().context->open_target(*xrc, waits->number()).object;
  ASSERT_NE(last, nullptr);
  std::thread destroyer([&] { EXPECT_EQ(a().context->destroy(waits), Answer::kOk); });
  const auto ended = [&] {
    return waits->modify({.state = adapter::QpState::kErr}, adapter::kQpAttrState) == Answer::kNoSuchObject;
  };
  for (int look = 0; look < 10'000 && !ended(); ++look)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_TRUE(ended());
  EXPECT_EQ(a().context->destroy(last), Answer::kOk);
  EXPECT_EQ(a().context->destroy(xrc), Answer::kOk);
  EXPECT_EQ(a().send(*waits, 1), Answer::kBadState) << "reads the memory of the target";
  adapter::QpConfig config;
  EXPECT_EQ(waits->query(attr, config), Answer::kNoSuchObject);
  a().context->ack_async_event({.kind = EventKind::kQpFatal, .object = waits});
  destroyer.join();
}

/// Its channel may end first.
TEST_F(EndingObjects, a_cq_leaves_its_channel_alone) {
  hca::Cq* cq = a().context->create_cq(16, a().channel).object;
  hca::Qp* qp = a().context->create_qp(*domain, {.send_cq = cq, .recv_cq = cq, .config = {}}).object;
  ASSERT_EQ(bring_up(*qp, Qpn(9), Lid(2)), Answer::kOk);
  ASSERT_EQ(cq->arm(false), Answer::kOk);
  ASSERT_EQ(a().recv(*qp, 1), Answer::kOk);
  ASSERT_EQ(qp->modify({.state = adapter::QpState::kErr}, adapter::kQpAttrState), Answer::kOk);
  hca::Cq* told = nullptr;
  ASSERT_EQ(a().channel->get_event(told), Answer::kOk);
  ASSERT_EQ(a().context->destroy(qp), Answer::kOk);
  ASSERT_EQ(a().context->destroy(domain), Answer::kOk);
  const uint32_t before = a().channel->armed();
  std::thread destroyer([&] { EXPECT_EQ(a().context->destroy(cq), Answer::kOk); });
  while (cq->resize(32) == Answer::kOk) std::this_thread::yield();
  EXPECT_EQ(cq->arm(false), Answer::kNoSuchObject);
  EXPECT_EQ(a().channel->armed(), before) << "counted at the channel";
  told->ack_events(1);
  destroyer.join();
}

}  // namespace
}  // namespace weft::test
