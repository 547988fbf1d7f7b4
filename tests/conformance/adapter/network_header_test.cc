// SAN-FRAME-03: a cell has the local network header inside a subnet and the global one beyond it.
#include "base/crc32c.h"
#include "tests/support/adapter_pair.h"
#include "tests/support/requirement.h"

namespace weft::test {
using namespace adapter;
namespace {

class NetworkHeader : public ::testing::Test {
 protected:
  /// Connects the sides by RC and tells each that the other's Gid is in `subnet`; both ports report subnet 1.
  std::array<QueuePair*, 2> connect(SubnetId subnet) {
    const QpConfig config{.type = QpType::kRc, .packet_crc = true};
    const std::array<QueuePair*, 2> qps{pair.make_qp(0, config), pair.make_qp(1, config)};
    for (int i = 0; i < 2; ++i) {
      const size_t peer = static_cast<size_t>(1 - i);
      QpAttr attr;
      attr.dgid = make_gid(subnet, pair.pipe.end(1 - i).info().guid);
      pair.bring_up(i, *qps[static_cast<size_t>(i)], config, pair.side(1 - i).adapter->qpn(*qps[peer]),
                    Lid(static_cast<uint16_t>(2 - i)), Psn(5), Psn(5), attr);
    }
    return qps;
  }
  void send(const std::array<QueuePair*, 2>& qps) {
    pair.pipe.clear_trace();
    ASSERT_EQ(pair.post_recv(1, *qps[1], 7, {pair.side(1).sge(0, 1024)}), PostResult::kOk);
    const Sge sge = pair.side(0).sge(0, 600);
    ASSERT_EQ(pair.side(0).adapter->post_send(*qps[0], {.wr_id = 1, .sges = {&sge, 1}}), PostResult::kOk);
    pair.run(400);
  }

  /// Checks the transport header and the local addresses of a message of three cells and of its ACK.
  void expect_headers(const std::array<QueuePair*, 2>& qps) {
    const auto requests = pair.pipe.sent_by(0, Opcode::kSend);
    ASSERT_EQ(requests.size(), 3U);
    for (uint16_t i = 0; i < 3; ++i) EXPECT_EQ(requests[i]->view.cell_number, i);
    for (const TracedCell& cell : pair.pipe.trace()) {
      const auto from = static_cast<size_t>(cell.from);
      EXPECT_EQ(cell.view.psn, Psn(5));
      EXPECT_EQ(cell.view.slid, Lid(static_cast<uint16_t>(from + 1)));
      EXPECT_EQ(cell.view.dlid, Lid(static_cast<uint16_t>(2 - from)));
      EXPECT_EQ(cell.view.src_qpn, pair.side(cell.from).adapter->qpn(*qps[from]));
      EXPECT_EQ(cell.view.dest_qpn, pair.side(1 - cell.from).adapter->qpn(*qps[1 - from]));
    }
  }

  AdapterPair pair;
};

TEST_F(NetworkHeader, SAN_FRAME_03_local_header_within_the_subnet) {
  covers("SAN-FRAME-03");
  pair.side(0).fill(0, 600, 1);
  const auto qps = connect(SubnetId(1));
  send(qps);
  ASSERT_EQ(pair.side(1).completions.size(), 1U);
  expect_headers(qps);
  for (const TracedCell& cell : pair.pipe.trace()) EXPECT_FALSE(cell.view.has(kCellGlobal));
}

TEST_F(NetworkHeader, SAN_FRAME_03_global_header_to_another_subnet) {
  covers("SAN-FRAME-03");
  pair.side(0).fill(0, 600, 1);
  // A router stands between the sides: each side sees a source address of another subnet.
  pair.pipe.set_filter([&](int from, std::vector<std::byte>& bytes) {
    if ((static_cast<uint8_t>(bytes[14]) & kCellGlobal) == 0) return Verdict::kPass;
    const Guid guid = pair.pipe.end(from).info().guid;
    const Gid source = make_gid(SubnetId(2), guid);
    std::byte* at = bytes.data() + kCellHeaderBytes + offsetof(GlobalHeaderWire, source);
    const Gid own = make_gid(SubnetId(1), guid);
    EXPECT_EQ(std::memcmp(at, own.data(), own.size()), 0);
    std::memcpy(at, source.data(), source.size());
    const size_t covered = bytes.size() - kCrcBytes;
    store_be(bytes.data() + covered, crc32c(std::span(bytes).first(covered)));
    return Verdict::kPass;
  });
  const auto qps = connect(SubnetId(2));
  send(qps);
  ASSERT_EQ(pair.side(0).completions.size(), 1U);
  EXPECT_EQ(pair.side(0).completions[0].status, WcStatus::kSuccess);
  ASSERT_EQ(pair.side(1).completions.size(), 1U);
  EXPECT_EQ(pair.side(1).bytes_at(0, 600), pair.side(0).bytes_at(0, 600));
  expect_headers(qps);
  ASSERT_GE(pair.pipe.trace().size(), 4U);  // three cells and one ACK
  for (const TracedCell& cell : pair.pipe.trace()) {
    ASSERT_TRUE(cell.view.has(kCellGlobal));
    GlobalHeaderWire header;
    std::memcpy(&header, cell.bytes.data() + kCellHeaderBytes, sizeof header);
    EXPECT_EQ(header.version_class_flow.get() >> 28, 6U);
    EXPECT_EQ(header.payload_bytes.get(), cell.bytes.size() - kCellHeaderBytes - kGlobalHeaderBytes);
    EXPECT_EQ(header.hop_limit, kHopLimitDefault);
    EXPECT_EQ(header.destination, make_gid(SubnetId(2), pair.pipe.end(1 - cell.from).info().guid));
  }
}

TEST_F(NetworkHeader, PUSH_CHAN_07_a_foreign_gid_is_dropped) {
  covers("PUSH-CHAN-07");
  // Without a router the source address names subnet 1, but the QPs are bound to a peer in subnet 2.
  send(connect(SubnetId(2)));
  EXPECT_TRUE(pair.side(1).completions.empty());
  EXPECT_GE(pair.side(1).adapter->counters().get(AdapterCounter::kDropSource), 3U);
}

}  // namespace
}  // namespace weft::test
