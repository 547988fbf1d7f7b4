// Objects that end while another thread still uses them: docs/contracts.tsv.
#include <chrono>
#include <thread>

#include "tests/unit/verbs/contracts_fixture.h"

namespace weft::test {
namespace {

/// The thread that takes the events acknowledges the last one and destroys the channel at once.
TEST_F(Contracts, a_channel_is_in_use_until_ibv_destroy_cq_has_returned) {
  ibv_comp_channel* told_by = ibv_create_comp_channel(context);
  ibv_cq* queue = ibv_create_cq(context, 16, nullptr, told_by, 0);
  ASSERT_TRUE(told_by != nullptr && queue != nullptr);
  const std::array<ibv_qp*, 2> two = connected(4, queue);
  ASSERT_EQ(ibv_req_notify_cq(queue, 0), 0);
  ASSERT_EQ(post_write(two[0], 1), 0);
  ibv_cq* told = nullptr;
  void* user = nullptr;
  ASSERT_EQ(ibv_get_cq_event(told_by, &told, &user), 0);
  take_good(queue, 1);
  end(two);
  std::thread destroyer([&] { EXPECT_EQ(ibv_destroy_cq(queue), 0); });
  while (ibv_resize_cq(queue, 32) == 0) std::this_thread::yield();  // until the queue has left the adapter
  const int early = ibv_destroy_comp_channel(told_by);
  EXPECT_EQ(early, EBUSY);
  ibv_ack_cq_events(told, 1);
  destroyer.join();
  if (early != 0) {
    EXPECT_EQ(ibv_destroy_comp_channel(told_by), 0);
  }
}

TEST_F(Contracts, calls_for_an_object_that_waits_for_its_acknowledgements_are_refused) {
  ibv_srq_init_attr init{.attr = {.max_wr = 4, .max_sge = 1}};
  ibv_srq* srq = ibv_create_srq(pd, &init);
  ASSERT_NE(srq, nullptr);
  ibv_srq_attr attr{.max_wr = 4, .srq_limit = 2};
  ASSERT_EQ(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT), 0);
  ibv_async_event event{};
  do {
    ASSERT_EQ(ibv_get_async_event(context, &event), 0);
    if (event.event_type != IBV_EVENT_SRQ_LIMIT_REACHED) ibv_ack_async_event(&event);
  } while (event.event_type != IBV_EVENT_SRQ_LIMIT_REACHED);
  std::thread destroyer([&] { EXPECT_EQ(ibv_destroy_srq(srq), 0); });
  int answer = 0;
  for (int look = 0; look < 10'000 && (answer = ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR)) == 0; ++look)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(answer, EINVAL);
  EXPECT_EQ(ibv_query_srq(srq, &attr), EINVAL);
  EXPECT_EQ(post_receive(srq, ibv_post_srq_recv), EINVAL);
  ibv_ack_async_event(&event);
  destroyer.join();
}

}  // namespace
}  // namespace weft::test
