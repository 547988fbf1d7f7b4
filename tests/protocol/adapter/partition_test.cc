// Partitions: a QP uses the P_Key at its index of the port's table and accepts matching cells only.
#include <algorithm>

#include "tests/support/adapter_pair.h"

namespace weft::test {
using namespace adapter;
namespace {

constexpr uint16_t kFull = 0x8005;
constexpr uint16_t kLimited = 0x0005;
constexpr uint16_t kOther = 0x8006;

class Partition : public ::testing::Test {
 protected:
  ChannelAdapter& adapter(int index = 0) { return *pair.side(index).adapter; }
  /// Puts `first` at index 1 of side 0's table and `second` at index 1 of side 1's; the QPs use index 1.
  void set_tables(uint16_t first, uint16_t second) {
    const std::array<uint16_t, 2> tables[] = {{kPkeyDefault, first}, {kPkeyDefault, second}};
    for (int i = 0; i < 2; ++i) ASSERT_TRUE(adapter(i).ports().set_pkeys(1, tables[i]));
  }
  /// @return true if a message of the service reaches side 1
  bool arrives(QpType type) {
    QpAttr attr;
    attr.pkey_index = 1;
    attr.retry_count = 1;
    attr.ack_timeout = std::chrono::milliseconds(1);
    const auto qps = pair.connect({.type = type}, attr);
    EXPECT_EQ(pair.post_recv(1, *qps[1], 1, {pair.side(1).sge(0, 64)}), PostResult::kOk);
    const Sge sge = pair.side(0).sge(0, 64);
    const Destination dest{.lid = Lid(2), .qpn = adapter(1).qpn(*qps[1]), .qkey = AdapterSides::kQkey};
    EXPECT_EQ(adapter().post_send(*qps[0], {.sges = {&sge, 1}, .dest = dest}), PostResult::kOk);
    pair.side(0).completions.clear();
    pair.side(1).completions.clear();
    pair.run(500);
    const bool came = !pair.side(1).completions.empty();
    const bool is_named =
        type == QpType::kUd || type == QpType::kRd;  // completions of datagrams name the index
    if (came) {
      EXPECT_EQ(pair.side(1).completions.front().pkey_index, is_named ? 1U : 0U);
    }
    if (is_acknowledged(type)) {  // the sender gets a completion
      EXPECT_FALSE(pair.side(0).completions.empty());
      const WcStatus status = pair.side(0).completions.front().status;
      EXPECT_EQ(status, came ? WcStatus::kSuccess : WcStatus::kRetryExceeded);
    }
    for (QueuePair* qp : qps) EXPECT_TRUE(adapter(qp == qps[1] ? 1 : 0).destroy_qp(qp));
    return came;
  }

  AdapterPair pair;
};

TEST_F(Partition, members_talk_unless_both_are_limited) {
  struct Case {
    uint16_t first;
    uint16_t second;
    bool talk;
  };
  for (const Case& one :
       {Case{kFull, kFull, true}, Case{kFull, kLimited, true}, Case{kLimited, kFull, true},
        Case{kLimited, kLimited, false}, Case{kFull, kOther, false}, Case{kPkeyDefault, kFull, false}}) {
    set_tables(one.first, one.second);
    for (const QpType type : {QpType::kRc, QpType::kUc, QpType::kUd, QpType::kRd}) {
      const uint64_t before = adapter(1).counters().get(AdapterCounter::kDropPkey);
      EXPECT_EQ(arrives(type), one.talk) << one.first << " " << one.second << " " << int(type);
      const uint64_t dropped = adapter(1).counters().get(AdapterCounter::kDropPkey) - before;
      EXPECT_EQ(dropped == 0, one.talk);
    }
  }
}

TEST_F(Partition, cells_name_it_and_those_of_the_default_one_have_zeros_there) {
  set_tables(kFull, kFull);
  EXPECT_TRUE(arrives(QpType::kRc));
  for (const TracedCell& cell : pair.pipe.trace()) {  // requests and acknowledgements
    EXPECT_EQ(cell.view.pkey, kFull);
    EXPECT_EQ(cell.bytes[16], std::byte{0x80});
    EXPECT_EQ(cell.bytes[20], std::byte{0x05});
  }
  pair.pipe.clear_trace();
  EXPECT_TRUE(arrives(QpType::kUd));
  ASSERT_EQ(pair.pipe.trace().size(), 1U);
  EXPECT_EQ(pair.pipe.trace()[0].view.pkey, kFull);
  EXPECT_EQ(pair.pipe.trace()[0].bytes[16] | pair.pipe.trace()[0].bytes[20], std::byte{0});
  EXPECT_EQ(load_be<uint16_t>(&pair.pipe.trace()[0].bytes[kCellHeaderBytes + 4]), kFull);
  pair.pipe.clear_trace();
  set_tables(kPkeyDefault, kPkeyDefault);
  EXPECT_TRUE(arrives(QpType::kRc));
  ASSERT_FALSE(pair.pipe.trace().empty());
  for (const TracedCell& cell : pair.pipe.trace()) {
    EXPECT_EQ(cell.view.pkey, kPkeyDefault);
    EXPECT_EQ(cell.bytes[16] | cell.bytes[20], std::byte{0});
  }
}

TEST_F(Partition, an_entry_that_is_not_there_is_refused_and_the_table_may_change) {
  ChannelAdapter& at = adapter();
  const std::array<uint16_t, 3> table{kPkeyDefault, 0x8000, kFull};  // the second entry has no base
  ASSERT_TRUE(at.ports().set_pkeys(1, table));
  EXPECT_EQ(at.ports().find(1)->pkeys()[2], kFull);
  QueuePair* qp = pair.make_qp(0, {});
  QpAttr attr;
  attr.state = QpState::kInit;
  const uint32_t mask =
      adapter::kQpAttrState | adapter::kQpAttrPkeyIndex | adapter::kQpAttrPort | adapter::kQpAttrAccess;
  for (const uint16_t index : {uint16_t{1}, uint16_t{3}, uint16_t{kPkeysPerPort}}) {
    attr.pkey_index = index;
    const bool beyond = index == kPkeysPerPort;
    EXPECT_EQ(at.modify_qp(*qp, attr, mask), beyond ? ModifyResult::kBadValue : ModifyResult::kNoPartition)
        << index;
  }
  attr.pkey_index = 2;
  EXPECT_EQ(at.modify_qp(*qp, attr, mask), ModifyResult::kOk);
  EXPECT_EQ(at.query_qp(*qp).pkey_index, 2);
  EXPECT_FALSE(at.ports().set_pkeys(2, table));
  EXPECT_FALSE(at.ports().set_pkeys(1, {}));
  EXPECT_FALSE(at.ports().set_pkeys(1, std::vector<uint16_t>(kPkeysPerPort + 1, kFull)));
  int changes = 0;
  for (AsyncEvent event; at.next_event(event);) changes += event.kind == AsyncEventKind::kPkeyChange ? 1 : 0;
  EXPECT_EQ(changes, 1);
}

TEST_F(Partition, queue_pairs_follow_their_index_when_the_table_changes) {
  set_tables(kFull, kFull);
  QpAttr attr;
  attr.pkey_index = 1;
  const auto qps = pair.connect({.type = QpType::kUc}, attr);
  const Sge sge = pair.side(0).sge(0, 64);
  const auto send = [&] {
    pair.side(1).completions.clear();
    EXPECT_EQ(pair.post_recv(1, *qps[1], 1, {pair.side(1).sge(0, 64)}), PostResult::kOk);
    EXPECT_EQ(adapter().post_send(*qps[0], {.sges = {&sge, 1}}), PostResult::kOk);
    pair.run(5);
    return pair.side(1).completions.size();
  };
  EXPECT_EQ(send(), 1U);
  set_tables(kOther, kFull);
  EXPECT_EQ(send(), 0U);
  set_tables(kOther, kOther);
  EXPECT_EQ(send(), 1U);
}

TEST_F(Partition, the_management_queue_pair_serves_every_partition_of_its_port) {
  set_tables(kFull, kFull);
  const QpConfig config{.type = QpType::kUd, .wanted_qpn = kQpnGsi};
  QueuePair* gsi = pair.make_qp(1, config);
  pair.bring_up(1, *gsi, config, Qpn(0), Lid(1), Psn(1), Psn(1));
  for (const uint16_t index : {uint16_t{0}, uint16_t{1}}) {
    const QpConfig ud{.type = QpType::kUd};
    QueuePair* qp = pair.make_qp(0, ud);
    QpAttr attr;
    attr.pkey_index = index;
    pair.bring_up(0, *qp, ud, Qpn(0), Lid(2), Psn(1), Psn(1), attr);
    ASSERT_EQ(pair.post_recv(1, *gsi, index, {pair.side(1).sge(0, 64)}), PostResult::kOk);
    const Sge sge = pair.side(0).sge(0, 32);
    const Destination dest{.lid = Lid(2), .qpn = kQpnGsi, .qkey = AdapterSides::kQkey};
    ASSERT_EQ(adapter().post_send(*qp, {.sges = {&sge, 1}, .dest = dest}), PostResult::kOk);
    pair.run(5);
    ASSERT_EQ(pair.side(1).completions.size(), 1U + index);
    EXPECT_EQ(pair.side(1).completions.back().pkey_index, index);
  }
}

}  // namespace
}  // namespace weft::test
