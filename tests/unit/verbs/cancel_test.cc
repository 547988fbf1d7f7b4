// Explanations of refused calls (WEFT_DEBUG=verbs): neither a cancellation of the thread nor a shortage of
// memory ends the process in them.
#include <functional>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/allocation_counter.h"
#include "tests/unit/verbs/contracts_fixture.h"

namespace weft::test {
namespace {

/// How many allocations of this thread succeed before one fails; negative: all do.
thread_local long allocations_left = -1;

void fail_the_last(uint64_t /*bytes*/) {
  if (allocations_left >= 0 && allocations_left-- == 0) throw std::bad_alloc();
}

class ExplainedRefusals : public Contracts {
 protected:
  void SetUp() override {
    Contracts::SetUp();
    early = make_qp_ex(4, cq);
    qps.push_back(early);
  }
  /// Calls that are refused: a send, a receive and a batch of a QP in RESET, and a change of a CQ.
  [[nodiscard]] std::vector<std::function<int()>> calls() {
    return {[this] { return post_message(early, 1); }, [this] { return post_receive(early, ibv_post_recv); },
            [this] {
              ibv_qp_ex* wr = ibv_qp_to_qp_ex(early);
              ibv_wr_start(wr);
              wr->wr_id = 1;
              ibv_wr_send(wr);
              return ibv_wr_complete(wr);
            },
            [this] {
              ibv_modify_cq_attr attr{.attr_mask = IBV_CQ_ATTR_MODERATE};
              return ibv_modify_cq(cq, &attr);
            }};
  }

  ibv_qp* early = nullptr;
};

TEST_F(ExplainedRefusals, are_no_cancellation_points) {
  for (const std::function<int()>& call : calls()) {
    int answer = 0;
    std::thread cancelled([&] {
      pthread_cancel(pthread_self());
      answer = call();
      pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, nullptr);
    });
    cancelled.join();
    EXPECT_NE(answer, 0);
  }
}

TEST_F(ExplainedRefusals, keep_their_errno_without_memory) {
  for (const std::function<int()>& call : calls()) {
    const int usual = call();
    watch_allocations(fail_the_last);
    for (long n = 0;; ++n) {
      allocations_left = n;
      const int answer = call();
      if (std::exchange(allocations_left, -1) >= 0) break;
      EXPECT_TRUE(answer == usual || answer == ENOMEM) << answer << ", allocation " << n;
    }
    watch_allocations(nullptr);
  }
}

}  // namespace
}  // namespace weft::test
