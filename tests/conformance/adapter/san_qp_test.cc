// SAN-QP and SAN-CQ: queue pairs and completion queues as a consumer sees them. This file includes only
// headers
// that a consumer of the verbs may include.
#include <set>

#include "tests/support/adapter_pair.h"
#include "tests/support/requirement.h"

namespace weft::test {
using namespace adapter;
namespace {

class SanQp : public ::testing::Test {
 protected:
  ChannelAdapter& adapter(int index = 0) { return *pair.side(index).adapter; }
  PostResult send(QueuePair& qp, const Sge& sge, uint64_t wr_id = 1) {
    return adapter().post_send(qp, {.wr_id = wr_id, .sges = {&sge, 1}});
  }

  AdapterPair pair;
};

template <class T>
constexpr bool can_be_looked_into = requires {
  sizeof(T);
};
template <class T>
constexpr bool names_a_service = requires(T attributes) {
  attributes.type;
};

TEST_F(SanQp, SAN_QP_01_the_verbs_are_the_only_way_in) {
  covers("SAN-QP-01");
  // A consumer holds references to queues of incomplete type; only the verbs look inside.
  EXPECT_FALSE(can_be_looked_into<QueuePair>);
  EXPECT_FALSE(can_be_looked_into<CompletionQueue>);
  // One QP is both queues; each has as many WQEs as the consumer asked for.
  const auto qps = pair.connect({.send_wqes = 2, .recv_wqes = 3});
  const Sge sge = pair.side(0).sge(0, 64);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(send(*qps[0], sge), PostResult::kOk);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(pair.post_recv(0, *qps[0], 1, {sge}), PostResult::kOk);
  EXPECT_EQ(send(*qps[0], sge), PostResult::kWouldBlock);
  EXPECT_EQ(pair.post_recv(0, *qps[0], 1, {sge}), PostResult::kWouldBlock);
  // The adapter executes the requests when it is polled, not in the post.
  EXPECT_TRUE(pair.pipe.trace().empty());
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(pair.post_recv(1, *qps[1], 7, {pair.side(1).sge(0, 64)}), PostResult::kOk);
  }
  pair.run(20);
  EXPECT_EQ(pair.side(0).completions.size(), 2U);
  EXPECT_EQ(pair.side(1).completions.size(), 2U);
}

TEST_F(SanQp, SAN_QP_02_addresses_are_translated_and_validated_before_memory_is_touched) {
  covers("SAN-QP-02");
  PairSide& side = pair.side(0);
  // Addresses are translated: the consumer's address is not an address of this process.
  const auto mapped = adapter()
                          .memory()
                          .regions.reg_mr(side.pd, side.memory, Access::kLocalWrite, {.base_addr = 0x1000})
                          .value();
  auto qps = pair.connect({});
  side.fill(100, 64, 9);
  ASSERT_EQ(pair.post_recv(1, *qps[1], 7, {pair.side(1).sge(0, 64)}), PostResult::kOk);
  ASSERT_EQ(send(*qps[0], {.addr = 0x1000 + 100, .length = 64, .lkey = mapped.lkey}), PostResult::kOk);
  pair.run(20);
  EXPECT_EQ(pair.side(1).bytes_at(0, 64), side.bytes_at(100, 64));
  // Addresses are validated: page zero and beyond the region. Reading either would crash the test or send
  // cells.
  for (const uint64_t addr : {uint64_t{8}, 0x1000 + mapped.length - 63}) {
    qps = pair.connect({});
    pair.pipe.clear_trace();
    side.completions.clear();
    ASSERT_EQ(send(*qps[0], {.addr = addr, .length = 64, .lkey = mapped.lkey}), PostResult::kOk);
    pair.run(20);
    ASSERT_EQ(side.completions.size(), 1U);
    EXPECT_EQ(side.completions[0].status, WcStatus::kLocalProtection);
    EXPECT_TRUE(pair.pipe.sent_by(0).empty());
  }
}

TEST_F(SanQp, SAN_QP_03_a_qp_belongs_to_one_adapter) {
  covers("SAN-QP-03");
  const auto qps = pair.connect({});
  const Sge own = pair.side(0).sge(0, 64);
  const Sge theirs = pair.side(1).sge(0, 64);
  ChannelAdapter& other = adapter(1);
  EXPECT_EQ(other.post_send(*qps[0], {.wr_id = 1, .sges = {&theirs, 1}}), PostResult::kBadState);
  EXPECT_EQ(other.post_recv(*qps[0], {.wr_id = 1, .sges = {&theirs, 1}}), PostResult::kBadState);
  ASSERT_EQ(adapter().post(*qps[0], SendRequest{.wr_id = 1, .sges = {&own, 1}}), PostResult::kOk);
  other.ring_send(*qps[0]);
  pair.run(5);
  EXPECT_TRUE(pair.pipe.trace().empty()) << "rung by another adapter";
  QpAttr reset;
  reset.state = QpState::kReset;
  EXPECT_EQ(other.modify_qp(*qps[0], reset, adapter::kQpAttrState), ModifyResult::kForeignObject);
  EXPECT_FALSE(other.destroy_qp(qps[0]).ok());
  // The completion queues of one adapter do not serve another one.
  QpConfig shared{.pd = pair.side(1).pd, .send_cq = pair.side(0).cq, .recv_cq = pair.side(1).cq};
  EXPECT_FALSE(other.create_qp(shared).ok());
  std::swap(shared.send_cq, shared.recv_cq);
  EXPECT_FALSE(other.create_qp(shared).ok());
  CompletionQueue* idle = adapter().cqs().create(8).value();
  EXPECT_FALSE(other.cqs().destroy(idle).ok());
  EXPECT_TRUE(adapter().cqs().destroy(idle).ok());
  // The refused calls have changed nothing.
  EXPECT_EQ(adapter().query_qp(*qps[0]).state, QpState::kRts);
  ASSERT_EQ(pair.post_recv(1, *qps[1], 7, {theirs}), PostResult::kOk);
  adapter().ring_send(*qps[0]);
  pair.run(20);
  EXPECT_EQ(pair.side(1).completions.size(), 1U);
}

TEST_F(SanQp, SAN_QP_03_two_qps_of_one_adapter_may_be_connected) {
  covers("SAN-QP-03");
  const QpConfig config{.type = QpType::kRc};
  QueuePair* a = pair.make_qp(0, config);
  QueuePair* b = pair.make_qp(0, config);
  pair.bring_up(0, *a, config, adapter().qpn(*b), Lid(1), Psn(5), Psn(9));
  pair.bring_up(0, *b, config, adapter().qpn(*a), Lid(1), Psn(9), Psn(5));
  pair.side(0).fill(0, 300, 3);
  ASSERT_EQ(pair.post_recv(0, *b, 7, {pair.side(0).sge(8192, 512)}), PostResult::kOk);
  ASSERT_EQ(send(*a, pair.side(0).sge(0, 300)), PostResult::kOk);
  pair.run();
  ASSERT_EQ(pair.side(0).completions.size(), 2U);
  for (const WorkCompletion& done : pair.side(0).completions) EXPECT_EQ(done.status, WcStatus::kSuccess);
  EXPECT_EQ(pair.side(0).bytes_at(8192, 300), pair.side(0).bytes_at(0, 300));
}

TEST_F(SanQp, SAN_QP_04_the_service_is_chosen_at_creation_and_stays) {
  covers("SAN-QP-04");
  EXPECT_TRUE(names_a_service<QpConfig>);
  EXPECT_FALSE(names_a_service<QpAttr>) << "what modify_qp() takes";
  // modify_qp() refuses an attribute of another service in each state.
  QpAttr attr;
  attr.state = QpState::kRtr;
  attr.dlid = Lid(2);
  attr.dest_qpn = Qpn(77);
  const uint32_t bind_to_a_peer = adapter::kQpAttrState | adapter::kQpAttrAddress | adapter::kQpAttrPathMtu |
                                  adapter::kQpAttrDestQpn | adapter::kQpAttrRqPsn;
  for (const QpType type : {QpType::kRc, QpType::kUc, QpType::kRd, QpType::kUd}) {
    QueuePair* qp = pair.make_qp(0, {.type = type});
    QpAttr init;
    init.state = QpState::kInit;
    const uint32_t right = is_connected(type) ? adapter::kQpAttrAccess : adapter::kQpAttrQkey;
    const uint32_t wrong = is_connected(type) ? adapter::kQpAttrQkey : adapter::kQpAttrAccess;
    const uint32_t always = adapter::kQpAttrState | adapter::kQpAttrPkeyIndex | adapter::kQpAttrPort;
    EXPECT_NE(adapter().modify_qp(*qp, init, always | wrong), ModifyResult::kOk);
    ASSERT_EQ(adapter().modify_qp(*qp, init, always | right), ModifyResult::kOk);
    // UC is bound to a peer without acknowledgements. RC needs more attributes; RD and UD are not bound.
    EXPECT_EQ(adapter().modify_qp(*qp, attr, bind_to_a_peer) == ModifyResult::kOk, type == QpType::kUc);
  }
}

TEST_F(SanQp, SAN_QP_05_outstanding_requests_are_limited_as_created) {
  covers("SAN-QP-05");
  pair.pipe.set_filter(
      [](int from, std::vector<std::byte>&) { return from == 1 ? Verdict::kDrop : Verdict::kPass; });
  for (const uint32_t limit : {1U, 5U, 16U}) {
    const auto qps = pair.connect({.send_wqes = limit});
    for (uint32_t i = 0; i < limit; ++i) {
      ASSERT_EQ(pair.post_recv(1, *qps[1], i, {pair.side(1).sge(0, 64)}), PostResult::kOk);
    }
    pair.pipe.clear_trace();
    uint32_t posted = 0;
    for (int turn = 0; turn < 20; ++turn) {
      while (send(*qps[0], pair.side(0).sge(0, 64)) == PostResult::kOk) ++posted;
      pair.run(1);
    }
    EXPECT_EQ(posted, limit);
    std::set<uint32_t> numbers;
    for (const TracedCell* cell : pair.pipe.sent_by(0, Opcode::kSend)) numbers.insert(cell->view.psn.value());
    EXPECT_EQ(numbers.size(), limit) << "all of them are out, none of them is acknowledged";
  }
}

TEST_F(SanQp, SAN_QP_06_thousands_of_qps) {
  covers("SAN-QP-06");
  QpConfig config{.pd = pair.side(0).pd, .send_cq = pair.side(0).cq, .recv_cq = pair.side(0).cq};
  config.send_wqes = config.recv_wqes = config.sges = 1;
  std::set<uint32_t> numbers;
  const uint32_t limit = adapter().limits().queue_pairs;
  ASSERT_GE(limit, 4096U);
  for (uint32_t i = 0; i < limit; ++i) {
    auto qp = adapter().create_qp(config);
    ASSERT_TRUE(qp.ok()) << i << ": " << qp.error().text();
    numbers.insert(adapter().qpn(**qp).value());
  }
  EXPECT_EQ(numbers.size(), limit);
  EXPECT_FALSE(adapter().create_qp(config).ok());
}

TEST_F(SanQp, SAN_CQ_01_one_queue_for_several_qps) {
  covers("SAN-CQ-01");
  CompletionQueue* shared = adapter().cqs().create(8).value();
  const QpConfig config{.send_cq = shared, .recv_cq = shared};
  QueuePair* from[2];
  std::set<uint32_t> numbers;
  for (auto*& qp : from) {
    qp = pair.make_qp(0, config);
    QueuePair* to = pair.make_qp(1, {});
    pair.bring_up(0, *qp, config, adapter(1).qpn(*to), Lid(2), Psn(1), Psn(1));
    pair.bring_up(1, *to, {}, adapter().qpn(*qp), Lid(1), Psn(1), Psn(1));
    numbers.insert(adapter().qpn(*qp).value());
    for (int i = 0; i < 2; ++i) {
      ASSERT_EQ(pair.post_recv(1, *to, 7, {pair.side(1).sge(0, 64)}), PostResult::kOk);
    }
  }
  EXPECT_EQ(adapter().cqs().query(*shared).depth, 8U);
  EXPECT_EQ(adapter().cqs().query(*shared).fill, 0U);
  for (uint64_t i = 0; i < 4; ++i) ASSERT_EQ(send(*from[i % 2], pair.side(0).sge(0, 64), i), PostResult::kOk);
  pair.run(20);
  EXPECT_EQ(adapter().cqs().query(*shared).fill, 4U);
  std::array<WorkCompletion, 3> got;
  ASSERT_EQ(adapter().cqs().poll(*shared, got), 3U);
  EXPECT_EQ(adapter().cqs().query(*shared).fill, 1U);
  std::set<uint32_t> seen;
  for (const WorkCompletion& done : got) seen.insert(done.qpn.value());
  EXPECT_EQ(seen, numbers);
  EXPECT_FALSE(adapter().cqs().destroy(shared).ok()) << "QPs complete there";
}

}  // namespace
}  // namespace weft::test
