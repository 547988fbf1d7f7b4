// The consumer's side of the verbs in virtual time: objects, events and the thread that drives.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

#include "base/stats_page.h"
#include "hca/device_core.h"
#include "hca/progress_policy.h"
#include "messages/multicast.h"
#include "tests/support/temp_dir.h"
#include "tests/support/two_devices.h"

namespace weft::test {
using adapter::WcStatus;
using hca::Answer;
using hca::DeviceCounter;
using hca::EventKind;
namespace {

Answer drain(hca::Qp& qp) {
  return qp.modify({.state = adapter::QpState::kSqd, .sqd_notify = true},
                   adapter::kQpAttrState | adapter::kQpAttrSqdNotify);
}

/// The complete table, for the layer with the C interface.
TEST(AnswerTest, is_an_errno) {
  using Row = std::pair<Answer, int>;
  for (const auto& [answer, error] :
       {Row{Answer::kOk, 0}, Row{Answer::kBadSize, EINVAL}, Row{Answer::kNoMemory, ENOMEM},
        Row{Answer::kTableFull, ENOMEM}, Row{Answer::kBusy, EBUSY}, Row{Answer::kAgain, EAGAIN},
        Row{Answer::kInterrupted, EINTR}, Row{Answer::kNoService, EOPNOTSUPP},
        Row{Answer::kNoDescriptor, EMFILE}, Row{Answer::kForked, EIO}, Row{Answer::kReentered, EDEADLK},
        Row{adapter::PostResult::kWouldBlock, ENOMEM}, Row{adapter::PostResult::kTooLong, EINVAL},
        Row{adapter::ModifyResult::kBadTransition, EINVAL}})
    EXPECT_EQ(errno_of(answer), error) << to_string(answer);
}

// ---- caller and helper thread --------------------

TEST_F(TwoDevices, a_send_crosses_while_its_callers_poll) {
  const auto [qa, qb] = connected();
  EXPECT_EQ(qa->user(), at[0].get());
  a().memory[3] = std::byte{42};
  ASSERT_EQ(b().recv(*qb, 7), Answer::kOk);
  ASSERT_EQ(a().send(*qa, 8), Answer::kOk);
  const adapter::WorkCompletion got = next(*b().cq);
  EXPECT_EQ(got.status, WcStatus::kSuccess);
  EXPECT_EQ(got.wr_id, 7U);
  EXPECT_EQ(got.byte_count, 64U);
  EXPECT_EQ(b().memory[Consumer::kBytes / 2 + 3], std::byte{42});
  clock.advance(100us);
  EXPECT_EQ(next(*b().cq).status, WcStatus::kGeneral) << "one receive, one completion";
  EXPECT_EQ(next(*a().cq).wr_id, 8U);
  EXPECT_EQ(a().device.count(DeviceCounter::kHelperTurns), 0U);
}

TEST_F(TwoDevices, a_member_of_a_group_is_busy_until_it_has_left) {
  Gid group{};
  group[0] = std::byte{0xFF};
  const Lid lid = multicast_lid(group);
  hca::Qp* rc = a().make_qp();
  EXPECT_EQ(rc->attach_mcast(group, lid), Answer::kNotOfService) << "a service without groups";
  const auto datagrams = [&] {
    return a()
        .context
        ->create_qp(*a().pd, {.send_cq = a().cq, .recv_cq = a().cq, .config = {.type = adapter::QpType::kUd}})
        .object;
  };
  hca::Qp* qp = datagrams();
  EXPECT_EQ(qp->attach_mcast(Gid{}, lid), Answer::kBadAddress);
  EXPECT_EQ(qp->attach_mcast(group, Lid(7)), Answer::kBadAddress);
  ASSERT_EQ(qp->attach_mcast(group, lid), Answer::kOk);
  ASSERT_EQ(qp->attach_mcast(group, lid), Answer::kOk) << "twice is once";
  EXPECT_EQ(a().context->destroy(qp), Answer::kBusy);
  EXPECT_EQ(qp->detach_mcast(group, lid), Answer::kOk);
  EXPECT_EQ(qp->detach_mcast(group, lid), Answer::kNotMember);
  EXPECT_EQ(a().context->destroy(qp), Answer::kOk);
  // Closing a context ends its memberships with its queue pairs.
  hca::Qp* left = datagrams();
  ASSERT_EQ(left->attach_mcast(group, lid), Answer::kOk);
  const Qpn number = left->number();
  const hca::DeviceCore& core = a().context->core();
  ASSERT_NE(core.find_qp(number), nullptr);
  a().device.close(a().context);
  EXPECT_EQ(core.find_qp(number), nullptr);
  a().context = nullptr;
  a().open();
  qp = datagrams();
  EXPECT_EQ(qp->attach_mcast(group, lid), Answer::kOk);
}

TEST_F(TwoDevices, the_helper_is_asked_for_with_the_first_qp_that_leaves_reset_and_once) {
  hca::Qp* qp = a().make_qp();
  EXPECT_EQ(a().helper.starts, 0);
  ASSERT_EQ(bring_up(*qp, Qpn(9), Lid(2)), Answer::kOk);
  ASSERT_EQ(bring_up(*a().make_qp(), Qpn(9), Lid(2)), Answer::kOk);
  EXPECT_EQ(a().helper.starts, 1);
}

TEST_F(TwoDevices, a_helper_that_cannot_start_is_a_fatal_event_and_is_tried_again) {
  a().helper.can_start = false;
  ASSERT_EQ(bring_up(*a().make_qp(), Qpn(9), Lid(2)), Answer::kOk);
  EXPECT_GE(a().helper.starts, 1);
  hca::AsyncEvent event;
  do {
    ASSERT_EQ(a().context->get_async_event(event), Answer::kOk);
  } while (event.kind != EventKind::kDeviceFatal);
  a().helper.can_start = true;
  const int before = a().helper.starts;
  ASSERT_EQ(bring_up(*a().make_qp(), Qpn(9), Lid(2)), Answer::kOk);
  EXPECT_GT(a().helper.starts, before);
}

/// A program that spins on memory: no thread calls the receiving side.
TEST_F(TwoDevices, the_helper_drives_for_a_program_that_never_calls) {
  const auto [qa, qb] = connected();
  ASSERT_EQ(b().recv(*qb, 1), Answer::kOk);
  clock.advance(hca::kCallerPause);
  ASSERT_EQ(a().send(*qa, 2), Answer::kOk);
  static_cast<void>(b().device.help(false));
  EXPECT_EQ(b().memory[Consumer::kBytes / 2], a().memory[0]);
  EXPECT_EQ(b().device.count(DeviceCounter::kHelperTurns), 1U);
  EXPECT_EQ(b().cq->query().fill, 1U);
}

/// It posts now and then and waits by reading its memory: cells that come in between are placed at once.
TEST_F(TwoDevices, the_helper_drives_beside_a_program_that_spins_on_memory_and_posts) {
  const auto [qa, qb] = connected();
  const auto answer = [&, qa = qa, qb = qb](uint64_t number) {
    a().memory[0] = static_cast<std::byte>(number);
    EXPECT_EQ(a().recv(*qa, number), Answer::kOk);
    EXPECT_EQ(b().recv(*qb, number), Answer::kOk);
    EXPECT_EQ(b().send(*qb, number), Answer::kOk);
    EXPECT_EQ(a().send(*qa, number), Answer::kOk);
    clock.advance(10us);
    static_cast<void>(b().device.help(true));
    return b().memory[Consumer::kBytes / 2] == a().memory[0];
  };
  EXPECT_FALSE(answer(1)) << "callers drive";
  clock.advance(hca::kCallerPause);
  EXPECT_NE(b().device.help(false).work, 0);
  const int kicks = b().helper.kicks;
  for (uint64_t i = 2; i < 10; ++i) EXPECT_TRUE(answer(i)) << i;
  EXPECT_EQ(b().helper.kicks, kicks);
}

TEST_F(TwoDevices, the_helper_only_looks_while_callers_poll) {
  static_cast<void>(connected());
  clock.advance(1ms);
  adapter::WorkCompletion out;
  EXPECT_EQ(a().cq->poll(std::span(&out, 1)), 0);
  const Instant until = a().device.help(false).until;
  EXPECT_EQ(until, clock.now() + hca::kCallerPause);
  EXPECT_EQ(a().device.count(DeviceCounter::kHelperLooks), 1U);
  EXPECT_EQ(a().device.count(DeviceCounter::kHelperTurns), 0U);
  clock.set(until);
  static_cast<void>(a().device.help(false));
  EXPECT_EQ(a().device.count(DeviceCounter::kHelperTurns), 1U);
}

TEST_F(TwoDevices, polls_that_keep_finding_entries_drive_too) {
  hca::Cq* cq = a().context->create_cq(64).object;
  hca::Qp* qp = a().make_qp(cq);
  ASSERT_EQ(bring_up(*qp, Qpn(9), Lid(2)), Answer::kOk);
  ASSERT_EQ(qp->modify({.state = adapter::QpState::kErr}, adapter::kQpAttrState), Answer::kOk);
  for (uint64_t i = 0; i < 40; ++i) ASSERT_EQ(a().recv(*qp, i), Answer::kOk);
  adapter::WorkCompletion out;
  ASSERT_EQ(a().cq->poll(std::span(&out, 1)), 0) << "a turn, which flushes all";
  ASSERT_EQ(cq->query().fill, 40U);
  const uint64_t before = a().device.count(DeviceCounter::kCallerTurns);
  for (int i = 0; i < 39; ++i) ASSERT_EQ(cq->poll(std::span(&out, 1)), 1);
  EXPECT_GT(a().device.count(DeviceCounter::kCallerTurns), before);
}

/// The helper sleeps until a late deadline; then a caller posts a request with an earlier deadline.
TEST_F(TwoDevices, the_helper_is_kicked_when_it_would_wake_too_late) {
  const auto [qa, qb] = connected();
  clock.advance(1s);
  while (a().device.help(false).until == Instant::min()) {
  }
  const int before = a().helper.kicks;
  adapter::WorkCompletion out;
  EXPECT_EQ(a().cq->poll(std::span(&out, 1)), 0);
  EXPECT_EQ(a().helper.kicks, before) << "a poll leaves nothing to do";
  ASSERT_EQ(a().send(*qa, 1), Answer::kOk);
  EXPECT_EQ(a().helper.kicks, before + 1) << "a packet must be repeated if it is lost";
  ASSERT_EQ(a().send(*qa, 2), Answer::kOk);
  EXPECT_EQ(a().helper.kicks, before + 1) << "once is enough";
}

/// The helper only looks whether the caller still drives, and would do so after the deadline. The caller
/// waits instead.
TEST_F(TwoDevices, the_helper_is_kicked_when_the_caller_that_drove_waits) {
  const auto [qa, qb] = connected();
  pipe.set_filter([](int from, auto&) { return from == 0 ? Verdict::kDrop : Verdict::kPass; });
  ASSERT_EQ(a().send(*qa, 1), Answer::kOk);
  clock.advance(hca::kCallerPause);
  Instant due = Instant::min();
  while (due == Instant::min()) due = a().device.help(false).until;
  ASSERT_GT(due - clock.now(), 500us) << "when the packet is repeated";
  clock.set(due - 500us);
  adapter::WorkCompletion out;
  EXPECT_EQ(a().cq->poll(std::span(&out, 1)), 0);
  ASSERT_EQ(a().device.help(false).until, clock.now() + hca::kCallerPause);
  const int before = a().helper.kicks;
  EXPECT_EQ(a().cq->poll(std::span(&out, 1)), 0);
  EXPECT_EQ(a().helper.kicks, before) << "the caller drives";
  ASSERT_EQ(a().cq->arm(false), Answer::kOk);
  EXPECT_EQ(a().helper.kicks, before + 1);
}

TEST_F(TwoDevices, a_lost_packet_is_repeated_while_its_caller_waits) {
  const auto [qa, qb] = connected();
  ASSERT_EQ(b().recv(*qb, 1), Answer::kOk);
  int lost = 0;
  pipe.set_filter(
      [&](int from, auto&) { return from == 0 && lost++ == 0 ? Verdict::kDrop : Verdict::kPass; });
  ASSERT_EQ(a().send(*qa, 2), Answer::kOk);
  ASSERT_EQ(a().cq->arm(false), Answer::kOk);
  help(1000, 100us);
  EXPECT_GE(lost, 2);
  hca::Cq* told = nullptr;
  ASSERT_EQ(a().channel->get_event(told), Answer::kOk);
  EXPECT_EQ(told, a().cq);
  EXPECT_EQ(next(*a().cq).status, WcStatus::kSuccess);
  a().cq->ack_events(1);
}

// ---- completion channels --------------------

TEST_F(TwoDevices, an_armed_cq_makes_its_channel_readable_once) {
  const auto [qa, qb] = connected();
  ASSERT_EQ(b().recv(*qb, 1), Answer::kOk);
  ASSERT_EQ(b().recv(*qb, 2), Answer::kOk);
  ASSERT_EQ(b().cq->arm(false), Answer::kOk);
  EXPECT_FALSE(readable(b().channel->fd()));
  ASSERT_EQ(a().send(*qa, 1), Answer::kOk);
  ASSERT_EQ(a().send(*qa, 2), Answer::kOk);
  help();
  EXPECT_TRUE(readable(b().channel->fd()));
  hca::Cq* told = nullptr;
  ASSERT_EQ(b().channel->get_event(told), Answer::kOk);
  EXPECT_EQ(told, b().cq);
  EXPECT_FALSE(readable(b().channel->fd())) << "armed once, told once";
  ASSERT_EQ(fcntl(b().channel->fd(), F_SETFL, O_NONBLOCK), 0);
  EXPECT_EQ(b().channel->get_event(told), Answer::kAgain);
  b().cq->ack_events(1);
}

TEST_F(TwoDevices, notified_queues_come_in_order_and_each_has_its_turn) {
  std::array<hca::Cq*, 3> cqs{};
  for (hca::Cq*& cq : cqs) {
    cq = a().context->create_cq(16, a().channel).object;
    hca::Qp* qp = a().make_qp(cq);
    // A QP in error flushes what is posted: a completion without a peer.
    ASSERT_EQ(bring_up(*qp, Qpn(9), Lid(2)), Answer::kOk);
    ASSERT_EQ(cq->arm(false), Answer::kOk);
    ASSERT_EQ(qp->modify({.state = adapter::QpState::kErr}, adapter::kQpAttrState), Answer::kOk);
    ASSERT_EQ(a().recv(*qp, 1), Answer::kOk);
    adapter::WorkCompletion out;
    while (cq->poll(std::span(&out, 1)) == 0) {
    }
    ASSERT_EQ(cq->arm(false), Answer::kOk);
    ASSERT_EQ(a().recv(*qp, 2), Answer::kOk);
    while (cq->poll(std::span(&out, 1)) == 0) {
    }
  }
  // Each queue was notified twice: the oldest is reported first, and a second notification goes to the end.
  std::vector<hca::Cq*> order;
  for (int i = 0; i < 6; ++i) {
    hca::Cq* told = nullptr;
    ASSERT_EQ(a().channel->get_event(told), Answer::kOk);
    order.push_back(told);
    told->ack_events(1);
  }
  EXPECT_EQ(order, (std::vector<hca::Cq*>{cqs[0], cqs[1], cqs[2], cqs[0], cqs[1], cqs[2]}));
  EXPECT_FALSE(readable(a().channel->fd()));
}

/// A CQ armed for solicited entries ignores an ordinary entry, but reports a failed one.
TEST_F(TwoDevices, a_cq_armed_for_solicited_entries_tells_of_failures_too) {
  const auto [qa, qb] = connected();
  ASSERT_EQ(b().recv(*qb, 1), Answer::kOk);
  ASSERT_EQ(b().recv(*qb, 2), Answer::kOk);
  ASSERT_EQ(b().cq->arm(true), Answer::kOk);
  ASSERT_EQ(a().send(*qa, 1), Answer::kOk);
  help();
  EXPECT_FALSE(readable(b().channel->fd()));
  ASSERT_EQ(qb->modify({.state = adapter::QpState::kErr}, adapter::kQpAttrState), Answer::kOk);
  help();
  EXPECT_TRUE(readable(b().channel->fd()));
}

TEST_F(TwoDevices, get_event_is_interrupted_by_a_signal_and_says_so) {
  struct sigaction act {};
  act.sa_handler = [](int) {};
  struct sigaction before {};
  sigaction(SIGUSR1, &act, &before);
  const pthread_t waiter = pthread_self();
  std::atomic<bool> done{false};
  std::thread sender([&] {
    while (!done) {
      pthread_kill(waiter, SIGUSR1);
      std::this_thread::sleep_for(1ms);
    }
  });
  hca::Cq* told = nullptr;
  EXPECT_EQ(a().channel->get_event(told), Answer::kInterrupted);
  done = true;
  sender.join();
  sigaction(SIGUSR1, &before, nullptr);
}

// ---- asynchronous events --------------------

TEST_F(TwoDevices, a_port_that_goes_and_comes_is_told_to_every_context) {
  hca::Context* second = a().device.open().object;
  static_cast<void>(a().device.help(false));
  pipe.set_up(false);
  clock.advance(10ms);
  static_cast<void>(a().device.help(false));
  pipe.set_up(true);
  static_cast<void>(a().device.help(false));
  for (hca::Context* context : {a().context, second}) {
    std::vector<EventKind> kinds;
    ASSERT_EQ(fcntl(context->async_fd(), F_SETFL, O_NONBLOCK), 0);
    hca::AsyncEvent event;
    while (context->get_async_event(event) == Answer::kOk) {
      EXPECT_EQ(event.port, 1);
      EXPECT_EQ(event.object, nullptr);
      kinds.push_back(event.kind);
    }
    const std::vector<EventKind> late{EventKind::kPortError, EventKind::kPortActive};
    ASSERT_GE(kinds.size(), 2U);
    EXPECT_EQ(std::vector<EventKind>(kinds.end() - 2, kinds.end()), late);
    EXPECT_FALSE(readable(context->async_fd()));
  }
  a().device.close(second);
}

TEST_F(TwoDevices, an_event_of_a_qp_goes_to_its_context_alone) {
  hca::Context* other = a().device.open().object;
  const auto [qa, qb] = connected();
  ASSERT_EQ(fcntl(a().context->async_fd(), F_SETFL, O_NONBLOCK), 0);
  ASSERT_EQ(fcntl(other->async_fd(), F_SETFL, O_NONBLOCK), 0);
  hca::AsyncEvent event;
  while (a().context->get_async_event(event) == Answer::kOk) {
  }
  while (other->get_async_event(event) == Answer::kOk) {
  }
  ASSERT_EQ(drain(*qa), Answer::kOk);
  help();
  ASSERT_EQ(a().context->get_async_event(event), Answer::kOk);
  EXPECT_EQ(event.kind, EventKind::kSqDrained);
  EXPECT_EQ(event.object, qa);
  EXPECT_EQ(other->get_async_event(event), Answer::kAgain);
  a().context->ack_async_event({.kind = EventKind::kSqDrained, .object = qa});
  EXPECT_EQ(a().context->destroy(qa), Answer::kOk);
  a().device.close(other);
}

TEST_F(TwoDevices, a_shared_receive_queue_serves_its_qps_and_tells_of_its_limit) {
  hca::Srq* srq = b().context->create_srq(*b().pd, 16, 1, &b()).object;
  ASSERT_NE(srq, nullptr);
  EXPECT_EQ(srq->user(), &b());
  hca::Qp* qa = a().make_qp();
  hca::Qp* qb = b().context->create_qp(*b().pd, {.send_cq = b().cq, .recv_cq = b().cq, .srq = srq}).object;
  connect(*qa, Lid(1), *qb, Lid(2));
  const adapter::Sge to = b().sge(0, 64);
  const std::array<adapter::RecvRequest, 2> recvs{
      {{.wr_id = 5, .sges = {&to, 1}}, {.wr_id = 6, .sges = {&to, 1}}}};
  size_t posted = 0;
  ASSERT_EQ(srq->post_recv(recvs, posted), Answer::kOk);
  EXPECT_EQ(posted, 2U);
  ASSERT_EQ(srq->modify({.limit = 2}, adapter::kSrqLimit), Answer::kOk);
  adapter::SrqAttr attr;
  ASSERT_EQ(srq->query(attr), Answer::kOk);
  EXPECT_EQ(attr.limit, 2U);
  ASSERT_EQ(fcntl(b().context->async_fd(), F_SETFL, O_NONBLOCK), 0);
  hca::AsyncEvent event;
  while (b().context->get_async_event(event) == Answer::kOk) EXPECT_NE(event.object, srq);
  ASSERT_EQ(a().send(*qa, 1), Answer::kOk);
  EXPECT_EQ(next(*b().cq).wr_id, 5U);
  ASSERT_EQ(b().context->get_async_event(event), Answer::kOk);
  EXPECT_EQ(event.kind, EventKind::kSrqLimitReached);
  EXPECT_EQ(event.object, srq);
  b().context->ack_async_event(event);
  EXPECT_EQ(b().context->destroy(srq), Answer::kBusy);
  EXPECT_EQ(b().context->destroy(qb), Answer::kOk);
  EXPECT_EQ(b().context->destroy(srq), Answer::kOk);
  EXPECT_EQ(b().context->create_srq(*a().pd, 16, 1).answer(), Answer::kForeignObject);
  EXPECT_EQ(b().context->create_srq(*b().pd, 0, 1).answer(), Answer::kBadSize);
}

TEST_F(TwoDevices, a_cq_is_made_larger_while_entries_wait_and_not_smaller_than_they_are) {
  const auto [qa, qb] = connected();
  for (uint64_t i = 0; i < 4; ++i) {
    ASSERT_EQ(b().recv(*qb, i), Answer::kOk);
    ASSERT_EQ(a().send(*qa, i), Answer::kOk);
  }
  clock.advance(hca::kCallerPause);
  help();
  ASSERT_EQ(b().cq->query().fill, 4U);
  EXPECT_EQ(b().cq->resize(2), Answer::kBadSize);
  EXPECT_EQ(b().cq->resize(0), Answer::kBadSize);
  EXPECT_EQ(b().cq->resize(1024), Answer::kOk);
  EXPECT_GE(b().cq->query().depth, 1024U);
  for (uint64_t i = 0; i < 4; ++i) EXPECT_EQ(next(*b().cq).wr_id, i);
}

TEST_F(TwoDevices, an_address_handle_holds_its_domain) {
  hca::AddressHandle* ah = a().context->create_ah(*a().pd, {.dlid = Lid(2)}).object;
  ASSERT_NE(ah, nullptr);
  EXPECT_EQ(ah->value().attr.dlid, Lid(2));
  EXPECT_EQ(ah->value().pd, a().pd->id());
  EXPECT_EQ(a().context->create_ah(*a().pd, {}).answer(), Answer::kBadAddress);
  EXPECT_EQ(a().context->create_ah(*b().pd, {.dlid = Lid(2)}).answer(), Answer::kForeignObject);
  EXPECT_EQ(a().context->destroy(a().region), Answer::kOk);
  EXPECT_EQ(a().context->destroy(a().pd), Answer::kBusy);
  EXPECT_EQ(a().context->destroy(ah), Answer::kOk);
  EXPECT_EQ(a().context->destroy(a().pd), Answer::kOk);
}

// ---- ending --------------------

TEST_F(TwoDevices, what_is_in_use_is_not_destroyed) {
  hca::Qp* qp = a().make_qp();
  EXPECT_EQ(a().context->destroy(a().pd), Answer::kBusy);
  EXPECT_EQ(a().context->destroy(a().cq), Answer::kBusy);
  EXPECT_EQ(a().context->destroy(a().channel), Answer::kBusy);
  EXPECT_EQ(a().context->destroy(qp), Answer::kOk);
  EXPECT_EQ(a().context->destroy(a().channel), Answer::kBusy) << "the CQ tells there";
  EXPECT_EQ(a().context->destroy(a().cq), Answer::kOk);
  EXPECT_EQ(a().context->destroy(a().channel), Answer::kOk);
  hca::Window* window = a().context->alloc_window(*a().pd).object;
  EXPECT_EQ(a().context->destroy(a().region), Answer::kOk);
  EXPECT_EQ(a().context->destroy(a().pd), Answer::kBusy) << "the window";
  EXPECT_EQ(a().context->destroy(window), Answer::kOk);
  EXPECT_EQ(a().context->destroy(a().pd), Answer::kOk);
}

TEST_F(TwoDevices, a_cq_is_gone_when_its_events_are_acknowledged) {
  hca::Cq* cq = a().context->create_cq(16, a().channel).object;
  hca::Qp* qp = a().make_qp(cq);
  ASSERT_EQ(bring_up(*qp, Qpn(9), Lid(2)), Answer::kOk);
  ASSERT_EQ(qp->modify({.state = adapter::QpState::kErr}, adapter::kQpAttrState), Answer::kOk);
  adapter::WorkCompletion out;
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(cq->arm(false), Answer::kOk);
    ASSERT_EQ(a().recv(*qp, 1), Answer::kOk);
    while (cq->poll(std::span(&out, 1)) == 0) {
    }
  }
  hca::Cq* told = nullptr;
  ASSERT_EQ(a().channel->get_event(told), Answer::kOk);
  EXPECT_TRUE(readable(a().channel->fd())) << "of the second";
  ASSERT_EQ(a().context->destroy(qp), Answer::kOk);
  std::atomic<bool> gone{false};
  std::thread destroyer([&] {
    EXPECT_EQ(a().context->destroy(cq), Answer::kOk);
    gone = true;
  });
  while (readable(a().channel->fd())) std::this_thread::yield();  // the event is dropped with the queue
  std::this_thread::sleep_for(5ms);
  EXPECT_FALSE(gone) << "one event was taken and not acknowledged";
  told->ack_events(1);
  destroyer.join();
  EXPECT_TRUE(gone);
}

TEST_F(TwoDevices, events_of_a_qp_that_were_not_taken_end_with_it) {
  const auto [qa, qb] = connected();
  ASSERT_EQ(fcntl(a().context->async_fd(), F_SETFL, O_NONBLOCK), 0);
  hca::AsyncEvent event;
  while (a().context->get_async_event(event) == Answer::kOk) {
  }
  ASSERT_EQ(drain(*qa), Answer::kOk);
  help();
  EXPECT_TRUE(readable(a().context->async_fd()));
  EXPECT_EQ(a().context->destroy(qa), Answer::kOk);
  EXPECT_FALSE(readable(a().context->async_fd()));
  EXPECT_EQ(a().context->get_async_event(event), Answer::kAgain);
}

TEST_F(TwoDevices, closing_a_context_ends_all_it_has) {
  static_cast<void>(connected());
  a().device.close(std::exchange(a().context, nullptr));
  a().open();
  const auto [qa, qb] = connected();
  ASSERT_EQ(b().recv(*qb, 1), Answer::kOk);
  ASSERT_EQ(a().send(*qa, 2), Answer::kOk);
  EXPECT_EQ(next(*b().cq).status, WcStatus::kSuccess);
}

// ---- refusals --------------------

TEST_F(TwoDevices, arguments_that_do_not_fit_are_invalid) {
  hca::Context& context = *a().context;
  EXPECT_EQ(context.create_cq(0).answer(), Answer::kBadSize);
  EXPECT_EQ(context.create_cq(a().device.limits().cqes_per_queue + 1).answer(), Answer::kBadSize);
  EXPECT_EQ(context.create_cq(4, b().channel).answer(), Answer::kForeignObject);
  EXPECT_EQ(context.create_qp(*a().pd, {}).answer(), Answer::kMissingObject);
  EXPECT_EQ(context.create_qp(*b().pd, {.send_cq = a().cq, .recv_cq = a().cq}).answer(),
            Answer::kForeignObject);
  EXPECT_EQ(context.create_qp(*a().pd, {.send_cq = a().cq, .recv_cq = b().cq}).answer(),
            Answer::kForeignObject);
  EXPECT_EQ(context.reg_mr(*a().pd, {}, adapter::Access::kLocalWrite).answer(), Answer::kBadRange);
  EXPECT_EQ(context.reg_mr(*a().pd, a().memory, adapter::Access::kRemoteWrite).answer(), Answer::kBadRights);
  hca::PortState port;
  EXPECT_EQ(a().device.query_port(0, port), Answer::kNoSuchObject);
  EXPECT_EQ(a().device.query_port(2, port), Answer::kNoSuchObject);
  ASSERT_EQ(a().device.query_port(1, port), Answer::kOk);
  EXPECT_TRUE(port.up);
  EXPECT_EQ(port.info.lid, Lid(1));
}

TEST_F(TwoDevices, a_list_stops_at_the_first_bad_request) {
  const auto [qa, qb] = connected();
  const adapter::Sge from = a().sge(0, 8);
  std::array<adapter::SendRequest, 3> list{};
  for (adapter::SendRequest& request : list) request.sges = std::span(&from, 1);
  list[1].opcode = adapter::SendOpcode::kRdmaWrite;  // without a key
  size_t posted = 9;
  EXPECT_EQ(qa->post_send(list, posted), Answer::kNoRemoteKey);
  EXPECT_EQ(posted, 1U);
  std::vector<adapter::RecvRequest> many(200, adapter::RecvRequest{.sges = std::span(&from, 1)});
  EXPECT_EQ(qb->post_recv(many, posted), Answer::kWouldBlock);
  EXPECT_EQ(posted, 128U) << "what the queue holds";
}

TEST(DevicePage, counters_stand_on_a_page_that_has_room) {
  const TempDir dir;
  ManualClock clock;
  SeededRandom random(1);
  SeededRandom link_random(2);
  Pipe pipe;
  hca::Device device({}, clock, random, link_random);
  device.attach(pipe.end(0));
  StatsPage small = std::move(StatsPage::create(dir.path() + "/small", 4).value());
  EXPECT_FALSE(device.publish(small, "hca"));
  StatsPage page = std::move(StatsPage::create(dir.path() + "/page").value());
  EXPECT_TRUE(device.publish(page, "hca"));
  hca::PortState port;
  ASSERT_EQ(device.query_port(1, port), Answer::kOk);
  EXPECT_EQ(device.count(DeviceCounter::kCallerTurns), 1U);
}

// ---- fork --------------------

/// The child's exit code is the number of the first check that fails.
int child_of(const std::function<int()>& what) {
  const pid_t child = fork();
  if (child == 0) _exit(what());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_F(TwoDevices, a_child_after_fork_has_no_device_and_the_parents_goes_on) {
  const std::array<hca::Qp*, 2> qps = connected();
  hca::Qp* qa = qps[0];
  hca::Qp* qb = qps[1];
  ASSERT_EQ(b().recv(*qb, 1), Answer::kOk);
  EXPECT_EQ(child_of([&] {
              adapter::WorkCompletion out;
              hca::Cq* told = nullptr;
              hca::AsyncEvent event;
              hca::PortState port;
              int check = 1;
              for (const bool good :
                   {a().send(*qa, 1) == Answer::kForked, a().recv(*qa, 1) == Answer::kForked,
                    a().cq->poll(std::span(&out, 1)) == -1, a().cq->arm(false) == Answer::kForked,
                    a().channel->get_event(told) == Answer::kForked,
                    a().context->get_async_event(event) == Answer::kForked,
                    qa->modify({}, adapter::kQpAttrState) == Answer::kForked,
                    a().context->alloc_pd().answer() == Answer::kForked,
                    a().context->create_cq(4).answer() == Answer::kForked,
                    a().device.query_port(1, port) == Answer::kForked,
                    a().device.open().answer() == Answer::kForked, a().context->destroy(qa) == Answer::kOk}) {
                if (!good) return check;
                ++check;
              }
              return 0;
            }),
            0);
  ASSERT_EQ(a().send(*qa, 2), Answer::kOk);
  EXPECT_EQ(next(*b().cq).status, WcStatus::kSuccess);
}

}  // namespace
}  // namespace weft::test
