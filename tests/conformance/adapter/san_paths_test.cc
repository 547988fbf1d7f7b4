// SAN-XPORT and SAN-STRIPE over several paths, and reliable datagrams to several nodes: properties that do
// not
// depend on the path of a cell.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/endian.h"
#include "tests/support/adapter_paths.h"
#include "tests/support/adapter_star.h"
#include "tests/support/requirement.h"

namespace weft::test {
using namespace adapter;
namespace {

using namespace std::chrono_literals;

SendRequest request(SendOpcode opcode, const Sge& sge, const PairSide& far, uint64_t at) {
  return {.opcode = opcode, .sges = {&sge, 1}, .remote_addr = far.region.addr + at, .rkey = far.region.rkey};
}

TEST(SanPaths, SAN_XPORT_09_acknowledgements_take_another_way_than_what_they_answer) {
  covers("SAN-XPORT-09");
  AdapterPaths paths({.out = {{{0}, {1}}}});
  const auto qps = paths.connect({});
  PairSide& near = paths.side(0);
  PairSide& far = paths.side(1);
  paths.set_cell_faults({.drop_ppm = 50'000});
  near.fill(0, 20'000, 3);
  far.fill(60'000, 5'000, 9);
  ASSERT_EQ(paths.post_recv(1, *qps[1], 7, {far.sge(0, 20'000)}), PostResult::kOk);
  const Sge data = near.sge(0, 20'000);
  const Sge sink = near.sge(40'000, 5'000);
  ASSERT_EQ(near.adapter->post_send(*qps[0], request(SendOpcode::kSend, data, far, 0)), PostResult::kOk);
  ASSERT_EQ(near.adapter->post_send(*qps[0], request(SendOpcode::kRdmaWrite, data, far, 30'000)),
            PostResult::kOk);
  ASSERT_EQ(near.adapter->post_send(*qps[0], request(SendOpcode::kRdmaRead, sink, far, 60'000)),
            PostResult::kOk);
  paths.run(50'000);
  ASSERT_EQ(near.completions.size(), 3U);
  for (const WorkCompletion& done : near.completions) EXPECT_EQ(done.status, WcStatus::kSuccess);
  EXPECT_EQ(far.bytes_at(0, 20'000), near.bytes_at(0, 20'000));
  EXPECT_EQ(far.bytes_at(30'000, 20'000), near.bytes_at(0, 20'000));
  EXPECT_EQ(near.bytes_at(40'000, 5'000), far.bytes_at(60'000, 5'000));
  // The write is refused for its key; the NAK takes the other path too.
  SendRequest bad = request(SendOpcode::kRdmaWrite, data, far, 0);
  bad.rkey = Rkey(far.region.rkey.value() ^ 0x100);
  paths.set_cell_faults({});
  const uint64_t answers = paths.cells(1, 1);
  const uint64_t naks = far.adapter->counters(*qps[1]).get(QpCounter::kNaksSent);
  ASSERT_EQ(near.adapter->post_send(*qps[0], bad), PostResult::kOk);
  paths.run(50'000);
  EXPECT_EQ(far.adapter->counters(*qps[1]).get(QpCounter::kNaksSent), naks + 1);
  EXPECT_GT(paths.cells(1, 1), answers);
  ASSERT_EQ(near.completions.size(), 4U);
  EXPECT_EQ(near.completions[3].status, WcStatus::kRemoteAccess);
  EXPECT_GT(paths.cells(0, 0), 100U);
  EXPECT_EQ(paths.cells(0, 1), 0U) << "no answer took the way of the requests";
  EXPECT_GT(paths.cells(1, 1), 10U);
  EXPECT_EQ(paths.cells(1, 0), 0U);
}

/// Two adapters with two ports each: one switch joins the first ports, another switch the second ports.
class TwoSwitchesApart : public AdapterSides {
 public:
  TwoSwitchesApart() {
    for (uint64_t i = 0; i < 2; ++i) {
      TestFabricConfig path;
      path.switching = small_switch();
      path.switching.link.cell_payload_bytes = 256;
      path.seed = i + 1;
      fabrics.push_back(std::make_unique<TestFabric>(path));
    }
    for (const int end : {0, 1}) {
      add_side(fabrics[0]->lend(static_cast<uint32_t>(end)));
      side(end).adapter->ports().attach(fabrics[1]->lend(static_cast<uint32_t>(end)));
    }
    run(2);
  }
  ~TwoSwitchesApart() override { remove_sides(); }

  /// Connects both QPs over the first switch up to RTS, with the second switch as alternate path.
  std::array<QueuePair*, 2> connect_with_alternate() {
    const std::array<QueuePair*, 2> qps{make_qp(0, {}), make_qp(1, {})};
    for (const int i : {0, 1}) {
      const Lid peer(static_cast<uint16_t>(2 - i));
      QpAttr attr{.dlid = peer, .dest_qpn = side(1 - i).adapter->qpn(*qps[static_cast<size_t>(1 - i)])};
      attr.alt = {.dlid = peer, .port = 2};
      attr.path_mig_state = PathMigState::kRearm;
      QpState from = QpState::kReset;
      for (const QpState to : {QpState::kInit, QpState::kRtr, QpState::kRts}) {
        uint32_t mask = kQpAttrState | find_qp_rule(QpType::kRc, from, to)->required;
        if (to == QpState::kRtr) mask |= kQpAttrAltPath;
        if (to == QpState::kRts) mask |= kQpAttrPathMigState;
        attr.state = from = to;
        EXPECT_EQ(side(i).adapter->modify_qp(*qps[static_cast<size_t>(i)], attr, mask), ModifyResult::kOk);
      }
    }
    return qps;
  }

  std::vector<std::unique_ptr<TestFabric>> fabrics;
  bool first_is_dead = false;  // the first switch forwards nothing

 private:
  [[nodiscard]] Instant now() const override { return fabrics[1]->clock.now(); }
  void pass(Duration step) override {
    if (first_is_dead) {
      fabrics[0]->clock.advance(step);
    } else {
      fabrics[0]->step(step);
    }
    fabrics[1]->step(step);
  }
};

/// Either the switch dies and takes both links along, or only the far link fails.
TEST(SanPaths, SAN_XPORT_05_no_request_fails_when_the_switch_or_a_link_of_one_path_dies) {
  for (const uint32_t first_cut : {0U, 1U}) {
    TwoSwitchesApart paths;
    const auto qps = paths.connect_with_alternate();
    PairSide& near = paths.side(0);
    PairSide& far = paths.side(1);
    constexpr uint32_t kMessages = 60;
    near.fill(0, 3000, 3);
    uint64_t posted = 0;
    bool cut = false;
    for (int turn = 0; turn < 20'000 && near.completions.size() < kMessages; ++turn) {
      while (posted < kMessages && posted < near.completions.size() + 8) {
        ASSERT_EQ(paths.post_recv(1, *qps[1], posted, {far.sge(100'000, 3000)}), PostResult::kOk);
        const Sge data = near.sge(0, 3000);
        ASSERT_EQ(near.adapter->post_send(*qps[0], {.wr_id = posted, .sges = {&data, 1}}), PostResult::kOk);
        ++posted;
      }
      if (near.completions.size() >= kMessages / 3 && !cut) {
        ASSERT_EQ(near.adapter->query_qp(*qps[0]).path_mig_state, PathMigState::kArmed);
        cut = true;
        paths.first_is_dead = first_cut == 0;
        for (uint32_t node = first_cut; node < 2; ++node) paths.fabrics[0]->cable(node).unplug();
      }
      paths.run(1, 100us);
    }
    covers("SAN-XPORT-05");
    EXPECT_TRUE(cut);
    ASSERT_EQ(near.completions.size(), kMessages);
    ASSERT_EQ(far.completions.size(), kMessages);
    for (uint64_t i = 0; i < kMessages; ++i) {
      EXPECT_EQ(near.completions[i].status, WcStatus::kSuccess);
      EXPECT_EQ(near.completions[i].wr_id, i);
      EXPECT_EQ(far.completions[i].status, WcStatus::kSuccess);
      EXPECT_EQ(far.completions[i].wr_id, i) << "each once, in order";
    }
    EXPECT_EQ(far.bytes_at(100'000, 3000), near.bytes_at(0, 3000));
    EXPECT_GT(paths.fabrics[1]->count(1, fabric::SwitchPortCounter::kCellsIn), 3000U / 256 * kMessages / 3);
  }
}

/// Two adapters in one host: each queue pair's requests leave through its own adapter. The other adapter
/// sends
/// only what the program posts on its queue pairs.
TEST(SanPaths, SAN_STRIPE_04_the_traffic_of_a_queue_pair_never_leaves_its_adapter) {
  covers("SAN-STRIPE-04");
  TestFabricConfig config;
  config.switching = small_switch();
  config.nodes = 3;
  config.switching.link.cell_payload_bytes = 256;
  AdapterStar star(config);  // the host has sides 0 and 1; side 2 is the peer
  const auto cells_of = [&star](int adapter) {
    return star.fabric.count(static_cast<uint32_t>(adapter) + 1, fabric::SwitchPortCounter::kCellsIn);
  };
  for (const int own : {0, 1}) {
    const auto qps = star.connect({}, {}, own, 2);
    const std::array<uint64_t, 2> before{cells_of(own), cells_of(1 - own)};
    const uint32_t at = static_cast<uint32_t>(own) * 10'000;
    star.side(own).fill(0, 5000, static_cast<uint8_t>(own + 1));
    ASSERT_EQ(star.post_recv(2, *qps[1], 7, {star.side(2).sge(at, 5000)}), PostResult::kOk);
    const Sge data = star.side(own).sge(0, 5000);
    ASSERT_EQ(star.side(own).adapter->post_send(*qps[0], {.sges = {&data, 1}}), PostResult::kOk);
    star.run(200);
    EXPECT_GE(cells_of(own) - before[0], 5000U / 256);
    EXPECT_EQ(cells_of(1 - own), before[1]) << "the other adapter is idle";
    EXPECT_EQ(star.side(2).bytes_at(at, 5000), star.side(own).bytes_at(0, 5000));
  }
}

/// All paths are held up, and then let go one after the other in `order`: all cells of one path arrive before
/// the first cell of the next.
void expect_right_in_any_order(const QpConfig& config, SendOpcode opcode,
                               const std::array<size_t, 3>& order) {
  AdapterPaths paths({.out = {{{0, 1, 2}, {0, 1, 2}}}, .paths = 3});
  const auto qps = paths.connect(config);
  PairSide& near = paths.side(0);
  PairSide& far = paths.side(1);
  const bool reads = opcode == SendOpcode::kRdmaRead;
  PairSide& source = reads ? far : near;
  PairSide& target = reads ? near : far;
  source.fill(0, 15'000, 3);
  ASSERT_EQ(paths.post_recv(1, *qps[1], 7, {far.sge(100'000, 15'000)}), PostResult::kOk);
  const uint32_t sink = opcode == SendOpcode::kSend || reads ? 100'000 : 50'000;
  const Sge data = near.sge(reads ? sink : 0, 15'000);
  PathsPort& port = paths.port(reads ? 0 : 1);
  ASSERT_EQ(near.adapter->post_send(*qps[0], request(opcode, data, far, reads ? 0 : sink)), PostResult::kOk);
  if (reads) paths.run_one(0);  // the request leaves; what answers it is held up
  for (size_t path = 0; path < 3; ++path) port.hold(path, true);
  paths.run(4);
  for (const size_t path : order) {
    EXPECT_TRUE(target.completions.empty()) << "path " << path << " has not delivered";
    port.hold(path, false);
    paths.run(4);
  }
  paths.run(20'000);
  const bool received = !reads && opcode != SendOpcode::kRdmaWrite;
  ASSERT_EQ(near.completions.size(), 1U);
  EXPECT_EQ(near.completions[0].status, WcStatus::kSuccess);
  ASSERT_EQ(far.completions.size(), received ? 1U : 0U);
  if (received) {
    EXPECT_EQ(far.completions[0].byte_count, 15'000U);
  }
  EXPECT_EQ(target.bytes_at(sink, 15'000), source.bytes_at(0, 15'000));
  std::vector<std::byte> outside = target.memory;
  std::fill_n(outside.begin() + sink, 15'000, std::byte{0});
  EXPECT_TRUE(outside == std::vector<std::byte>(outside.size())) << "nothing beside the data is written";
  for (size_t path = 0; path < 3; ++path)
    EXPECT_GE(paths.cells(path, reads ? 1 : 0), 15'000U / 256 / 3) << path;
}

TEST(SanPaths, SAN_STRIPE_02_the_data_is_right_in_whatever_order_the_paths_deliver) {
  covers("SAN-STRIPE-02");
  std::array<size_t, 3> order{0, 1, 2};
  do {
    for (const SendOpcode opcode :
         {SendOpcode::kSend, SendOpcode::kRdmaWrite, SendOpcode::kRdmaWriteWithImm, SendOpcode::kRdmaRead}) {
      SCOPED_TRACE(::testing::Message()
                   << static_cast<int>(opcode) << " by paths " << order[0] << order[1] << order[2]);
      expect_right_in_any_order({}, opcode, order);
    }
  } while (std::next_permutation(order.begin(), order.end()));
}

/// Sends `count` numbered messages of `bytes` bytes from side 0; side 1 posts its receive WQEs late. Both
/// sides
/// see each message once, in the order of posting, with its own data.
void expect_in_order(AdapterSides& sides, std::array<QueuePair*, 2> qps, uint32_t count, uint32_t bytes,
                     const Destination& dest = {}) {
  constexpr uint32_t kSlots = 64;
  constexpr uint32_t kSlotBytes = 1024;
  PairSide& near = sides.side(0);
  PairSide& far = sides.side(1);
  const auto first_byte = [](uint64_t number) { return static_cast<uint8_t>(number * 13 + (number >> 8)); };
  uint32_t posted = 0;
  uint32_t lent = 0;
  uint32_t seen = 0;
  uint32_t done = 0;
  uint32_t starved = 0;
  for (uint32_t idle = 0; (seen < count || done < count) && idle < 20'000; ++idle) {
    while (posted < count && posted < done + kSlots / 2) {
      const uint32_t at = posted % kSlots * kSlotBytes;
      near.fill(at, bytes, first_byte(posted));
      const Sge sge = near.sge(at, bytes);
      ASSERT_EQ(near.adapter->post_send(*qps[0], {.wr_id = posted, .sges = {&sge, 1}, .dest = dest}),
                PostResult::kOk);
      ++posted;
    }
    sides.run(1, 20us);
    for (const WorkCompletion& completion : near.completions) {
      ASSERT_EQ(completion.status, WcStatus::kSuccess);
      ASSERT_EQ(completion.wr_id, done) << "completed in the order of posting";
      ++done;
      idle = 0;
    }
    near.completions.clear();
    for (const WorkCompletion& completion : far.completions) {
      ASSERT_EQ(completion.status, WcStatus::kSuccess);
      ASSERT_EQ(completion.wr_id, seen) << "delivered in the order of posting";
      ASSERT_EQ(completion.byte_count, bytes);
      const uint32_t at = seen % kSlots * kSlotBytes;
      const uint8_t first = first_byte(seen);
      ASSERT_EQ(far.memory[at], static_cast<std::byte>(first)) << seen;
      const uint32_t last = bytes - 1;
      ASSERT_EQ(far.memory[at + last], static_cast<std::byte>(first + last * 7 + (last >> 8))) << seen;
      ++seen;
      idle = 0;
    }
    far.completions.clear();
    // Post a few receive WQEs at a time, three turns after the last one was used.
    starved = lent == seen ? starved + 1 : 0;
    while (starved >= 3 && lent < count && lent < seen + 24) {
      ASSERT_EQ(sides.post_recv(1, *qps[1], lent, {far.sge(lent % kSlots * kSlotBytes, kSlotBytes)}),
                PostResult::kOk);
      ++lent;
    }
  }
  EXPECT_EQ(seen, count);
  EXPECT_EQ(done, count);
}

TEST(SanPaths, SAN_XPORT_17_ten_thousand_messages_arrive_in_order_under_loss_and_striping) {
  covers("SAN-XPORT-17 SAN-XPORT-04");
  AdapterPaths paths({.out = {{{0, 1}, {0, 1}}}});
  const auto qps = paths.connect({});
  paths.set_cell_faults({.drop_ppm = 10'000, .duplicate_ppm = 5'000, .reorder_ppm = 20'000});
  expect_in_order(paths, qps, 10'000, 600);
  EXPECT_GT(paths.cells(0, 0), 10'000U);
  EXPECT_GT(paths.cells(1, 0), 10'000U);
  EXPECT_GT(paths.side(0).adapter->counters(*qps[0]).get(QpCounter::kCellsRepeated), 200U);
}

/// The operations of one QP, mixed: each completes in its turn, whatever it waits for.
TEST(SanPaths, SAN_XPORT_17_operations_of_all_kinds_complete_in_the_order_of_posting) {
  covers("SAN-XPORT-17");
  AdapterPaths paths({.out = {{{0, 1}, {0, 1}}}});
  const auto qps = paths.connect({});
  paths.set_cell_faults({.drop_ppm = 10'000, .duplicate_ppm = 5'000, .reorder_ppm = 20'000});
  PairSide& near = paths.side(0);
  PairSide& far = paths.side(1);
  constexpr std::array kKinds{SendOpcode::kSend, SendOpcode::kRdmaRead, SendOpcode::kRdmaWriteWithImm,
                              SendOpcode::kRdmaWrite};
  constexpr uint32_t kCount = 1000;
  uint32_t posted = 0;
  uint32_t received = 0;
  uint32_t done = 0;
  uint32_t lent = 0;
  for (uint32_t turn = 0; turn < 100'000 && (done < kCount || received < kCount / 2); ++turn) {
    for (; posted < kCount && posted < done + 32; ++posted) {
      const Sge sge = near.sge(0, 500);
      SendRequest work = request(kKinds[posted % kKinds.size()], sge, far, 0);
      work.wr_id = posted;
      work.imm = posted;
      ASSERT_EQ(near.adapter->post_send(*qps[0], work), PostResult::kOk);
    }
    for (; lent < kCount / 2 && lent < received + 16; ++lent)
      ASSERT_EQ(paths.post_recv(1, *qps[1], lent, {far.sge(4096, 500)}), PostResult::kOk);
    paths.run(1, 20us);
    for (const WorkCompletion& completion : near.completions) ASSERT_EQ(completion.wr_id, done++);
    for (const WorkCompletion& completion : far.completions) {
      ASSERT_EQ(completion.wr_id, received);  // message 2 of each 4 has immediate data, message 0 is a Send
      if (received % 2 == 1) {
        ASSERT_EQ(completion.imm, received / 2 * 4 + 2);
      }
      ++received;
    }
    near.completions.clear();
    far.completions.clear();
  }
  EXPECT_EQ(done, kCount);
  EXPECT_EQ(received, kCount / 2);
}

/// Unacknowledged: what is lost or comes out of turn stays lost, and what arrives is in order.
TEST(SanPaths, SAN_XPORT_17_messages_of_uc_arrive_in_order_with_gaps) {
  covers("SAN-XPORT-17");
  AdapterPaths paths({.out = {{{0}, {0}}}});
  const auto qps = paths.connect({.type = QpType::kUc, .send_wqes = 64, .recv_wqes = 64});
  paths.set_cell_faults({.drop_ppm = 10'000, .duplicate_ppm = 5'000, .reorder_ppm = 20'000});
  PairSide& near = paths.side(0);
  PairSide& far = paths.side(1);
  constexpr uint32_t kCount = 10'000;
  uint32_t done = 0;
  uint32_t lent = 0;
  uint32_t arrived = 0;
  int64_t last = -1;
  for (uint32_t posted = 0; posted < kCount; ++posted) {
    store_be(near.memory.data(), posted);
    const Sge sge = near.sge(0, 600);
    for (; lent < arrived + 8; ++lent)
      ASSERT_EQ(paths.post_recv(1, *qps[1], lent, {far.sge(0, 1024)}), PostResult::kOk);
    ASSERT_EQ(near.adapter->post_send(*qps[0], {.wr_id = posted, .sges = {&sge, 1}}), PostResult::kOk);
    paths.run(4, 20us);
    for (const WorkCompletion& completion : near.completions) ASSERT_EQ(completion.wr_id, done++);
    ASSERT_LE(far.completions.size(), 1U);
    for (const WorkCompletion& completion : far.completions) {
      ASSERT_EQ(completion.status, WcStatus::kSuccess);
      const auto number = int64_t{load_be<uint32_t>(far.memory.data())};
      ASSERT_GT(number, last);
      last = number;
      ++arrived;
    }
    near.completions.clear();
    far.completions.clear();
  }
  EXPECT_EQ(done, kCount);
  EXPECT_LT(arrived, kCount) << "some were lost";
  EXPECT_GT(arrived, kCount / 2);
}

TEST(SanPaths, SAN_XPORT_17_ten_thousand_messages_arrive_in_order_between_two_rd_queue_pairs) {
  covers("SAN-XPORT-17 SAN-XPORT-11");
  AdapterPaths paths({.out = {{{0, 1}, {0, 1}}}});
  const QpConfig config{.type = QpType::kRd};
  std::array<QueuePair*, 2> qps{};
  for (int i = 0; i < 2; ++i) {
    qps[static_cast<size_t>(i)] = paths.make_qp(i, config);
    paths.bring_up(i, *qps[static_cast<size_t>(i)], config, Qpn(0), Lid(0), Psn(0), Psn(0));
  }
  paths.set_cell_faults({.drop_ppm = 10'000, .duplicate_ppm = 5'000, .reorder_ppm = 20'000});
  const Destination dest{
      .lid = Lid(2), .qpn = paths.side(1).adapter->qpn(*qps[1]), .qkey = AdapterSides::kQkey};
  expect_in_order(paths, qps, 10'000, 200, dest);
  EXPECT_GT(paths.cells(0, 0), 5'000U);
  EXPECT_GT(paths.cells(1, 0), 5'000U);
}

/// Node 0 exchanges messages with nodes 1 and 2 around one switch.
class RdStar : public ::testing::Test {
 protected:
  RdStar() {
    TestFabricConfig config;
    config.switching = small_switch();
    config.nodes = 3;
    star = std::make_unique<AdapterStar>(config);
  }
  QueuePair* open(int index) {
    const QpConfig config{.type = QpType::kRd};
    QueuePair* qp = star->make_qp(index, config);
    star->bring_up(index, *qp, config, Qpn(0), Lid(0), Psn(0), Psn(0));
    return qp;
  }
  Destination address_of(int index, const QueuePair& qp) {
    return {.lid = Lid(static_cast<uint16_t>(index + 1)),
            .qpn = star->side(index).adapter->qpn(qp),
            .qkey = AdapterSides::kQkey};
  }
  std::unique_ptr<AdapterStar> star;
};

TEST_F(RdStar, SAN_XPORT_10_one_queue_pair_exchanges_with_three_on_two_nodes) {
  covers("SAN-XPORT-10");
  struct Peer {
    int node;
    QueuePair* qp;
  };
  QueuePair* one = open(0);
  const std::array<Peer, 3> peers{{{1, open(1)}, {1, open(1)}, {2, open(2)}}};
  for (uint64_t i = 0; i < peers.size(); ++i) {
    const Peer& peer = peers[i];
    const auto offset = static_cast<uint32_t>(i) * 1024;
    ASSERT_EQ(star->post_recv(peer.node, *peer.qp, i, {star->side(peer.node).sge(offset, 256)}),
              PostResult::kOk);
    ASSERT_EQ(star->post_recv(0, *one, 10 + i, {star->side(0).sge(65'536 + offset, 256)}), PostResult::kOk);
    star->side(0).fill(offset, 200, static_cast<uint8_t>(i + 1));
    const Sge out = star->side(0).sge(offset, 200);
    ASSERT_EQ(
        star->side(0).adapter->post_send(*one, {.sges = {&out, 1}, .dest = address_of(peer.node, *peer.qp)}),
        PostResult::kOk);
    star->side(peer.node).fill(32'768 + offset, 150, static_cast<uint8_t>(i + 101));
    const Sge back = star->side(peer.node).sge(32'768 + offset, 150);
    ASSERT_EQ(
        star->side(peer.node).adapter->post_send(*peer.qp, {.sges = {&back, 1}, .dest = address_of(0, *one)}),
        PostResult::kOk);
  }
  star->run(500);
  std::map<std::pair<uint16_t, uint32_t>, size_t> senders;
  for (const WorkCompletion& done : star->side(0).completions) {
    EXPECT_EQ(done.status, WcStatus::kSuccess);
    if (done.opcode != WcOpcode::kRecv) continue;
    ++senders[{done.src_lid.value(), done.src_qpn.value()}];
    // The completion's source tells which peer's data is in the buffer.
    for (uint64_t i = 0; i < peers.size(); ++i) {
      if (done.src_qpn != star->side(peers[i].node).adapter->qpn(*peers[i].qp) ||
          done.src_lid.value() != peers[i].node + 1)
        continue;
      const auto at = static_cast<uint32_t>(65'536 + (done.wr_id - 10) * 1024);
      EXPECT_EQ(star->side(0).bytes_at(at, 150),
                star->side(peers[i].node).bytes_at(32'768 + static_cast<uint32_t>(i) * 1024, 150));
    }
  }
  EXPECT_EQ(senders.size(), 3U) << "one receive queue takes from all of them";
  EXPECT_EQ(star->side(0).completions.size(), 6U);
  for (uint64_t i = 0; i < peers.size(); ++i) {
    const auto offset = static_cast<uint32_t>(i) * 1024;
    EXPECT_EQ(star->side(peers[i].node).bytes_at(offset, 200), star->side(0).bytes_at(offset, 200)) << i;
  }
}

TEST_F(RdStar, SAN_XPORT_11_loss_repetition_and_late_receivers_stay_unseen) {
  covers("SAN-XPORT-11");
  QueuePair* one = open(0);
  QueuePair* two = open(1);
  for (int side = 0; side < 2; ++side) {
    star->set_cell_faults(side, {.drop_ppm = 50'000, .duplicate_ppm = 20'000, .reorder_ppm = 20'000});
  }
  expect_in_order(*star, {one, two}, 1'000, 200, address_of(1, *two));
  EXPECT_GT(star->side(1).adapter->counters(*two).get(QpCounter::kDuplicateCells), 20U)
      << "what came again was not executed again";
  EXPECT_GT(star->side(0).adapter->counters(*one).get(QpCounter::kRnrNaksReceived), 0U)
      << "receivers were late";
}

}  // namespace
}  // namespace weft::test
