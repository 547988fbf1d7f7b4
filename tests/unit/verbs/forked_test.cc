// What a child after fork() finds: no lock of the parent's threads keeps its calls. The child of each test
// is made by the thread that has the lock. Nothing releases a lock in the child, so that of another thread
// would be the same.
#include <functional>
#include <utility>

#include "tests/support/allocation_counter.h"
#include "tests/unit/verbs/contracts_fixture.h"

namespace weft::test {
namespace {

constexpr unsigned kHangs = 10;  // seconds; a child that is still there then waits for ever

/// Allocations of this thread before one that forks; negative: none does.
thread_local long until_fork = -1;
/// What the child does; it ends with the answer as exit code.
std::function<int()> childs_work;
pid_t forked_pid = 0;

[[noreturn]] void be_child() {
  watch_allocations(nullptr);
  alarm(kHangs);
  _exit(childs_work());
}

void fork_when_due(uint64_t /*bytes*/) {
  if (until_fork < 0 || until_fork-- != 0) return;
  forked_pid = fork();
  if (forked_pid == 0) be_child();
}

/// The child's exit code; -1 when it hung.
int exit_code_of(pid_t pid) {
  int status = 0;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

class VerbsForked : public Contracts {
 protected:
  void TearDown() override {
    watch_allocations(nullptr);
    childs_work = nullptr;
    Contracts::TearDown();
  }
  /// Calls `act` again and again; the process forks at the first, the second, ... allocation that it makes.
  template <class Act>
  void at_each_allocation(const char* what, Act act) {
    watch_allocations(fork_when_due);
    for (long n = 0;; ++n) {
      until_fork = n;
      act();
      if (until_fork >= 0) break;
      EXPECT_EQ(exit_code_of(forked_pid), 0) << what << ", allocation " << n;
    }
    until_fork = -1;
  }
  /// Forks once, and runs `what` in the child. @return its answer; -1 when it hung
  static int forked(std::function<int()> what) {
    childs_work = std::move(what);
    const pid_t pid = fork();
    if (pid == 0) be_child();
    return exit_code_of(pid);
  }
};

TEST_F(VerbsForked, a_child_ends_objects_while_a_thread_of_the_parent_made_one) {
  ibv_pd* domain = ibv_alloc_pd(context);
  ibv_mr* region = ibv_reg_mr(domain, memory.data(), 64, kAllRights);
  ibv_alloc_dm_attr attr{.length = 64};
  ibv_dm* dm = ibv_alloc_dm(context, &attr);
  ASSERT_TRUE(domain != nullptr && region != nullptr && dm != nullptr);
  childs_work = [&] {
    if (ibv_import_pd(context, domain->handle) != nullptr) return 1;
    if (ibv_rereg_mr(region, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, 0) == 0) return 2;
    if (ibv_dereg_mr(region) != 0) return 3;
    if (ibv_free_dm(dm) != 0) return 4;
    return ibv_dealloc_pd(domain) == 0 ? 0 : 5;
  };
  at_each_allocation("ibv_alloc_pd", [&] { EXPECT_EQ(ibv_dealloc_pd(ibv_alloc_pd(context)), 0); });
  at_each_allocation("ibv_reg_mr",
                     [&] { EXPECT_EQ(ibv_dereg_mr(ibv_reg_mr(pd, memory.data(), 64, kAllRights)), 0); });
  at_each_allocation("ibv_alloc_dm", [&] { EXPECT_EQ(ibv_free_dm(ibv_alloc_dm(context, &attr)), 0); });
  EXPECT_EQ(ibv_dereg_mr(region), 0);
  EXPECT_EQ(ibv_free_dm(dm), 0);
  EXPECT_EQ(ibv_dealloc_pd(domain), 0);
}

TEST_F(VerbsForked, a_child_posts_beside_a_batch_of_the_parent) {
  const std::array<ibv_qp*, 2> two = connected(4, cq);
  ibv_qp_ex* wr = ibv_qp_to_qp_ex(two[0]);
  ibv_wr_start(wr);
  add_write(wr, 1, mr->rkey, at(4096), 5);
  EXPECT_EQ(forked([&] { return post_write(two[0], 2); }), EIO);
  EXPECT_EQ(forked([&] {
              ibv_wr_start(wr);
              add_write(wr, 2, mr->rkey, at(4096), 6);
              return ibv_wr_complete(wr);
            }),
            EIO);
  EXPECT_EQ(ibv_wr_complete(wr), 0) << "the parent's batch";
  take_good(cq, 1);
  end(two);
}

TEST_F(VerbsForked, a_child_polls_beside_a_poll_of_the_parent) {
  ibv_cq_init_attr_ex init{.cqe = 16, .wc_flags = IBV_WC_STANDARD_FLAGS};
  ibv_cq_ex* queue = ibv_create_cq_ex(context, &init);
  ASSERT_NE(queue, nullptr);
  const std::array<ibv_qp*, 2> two = connected(4, ibv_cq_ex_to_cq(queue));
  ASSERT_EQ(post_write(two[0], 1), 0);
  ibv_poll_cq_attr attr{};
  while (ibv_start_poll(queue, &attr) != 0) {
  }
  EXPECT_EQ(forked([&] {
              ibv_wc wc{};
              return ibv_poll_cq(ibv_cq_ex_to_cq(queue), 1, &wc) < 0 ? 0 : 1;
            }),
            0);
  EXPECT_EQ(forked([&] { return ibv_start_poll(queue, &attr); }), EIO);
  EXPECT_EQ(queue->wr_id, 1U);
  ibv_end_poll(queue);
  end(two);
  EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(queue)), 0);
}

TEST_F(VerbsForked, a_child_acknowledges_while_a_thread_of_the_parent_counts) {
  pthread_mutex_lock(&cq->mutex);
  EXPECT_EQ(forked([&] {
              ibv_ack_cq_events(cq, 1);
              ibv_async_event event{.event_type = IBV_EVENT_CQ_ERR};
              event.element.cq = cq;
              ibv_ack_async_event(&event);
              return 0;
            }),
            0);
  pthread_mutex_unlock(&cq->mutex);
}

}  // namespace
}  // namespace weft::test
