// An adapter with two ports: each has an address and a management queue pair of its own, and a QP belongs to
// the port it was given.
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>

#include "adapter/bring_up.h"
#include "adapter/limits.h"
#include "base/stats_page.h"
#include "messages/cell.h"
#include "tests/support/adapter_pair.h"
#include "tests/support/temp_dir.h"

namespace weft::test {
using namespace adapter;
namespace {

using namespace std::chrono_literals;

/// `near` has ports 1 (LID 1) and 2 (LID 3); their far ends are LIDs 2 and 4 of nobody.
class TwoPorts : public ::testing::Test {
 protected:
  TwoPorts() {
    page = std::move(StatsPage::create(dir.path() + "/page").value());
    near.ports().attach(first.end(0));
    EXPECT_TRUE(near.publish(*page, "adapter"));  // the second port comes later
    near.ports().attach(second.end(0));
    near.poll(clock.now());
    pd = near.alloc_pd().value();
    cq = near.cqs().create(64).value();
    region = near.memory().regions.reg_mr(pd, memory, Access::kLocalWrite | Access::kRemoteRead).value();
  }
  QueuePair* make_qp(QpConfig config = {}) {
    config.pd = pd;
    config.send_cq = config.recv_cq = cq;
    return near.create_qp(config).value();
  }
  [[nodiscard]] Sge sge(uint32_t offset, uint32_t bytes) const {
    return {region.addr + offset, bytes, region.lkey};
  }
  void run(int turns) {
    for (int i = 0; i < turns; ++i) {
      near.poll(clock.now());
      clock.advance(100us);
      std::array<WorkCompletion, 8> some;
      const uint32_t count = near.cqs().poll(*cq, some);
      completions.insert(completions.end(), some.begin(), some.begin() + count);
    }
  }
  /// By SQD; the QP is in RTS before and afterwards.
  void move_to_second_port(QueuePair& qp) {
    QpAttr attr{.state = QpState::kSqd, .port = 2, .dlid = Lid(4)};
    ASSERT_EQ(near.modify_qp(qp, attr, kQpAttrState), ModifyResult::kOk);
    ASSERT_EQ(near.modify_qp(qp, attr, kQpAttrState | kQpAttrPort | kQpAttrAddress), ModifyResult::kOk);
    attr.state = QpState::kRts;
    ASSERT_EQ(near.modify_qp(qp, attr, kQpAttrState), ModifyResult::kOk);
  }

  ManualClock clock;
  Pipe first{256, Lid(1), Lid(2)};
  Pipe second{256, Lid(3), Lid(4)};
  SeededRandom random{5};
  std::vector<std::byte> memory = std::vector<std::byte>(8192);
  TempDir dir;
  std::optional<StatsPage> page;  // outlives the adapter
  ChannelAdapter near{{.guid = Guid(9)}, random};
  PdId pd;
  CompletionQueue* cq = nullptr;
  MemoryRegion region;
  std::vector<WorkCompletion> completions;
};

/// SAN-QP-03 holds for every port.
TEST_F(TwoPorts, two_queue_pairs_of_one_port_talk_without_a_link_whichever_port_it_is) {
  for (const uint8_t port : {uint8_t{1}, uint8_t{2}}) {
    completions.clear();
    QueuePair* a = make_qp();
    QueuePair* b = make_qp();
    for (auto [from, to] : {std::pair{a, b}, std::pair{b, a}}) {
      const Lid own = near.ports().info(port)->lid;
      ASSERT_EQ(
          bring_up(near, *from,
                   {.access = Access::kRemoteRead, .port = port, .dlid = own, .dest_qpn = near.qpn(*to)}),
          ModifyResult::kOk);
    }
    memory[0] = std::byte{port};
    const Sge from = sge(0, 64);
    const Sge to = sge(4096, 64);
    const Sge sink = sge(6000, 64);
    ASSERT_EQ(near.post_recv(*b, {.wr_id = 1, .sges = {&to, 1}}), PostResult::kOk);
    ASSERT_EQ(near.post_send(*a, {.wr_id = 2, .sges = {&from, 1}}), PostResult::kOk);
    ASSERT_EQ(near.post_send(*a, {.wr_id = 3,
                                  .opcode = SendOpcode::kRdmaRead,
                                  .sges = {&sink, 1},
                                  .remote_addr = region.addr,
                                  .rkey = region.rkey}),
              PostResult::kOk);
    run(50);
    ASSERT_EQ(completions.size(), 3U) << "port " << int{port};
    for (const WorkCompletion& done : completions) EXPECT_EQ(done.status, WcStatus::kSuccess);
    EXPECT_EQ(memory[4096], std::byte{port});
    EXPECT_EQ(memory[6000], std::byte{port});
    EXPECT_TRUE(first.trace().empty());
    EXPECT_TRUE(second.trace().empty());
  }
}

TEST_F(TwoPorts, each_port_has_a_queue_pair_1_of_its_own) {
  const QpConfig config{.type = QpType::kUd, .wanted_qpn = kQpnGsi, .port = 1};
  QueuePair* one = make_qp(config);
  QpConfig other = config;
  other.port = 2;
  QueuePair* two = make_qp(other);
  ASSERT_NE(one, two);
  EXPECT_EQ(near.qpn(*one), kQpnGsi);
  EXPECT_EQ(near.qpn(*two), kQpnGsi);
  other.pd = pd;
  other.send_cq = other.recv_cq = cq;
  EXPECT_FALSE(near.create_qp(other).ok()) << "there is one already";
  other.port = 3;
  EXPECT_FALSE(near.create_qp(other).ok()) << "no such port";

  EXPECT_EQ(bring_up(near, *one, {.port = 2, .qkey = 7}), ModifyResult::kBoundToPort) << "it is port 1's";
  ASSERT_EQ(bring_up(near, *one, {.port = 1, .qkey = 7}), ModifyResult::kOk);
  ASSERT_EQ(bring_up(near, *two, {.port = 2, .qkey = 7}), ModifyResult::kOk);
  const Sge into = sge(0, 64);
  ASSERT_EQ(near.post_recv(*one, {.wr_id = 1, .sges = {&into, 1}}), PostResult::kOk);
  ASSERT_EQ(near.post_recv(*two, {.wr_id = 2, .sges = {&into, 1}}), PostResult::kOk);

  SeededRandom seed(6);
  ChannelAdapter far({.guid = Guid(10)}, seed);
  far.ports().attach(first.end(1));
  far.ports().attach(second.end(1));
  far.poll(clock.now());
  const PdId far_pd = far.alloc_pd().value();
  CompletionQueue* far_cq = far.cqs().create(8).value();
  std::vector<std::byte> bytes(64);
  const MemoryRegion lent = far.memory().regions.reg_mr(far_pd, bytes, Access::kNone).value();
  const Sge data{lent.addr, 64, lent.lkey};
  for (const uint8_t port : {uint8_t{2}, uint8_t{1}}) {
    completions.clear();
    QueuePair* qp =
        far.create_qp({.type = QpType::kUd, .pd = far_pd, .send_cq = far_cq, .recv_cq = far_cq}).value();
    ASSERT_EQ(bring_up(far, *qp, {.port = port, .qkey = 7}), ModifyResult::kOk);
    const Destination to{.lid = near.ports().info(port)->lid, .qpn = kQpnGsi, .qkey = 7};
    ASSERT_EQ(far.post_send(*qp, {.sges = {&data, 1}, .dest = to}), PostResult::kOk);
    far.poll(clock.now());
    run(3);
    ASSERT_EQ(completions.size(), 1U) << "port " << int{port};
    EXPECT_EQ(completions[0].wr_id, port);
  }
  EXPECT_TRUE(near.destroy_qp(two).ok());
  EXPECT_TRUE(near.create_qp([&] {
                    other.port = 2;
                    return other;
                  }())
                  .ok())
      << "the number is free again";
}

/// What was posted before the port's link was up for the first time leaves with it.
TEST(FirstLink, finds_what_was_posted_before) {
  ManualClock clock;
  Pipe pipe;
  pipe.set_up(false);
  SeededRandom random(5);
  std::vector<std::byte> memory(4096);
  ChannelAdapter adapter({.guid = Guid(9)}, random);
  adapter.ports().attach(pipe.end(0));
  const PdId pd = adapter.alloc_pd().value();
  CompletionQueue* cq = adapter.cqs().create(64).value();
  const MemoryRegion region = adapter.memory().regions.reg_mr(pd, memory, Access::kNone).value();
  for (const QpType type : {QpType::kRc, QpType::kUc, QpType::kUd, QpType::kRd}) {
    QueuePair* qp = adapter.create_qp({.type = type, .pd = pd, .send_cq = cq, .recv_cq = cq}).value();
    ASSERT_EQ(bring_up(adapter, *qp, {.qkey = 7, .dlid = Lid(2), .dest_qpn = Qpn(0x222)}), ModifyResult::kOk);
    const Sge data{region.addr, 64, region.lkey};
    const Destination dest{.lid = Lid(2), .qpn = Qpn(0x222), .qkey = 7};
    ASSERT_EQ(adapter.post_send(*qp, {.sges = {&data, 1}, .dest = dest}), PostResult::kOk);
  }
  for (int turn = 0; turn < 5; ++turn) adapter.poll(clock.now());
  pipe.set_up(true);
  for (int turn = 0; turn < 5; ++turn) adapter.poll(clock.now());
  EXPECT_EQ(pipe.sent_by(0).size(), 4U);
}

TEST_F(TwoPorts, a_queue_pair_takes_nothing_that_comes_in_by_another_port) {
  const QpConfig config{.type = QpType::kUd};
  QueuePair* qp = make_qp(config);
  ASSERT_EQ(bring_up(near, *qp, {.port = 1, .qkey = 7}), ModifyResult::kOk);
  const Sge into = sge(0, 64);
  ASSERT_EQ(near.post_recv(*qp, {.wr_id = 1, .sges = {&into, 1}}), PostResult::kOk);
  SeededRandom seed(6);
  ChannelAdapter far({.guid = Guid(10)}, seed);
  far.ports().attach(second.end(1));
  far.poll(clock.now());
  const PdId far_pd = far.alloc_pd().value();
  CompletionQueue* far_cq = far.cqs().create(8).value();
  std::vector<std::byte> bytes(64);
  const MemoryRegion lent = far.memory().regions.reg_mr(far_pd, bytes, Access::kNone).value();
  const Sge data{lent.addr, 64, lent.lkey};
  QueuePair* from =
      far.create_qp({.type = QpType::kUd, .pd = far_pd, .send_cq = far_cq, .recv_cq = far_cq}).value();
  ASSERT_EQ(bring_up(far, *from, {.qkey = 7}), ModifyResult::kOk);
  ASSERT_EQ(
      far.post_send(*from, {.sges = {&data, 1}, .dest = {.lid = Lid(3), .qpn = near.qpn(*qp), .qkey = 7}}),
      PostResult::kOk);
  far.poll(clock.now());
  run(3);
  EXPECT_TRUE(completions.empty()) << "addressed to port 2's LID and port 1's QP";
  EXPECT_EQ(near.counters().get(AdapterCounter::kDropOtherLid), 1U);
}

/// Also on the stats page, and the adapter has none of them.
TEST_F(TwoPorts, each_port_counts_what_passes_it) {
  SeededRandom seed(6);
  ChannelAdapter far({.guid = Guid(10)}, seed);
  for (Pipe* pipe : {&first, &second}) far.ports().attach(pipe->end(1));
  far.poll(clock.now());
  QueuePair* from = make_qp();
  const PdId far_pd = far.alloc_pd().value();
  CompletionQueue* far_cq = far.cqs().create(8).value();
  QueuePair* to = far.create_qp({.pd = far_pd, .send_cq = far_cq, .recv_cq = far_cq}).value();
  ASSERT_EQ(bring_up(near, *from, {.port = 2, .dlid = Lid(4), .dest_qpn = far.qpn(*to)}), ModifyResult::kOk);
  ASSERT_EQ(
      bring_up(far, *to,
               {.access = Access::kRemoteWrite, .port = 2, .dlid = Lid(3), .dest_qpn = near.qpn(*from)}),
      ModifyResult::kOk);
  std::vector<std::byte> bytes(1024);
  const MemoryRegion lent =
      far.memory().regions.reg_mr(far_pd, bytes, Access::kLocalWrite | Access::kRemoteWrite).value();
  const Sge data = sge(0, 1000);
  ASSERT_EQ(near.post_send(*from, {.opcode = SendOpcode::kRdmaWrite,
                                   .sges = {&data, 1},
                                   .remote_addr = lent.addr,
                                   .rkey = lent.rkey}),
            PostResult::kOk);
  for (int i = 0; i < 5; ++i) {
    run(1);
    far.poll(clock.now());
  }
  ASSERT_EQ(completions.size(), 1U);
  first.inject_as_is(0, std::vector<std::byte>(64));
  run(1);
  first.set_up(false);
  run(1);
  using Counter = AdapterPortCounter;
  const auto wire = [](const Pipe& pipe, int side) {
    uint64_t all = 0;
    for (const TracedCell* cell : pipe.sent_by(side)) all += cell->bytes.size();
    return all;
  };
  const CounterSet<Counter>& idle = near.ports().find(1)->counters;
  const CounterSet<Counter>& used = near.ports().find(2)->counters;
  EXPECT_EQ(used.get(Counter::kCellsSent), second.sent_by(0).size());
  EXPECT_EQ(used.get(Counter::kBytesSent), wire(second, 0));
  EXPECT_EQ(used.get(Counter::kCellsReceived), second.sent_by(1).size());
  EXPECT_EQ(used.get(Counter::kBytesReceived), wire(second, 1));
  EXPECT_GT(used.get(Counter::kCellsReceived), 0U);
  EXPECT_EQ(used.get(Counter::kBadCells) + used.get(Counter::kDowns), 0U);
  EXPECT_EQ(idle.get(Counter::kCellsSent) + idle.get(Counter::kBytesSent), 0U);
  EXPECT_EQ(idle.get(Counter::kBadCells), 1U);
  EXPECT_EQ(idle.get(Counter::kDowns), 1U);
  EXPECT_EQ(far.ports().find(1)->counters.get(Counter::kCellsReceived), 0U);
  EXPECT_EQ(far.ports().find(2)->counters.get(Counter::kBytesReceived), wire(second, 0));
  const auto entries = read_stats_page(dir.path() + "/page").value();
  const std::map<std::string, uint64_t> shown(entries.begin(), entries.end());
  EXPECT_EQ(shown.at("adapter.port.1.cells_sent"), 0U);
  EXPECT_EQ(shown.at("adapter.port.2.cells_sent"), second.sent_by(0).size());
  EXPECT_EQ(shown.count("adapter.cells_sent"), 0U);
}

TEST_F(TwoPorts, a_queue_pair_moved_to_another_port_sends_there) {
  QueuePair* qp = make_qp();
  ASSERT_EQ(bring_up(near, *qp, {.dlid = Lid(2), .dest_qpn = Qpn(0x222)}), ModifyResult::kOk);
  ASSERT_NO_FATAL_FAILURE(move_to_second_port(*qp));
  const Sge data = sge(0, 64);
  ASSERT_EQ(near.post_send(*qp, {.sges = {&data, 1}}), PostResult::kOk);
  run(2);
  EXPECT_TRUE(first.trace().empty());
  ASSERT_EQ(second.sent_by(0).size(), 1U);
  EXPECT_EQ(second.sent_by(0)[0]->view.slid, Lid(3));
  EXPECT_EQ(second.sent_by(0)[0]->view.dlid, Lid(4));
}

/// Its first life ends while it waits for credit of a port that gets none.
TEST_F(TwoPorts, a_queue_pair_reset_while_it_waits_for_credit_sends_by_the_port_of_its_next_life) {
  QueuePair* qp = make_qp();
  const Sge data = sge(0, 64);
  const auto live = [&](uint8_t port, Lid dlid) {
    ASSERT_EQ(bring_up(near, *qp, {.port = port, .dlid = dlid, .dest_qpn = Qpn(0x222)}), ModifyResult::kOk);
    ASSERT_EQ(near.post_send(*qp, {.sges = {&data, 1}}), PostResult::kOk);
    run(2);
  };
  first.set_room(0, 0);
  live(1, Lid(2));
  ASSERT_TRUE(first.trace().empty());
  for (const QpState to : {QpState::kErr, QpState::kReset})
    ASSERT_EQ(near.modify_qp(*qp, {.state = to}, kQpAttrState), ModifyResult::kOk);
  live(2, Lid(4));
  EXPECT_EQ(second.sent_by(0, Opcode::kSend).size(), 1U);
}

/// The same for the acknowledgement that it owes.
TEST_F(TwoPorts, a_queue_pair_reset_while_its_ack_waits_for_credit_acknowledges_in_its_next_life) {
  QueuePair* qp = make_qp();
  const auto take = [&](Pipe& pipe, uint8_t port, Lid own, Lid peer) {
    ASSERT_EQ(bring_up(near, *qp, {.port = port, .dlid = peer, .dest_qpn = Qpn(0x222)}), ModifyResult::kOk);
    const Sge data = sge(0, 64);
    ASSERT_EQ(near.post_recv(*qp, {.sges = {&data, 1}}), PostResult::kOk);
    const CellTemplate fixed = make_cell_template({.dest_subnet = SubnetId(1),
                                                   .src_subnet = SubnetId(1),
                                                   .dlid = own,
                                                   .slid = peer,
                                                   .vl = VirtualLane(0),
                                                   .sl = ServiceLevel(0),
                                                   .dest_qpn = near.qpn(*qp),
                                                   .src_qpn = Qpn(0x222)});
    std::vector<std::byte> cell(kCellHeaderBytes + 16 + kCrcBytes);
    (void)compose_cell_header(
        cell.data(), fixed,
        {.opcode = Opcode::kSend, .flags = kCellFirst | kCellLast | kCellAckWanted, .payload_bytes = 16});
    pipe.inject(0, cell);
    run(2);
  };
  first.set_room(0, 0);
  take(first, 1, Lid(1), Lid(2));
  ASSERT_EQ(completions.size(), 1U);
  for (const QpState to : {QpState::kErr, QpState::kReset})
    ASSERT_EQ(near.modify_qp(*qp, {.state = to}, kQpAttrState), ModifyResult::kOk);
  take(second, 2, Lid(3), Lid(4));
  ASSERT_EQ(completions.size(), 2U);
  EXPECT_EQ(second.sent_by(0, Opcode::kAck).size(), 1U);
}

/// Its requests fail there like those of a queue pair that was there when the port went down.
TEST_F(TwoPorts, a_queue_pair_moved_to_an_expired_port_fails_when_that_expires_again) {
  QueuePair* qp = make_qp();
  ASSERT_EQ(bring_up(near, *qp, {.dlid = Lid(2), .dest_qpn = Qpn(0x222)}), ModifyResult::kOk);
  second.set_up(false);
  for (int i = 0; i < 2; ++i, clock.advance(kPortDownLimit)) run(1);
  ASSERT_EQ(near.query_qp(*qp).state, QpState::kRts);
  ASSERT_NO_FATAL_FAILURE(move_to_second_port(*qp));
  const Sge data = sge(0, 64);
  ASSERT_EQ(near.post_send(*qp, {.sges = {&data, 1}}), PostResult::kOk);
  run(2);
  EXPECT_TRUE(completions.empty());
  clock.advance(kPortDownLimit);
  run(2);
  EXPECT_EQ(near.query_qp(*qp).state, QpState::kErr);
  EXPECT_EQ(completions.size(), 1U);
}

}  // namespace
}  // namespace weft::test
