// A shortage of memory in the drop-in library: each allocation that a call makes fails once. The call is
// refused with ENOMEM or goes on without, nothing is left behind by it, and given again it succeeds.
#include <fcntl.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <new>
#include <string>
#include <thread>
#include <utility>

#include "tests/support/allocation_counter.h"
#include "tests/unit/verbs/contracts_fixture.h"

/// What the preloaded object calls for /dev/infiniband/rdma_cm.
extern "C" int weft_cm_open();              // NOLINT(readability-identifier-naming)
extern "C" int weft_cm_close(int channel);  // NOLINT(readability-identifier-naming)

namespace weft::test {
namespace {

/// How many allocations of this thread succeed before one fails; negative: all do.
thread_local long until_failure = -1;

void fail_when_due(uint64_t /*bytes*/) {
  if (until_failure >= 0 && until_failure-- == 0) throw std::bad_alloc();
}

class VerbsOutOfMemory : public Contracts {
 protected:
  void SetUp() override {
    Contracts::SetUp();
    watch_allocations(fail_when_due);
  }
  void TearDown() override {
    watch_allocations(nullptr);
    Contracts::TearDown();
  }
  /// Calls `act` until none of its allocations fails, and returns its answer then. `good` says whether it
  /// has done its work; if it has though an allocation failed, `undo` undoes it.
  template <class Act, class Good, class Undo>
  auto repeat(const char* what, Act act, Good good, Undo undo) {
    for (long n = 0;; ++n) {
      errno = 0;
      until_failure = n;
      auto answer = act();
      const int why = errno;
      const bool short_of_memory = std::exchange(until_failure, -1) < 0;
      if (!short_of_memory) {
        EXPECT_TRUE(good(answer)) << what << ": " << strerror(why);
        return answer;
      }
      ++failures;
      if (good(answer)) {
        undo(answer);
      } else {
        ++refused;
        EXPECT_EQ(why, ENOMEM) << what << ", allocation " << n;
      }
    }
  }
  template <class Make, class Undo>
  auto made(const char* what, Make make, Undo undo) {
    return repeat(
        what, make, [](auto* object) { return object != nullptr; }, undo);
  }
  /// A call that may be made again when it was done.
  template <class Act>
  void done(const char* what, Act act) {
    repeat(
        what, act, [](int answer) { return answer == 0; }, [](int) {});
  }
  /// One that may not, such as the end of an object.
  template <class Act>
  void done_once(const char* what, Act act) {
    bool before = false;
    repeat(
        what, [&] { return before ? 0 : act(); },
        [&](int answer) {
          before = before || answer == 0;
          return answer == 0;
        },
        [](int) {});
  }

  int failures = 0;
  int refused = 0;
};

TEST_F(VerbsOutOfMemory, devices_and_domains_are_refused_and_leave_nothing) {
  int count = 0;
  ibv_device** list = made(
      "ibv_get_device_list", [&] { return ibv_get_device_list(&count); }, ibv_free_device_list);
  ibv_context* own = made(
      "ibv_open_device", [&] { return ibv_open_device(list[0]); }, ibv_close_device);
  ibv_free_device_list(list);
  ibv_pd* domain = made(
      "ibv_alloc_pd", [&] { return ibv_alloc_pd(own); }, ibv_dealloc_pd);
  ibv_td_init_attr thread_attr{};
  ibv_td* thread = made(
      "ibv_alloc_td", [&] { return ibv_alloc_td(own, &thread_attr); }, ibv_dealloc_td);
  ibv_parent_domain_init_attr parent_attr{.pd = domain, .td = thread};
  ibv_pd* parent = made(
      "ibv_alloc_parent_domain", [&] { return ibv_alloc_parent_domain(own, &parent_attr); }, ibv_dealloc_pd);
  ibv_comp_channel* events = made(
      "ibv_create_comp_channel", [&] { return ibv_create_comp_channel(own); }, ibv_destroy_comp_channel);
  ibv_xrcd_init_attr xrcd_attr{
      .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1, .oflags = O_CREAT};
  ibv_xrcd* xrcd = made(
      "ibv_open_xrcd", [&] { return ibv_open_xrcd(own, &xrcd_attr); }, ibv_close_xrcd);
  ibv_device_attr_ex limits{};
  ASSERT_EQ(ibv_query_device_ex(own, nullptr, &limits), 0);
  ibv_alloc_dm_attr dm_attr{.length = limits.max_dm_size};  // what an attempt loses is missed in the next
  ibv_dm* dm = made(
      "ibv_alloc_dm", [&] { return ibv_alloc_dm(own, &dm_attr); }, ibv_free_dm);
  ibv_mr* of_dm = made(
      "ibv_reg_dm_mr",
      [&] { return ibv_reg_dm_mr(domain, dm, 0, 4096, IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE); },
      ibv_dereg_mr);
  ibv_mr* region = made(
      "ibv_reg_mr", [&] { return ibv_reg_mr(domain, memory.data(), 4096, kAllRights | IBV_ACCESS_MW_BIND); },
      ibv_dereg_mr);
  done("ibv_rereg_mr", [&] {
    const int answer = ibv_rereg_mr(region, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, memory.data(), 2048, 0);
    return answer;
  });
  ibv_mw* window = made(
      "ibv_alloc_mw", [&] { return ibv_alloc_mw(domain, IBV_MW_TYPE_1); }, ibv_dealloc_mw);
  ibv_port_attr port{};
  done("ibv_query_port", [&] { return ibv_query_port(own, 1, &port); });
  ibv_ah_attr there{.dlid = port.lid, .port_num = 1};
  ibv_ah* address = made(
      "ibv_create_ah", [&] { return ibv_create_ah(domain, &there); }, ibv_destroy_ah);
  done_once("ibv_destroy_ah", [&] { return ibv_destroy_ah(address); });
  done_once("ibv_dealloc_mw", [&] { return ibv_dealloc_mw(window); });
  done_once("ibv_dereg_mr", [&] { return ibv_dereg_mr(region); });
  done_once("ibv_dereg_mr", [&] { return ibv_dereg_mr(of_dm); });
  done_once("ibv_free_dm", [&] { return ibv_free_dm(dm); });
  done_once("ibv_close_xrcd", [&] { return ibv_close_xrcd(xrcd); });
  done_once("ibv_destroy_comp_channel", [&] { return ibv_destroy_comp_channel(events); });
  done_once("ibv_dealloc_pd", [&] { return ibv_dealloc_pd(parent); });
  done_once("ibv_dealloc_td", [&] { return ibv_dealloc_td(thread); });
  done_once("ibv_dealloc_pd", [&] { return ibv_dealloc_pd(domain); });
  done_once("ibv_close_device", [&] { return ibv_close_device(own); });
  EXPECT_GT(refused, 15) << "of " << failures;
}

TEST_F(VerbsOutOfMemory, queues_are_refused_and_what_is_made_in_the_end_carries_messages) {
  ibv_cq* own = made(
      "ibv_create_cq", [&] { return ibv_create_cq(context, 64, nullptr, channel, 0); }, ibv_destroy_cq);
  ibv_cq_init_attr_ex wide{.cqe = 16};
  ibv_cq_ex* extended = made(
      "ibv_create_cq_ex", [&] { return ibv_create_cq_ex(context, &wide); },
      [](ibv_cq_ex* one) { ibv_destroy_cq(ibv_cq_ex_to_cq(one)); });
  done("ibv_resize_cq", [&] { return ibv_resize_cq(own, 128); });
  ibv_srq_init_attr shared{.attr = {.max_wr = 16, .max_sge = 2}};
  ibv_srq* srq = made(
      "ibv_create_srq", [&] { return ibv_create_srq(pd, &shared); }, ibv_destroy_srq);
  ibv_srq_attr limit{.srq_limit = 1};
  done("ibv_modify_srq", [&] { return ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT); });
  std::array<ibv_qp*, 2> two{};
  for (ibv_qp*& qp : two) {
    ibv_qp_init_attr init = init_of(IBV_QPT_RC);
    init.send_cq = init.recv_cq = own;
    if (&qp == &two[1]) init.srq = srq;
    qp = made(
        "ibv_create_qp", [&] { return ibv_create_qp(pd, &init); }, ibv_destroy_qp);
  }
  ibv_qp_init_attr datagrams = init_of(IBV_QPT_UD);
  ibv_qp* ud = made(
      "ibv_create_qp", [&] { return ibv_create_qp(pd, &datagrams); }, ibv_destroy_qp);
  std::array<ibv_qp*, 2> batches{};
  for (ibv_qp*& qp : batches)
    qp = made(
        "ibv_create_qp_ex",
        [&] {
          ibv_qp_init_attr_ex init{};
          init.qp_type = IBV_QPT_RC;
          init.send_cq = init.recv_cq = own;
          init.cap = {16, 16, 2, 2, 64};
          init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
          init.pd = pd;
          init.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE;
          init.sq_sig_all = 1;
          return ibv_create_qp_ex(context, &init);
        },
        ibv_destroy_qp);
  bring_up(ud, 0);
  const ibv_gid group{.raw = {0xFF, 0x12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
  done("ibv_attach_mcast", [&] { return ibv_attach_mcast(ud, &group, 0xC001); });
  done_once("ibv_detach_mcast", [&] { return ibv_detach_mcast(ud, &group, 0xC001); });
  for (const auto& pair : {two, batches})
    for (int i = 0; i < 2; ++i) bring_up(pair[i != 0 ? 1U : 0U], pair[i != 0 ? 0U : 1U]->qp_num);

  for (int round = 0; round < 20; ++round) {
    done_once("ibv_post_srq_recv", [&] { return post_receive(srq, ibv_post_srq_recv); });
    done_once("ibv_req_notify_cq", [&] { return ibv_req_notify_cq(own, 0); });
    done_once("ibv_post_send", [&] { return post_message(two[0], 1); });
    ibv_cq* told = nullptr;
    void* user = nullptr;
    done_once("ibv_get_cq_event", [&] { return ibv_get_cq_event(channel, &told, &user); });
    ibv_ack_cq_events(own, 1);
    done_once("a batch", [&] {
      ibv_qp_ex* wr = ibv_qp_to_qp_ex(batches[0]);
      ibv_wr_start(wr);
      for (uint64_t i = 0; i < 4; ++i) add_write(wr, i, mr->rkey, at(2048 + 8 * i), i);
      const int answer = ibv_wr_complete(wr);
      if (answer != 0) errno = answer;
      return answer;
    });
    for (int left = 6; left > 0;) {
      ibv_wc wc{};
      until_failure = 0;
      const int got = ibv_poll_cq(own, 1, &wc);
      until_failure = -1;
      ASSERT_GE(got, 0);
      if (got == 1) {
        ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
        --left;
      }
    }
  }
  for (ibv_qp* qp : {two[0], two[1], ud, batches[0], batches[1]})
    done_once("ibv_destroy_qp", [&] { return ibv_destroy_qp(qp); });
  done_once("ibv_destroy_srq", [&] { return ibv_destroy_srq(srq); });
  done_once("ibv_destroy_cq", [&] { return ibv_destroy_cq(ibv_cq_ex_to_cq(extended)); });
  done_once("ibv_destroy_cq", [&] { return ibv_destroy_cq(own); });
  EXPECT_GT(refused, 15) << "of " << failures;
}

/// Joins the fabric as the second node with each allocation failing once, and opens the connection manager;
/// 0 when all was as it should be.
int first_use(long n) {
  setenv("WEFT_GUID", "1002", 1);
  setenv("WEFT_LID", "2", 1);
  until_failure = n;
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  const int channel = weft_cm_open();
  const bool none_failed = std::exchange(until_failure, -1) >= 0;
  if (list == nullptr && errno == 0) return 1;
  ibv_free_device_list(list);
  if (channel >= 0) weft_cm_close(channel);
  // The link of an attempt that failed may be about to go.
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  for (count = 0; count != 1 && std::chrono::steady_clock::now() < end;) {
    list = ibv_get_device_list(&count);
    ibv_free_device_list(list);
  }
  if (count != 1) return 2;
  const int again = weft_cm_open();
  if (again < 0) return 3;
  weft_cm_close(again);
  return none_failed ? 99 : 0;
}

TEST_F(VerbsOutOfMemory, the_first_use_of_the_library_may_be_tried_again) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the thread sanitizer ends a forked child that makes a thread";
#endif
  int status = 0;
  long n = 0;
  for (; !WIFEXITED(status) || WEXITSTATUS(status) != 99; ++n) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(60);
      _exit(first_use(n));
    }
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status)) << "allocation " << n << ": signal " << WTERMSIG(status);
    ASSERT_TRUE(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 99)
        << "allocation " << n << ": " << WEXITSTATUS(status);
  }
  EXPECT_GT(n, 20);
}

}  // namespace
}  // namespace weft::test
