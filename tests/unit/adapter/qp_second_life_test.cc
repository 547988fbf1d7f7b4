// What a QP that ends leaves behind, and what its next life finds.
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <vector>

#include "adapter/queues/queue_pair.h"
#include "tests/support/adapter_pair.h"

namespace weft::test {
using namespace adapter;
namespace {

class QpSecondLife : public ::testing::Test {
 protected:
  ChannelAdapter& adapter(int index = 0) { return *pair.side(index).adapter; }

  AdapterPair pair;
};

TEST_F(QpSecondLife, a_reset_qp_has_no_receives) {
  auto qps = pair.connect({});
  for (uint64_t i = 0; i < 5; ++i)
    ASSERT_EQ(pair.post_recv(1, *qps[1], i, {pair.side(1).sge(0, 8)}), PostResult::kOk);
  const std::array<Qpn, 2> numbers{adapter(0).qpn(*qps[0]), adapter(1).qpn(*qps[1])};
  for (int side : {0, 1}) {
    QueuePair& qp = *qps[static_cast<size_t>(side)];
    ASSERT_EQ(adapter(side).modify_qp(qp, {.state = QpState::kReset}, kQpAttrState), ModifyResult::kOk);
    pair.bring_up(side, qp, {}, numbers[static_cast<size_t>(1 - side)], Lid(side == 0 ? 2 : 1), Psn(7),
                  Psn(7));
  }
  ASSERT_EQ(pair.post_recv(1, *qps[1], 100, {pair.side(1).sge(0, 256)}), PostResult::kOk);
  const Sge sge = pair.side(0).sge(0, 100);
  ASSERT_EQ(adapter().post_send(*qps[0], {.wr_id = 1, .sges = {&sge, 1}}), PostResult::kOk);
  pair.run(5);
  ASSERT_EQ(pair.side(1).completions.size(), 1U);
  EXPECT_EQ(pair.side(1).completions[0].wr_id, 100U);
  EXPECT_EQ(pair.side(1).completions[0].status, WcStatus::kSuccess);
}

/// What it still had to answer is not sent, also in its next life, and slows nothing down there.
TEST_F(QpSecondLife, one_that_stops_has_no_answers_to_give) {
  for (const QpState to : {QpState::kErr, QpState::kReset}) {
    QpAttr attr;
    attr.max_rd_atomic = 4;
    auto qps = pair.connect({}, attr);
    pair.pipe.set_room(1, 1);
    const Sge sge = pair.side(0).sge(0, 4096);
    ASSERT_EQ(adapter().post_send(*qps[0], {.opcode = SendOpcode::kRdmaRead,
                                            .sges = {&sge, 1},
                                            .remote_addr = pair.side(1).region.addr,
                                            .rkey = pair.side(1).region.rkey}),
              PostResult::kOk);
    pair.run(5);
    ASSERT_TRUE(qps[1]->answers);
    ASSERT_EQ(adapter(1).modify_qp(*qps[1], {.state = to}, kQpAttrState), ModifyResult::kOk);
    EXPECT_FALSE(qps[1]->answers);
    EXPECT_TRUE(qps[1]->rx.reads.empty());
    pair.pipe.clear_trace();
    pair.pipe.set_room(1, 1000);
    pair.run(5);
    EXPECT_TRUE(pair.pipe.sent_by(1, Opcode::kRdmaReadResponse).empty());
    pair.side(0).completions.clear();
  }
}

/// A late copy of a read request: the numbers of the second life begin just behind its own.
TEST_F(QpSecondLife, a_read_of_the_first_life_is_not_repeated) {
  QpAttr attr;
  attr.max_rd_atomic = 4;
  auto qps = pair.connect({}, attr);
  const Sge sge = pair.side(0).sge(0, 64);
  ASSERT_EQ(adapter().post_send(*qps[0], {.opcode = SendOpcode::kRdmaRead,
                                          .sges = {&sge, 1},
                                          .remote_addr = pair.side(1).region.addr,
                                          .rkey = pair.side(1).region.rkey}),
            PostResult::kOk);
  pair.run(5);
  const auto requests = pair.pipe.sent_by(0, Opcode::kRdmaReadRequest);
  ASSERT_EQ(requests.size(), 1U);
  const std::vector<std::byte> late = requests[0]->bytes;
  const Psn behind = requests[0]->view.psn.plus(1);
  const auto answers_to_late = [&] {
    pair.pipe.clear_trace();
    pair.pipe.inject(1, late);
    pair.run(5);
    return pair.pipe.sent_by(1, Opcode::kRdmaReadResponse).size();
  };
  EXPECT_EQ(answers_to_late(), 1U) << "in the same life it is a repetition";
  ASSERT_EQ(adapter(1).modify_qp(*qps[1], {.state = QpState::kReset}, kQpAttrState), ModifyResult::kOk);
  pair.bring_up(1, *qps[1], {}, adapter(0).qpn(*qps[0]), Lid(1), Psn(7), behind, attr);
  EXPECT_EQ(answers_to_late(), 0U);
  EXPECT_GE(qps[1]->counters.get(QpCounter::kReadsNotRepeated), 1U);
}

}  // namespace
}  // namespace weft::test
