// SAN-XPORT-15 and 16: raw frames, IPv6 packets as raw frames, and the selection of the receiving queue pair.
#include <algorithm>
#include <cstring>

#include "messages/ipv6_frame.h"
#include "tests/support/adapter_pair.h"
#include "tests/support/requirement.h"

namespace weft::test {
using namespace adapter;
namespace {

constexpr uint8_t kTcp = 6;
constexpr uint8_t kUdp = 17;
constexpr uint8_t kIcmp = 58;
constexpr uint32_t kAt = 8192;  // offset of side 1's receive buffers

Gid address(uint8_t last) {
  Gid gid{};
  gid[0] = std::byte{0x20};
  gid[1] = std::byte{0x01};
  gid[15] = std::byte{last};
  return gid;
}

class RawDatagram : public ::testing::Test {
 protected:
  QueuePair* make_qp(int index, bool ipv6) {
    const QpConfig config{.type = QpType::kRaw, .raw_ipv6 = ipv6};
    QueuePair* qp = pair.make_qp(index, config);
    const QpAttr attr{.state = QpState::kInit};
    ChannelAdapter& at = adapter(index);
    EXPECT_EQ(at.modify_qp(*qp, attr, adapter::kQpAttrState | adapter::kQpAttrPort), ModifyResult::kOk);
    EXPECT_EQ(at.modify_qp(*qp, {.state = QpState::kRtr}, adapter::kQpAttrState), ModifyResult::kOk);
    EXPECT_EQ(at.modify_qp(*qp, {.state = QpState::kRts}, adapter::kQpAttrState), ModifyResult::kOk);
    EXPECT_EQ(pair.post_recv(index, *qp, 3, {pair.side(index).sge(kAt, 1024)}), PostResult::kOk);
    return qp;
  }
  ChannelAdapter& adapter(int index = 0) { return *pair.side(index).adapter; }
  /// Writes an IPv6 packet at the beginning of side 0's memory and returns its length.
  uint32_t make_packet(uint8_t next_header, uint16_t payload, uint8_t to = 2) {
    PairSide& side = pair.side(0);
    side.fill(0, kIpv6HeaderBytes + payload, next_header);
    GlobalHeaderWire header{};
    header.version_class_flow.set(6U << 28 | 0x12U << 20 | 0x34567);
    header.payload_bytes.set(payload);
    header.next_header = next_header;
    header.hop_limit = 5;
    header.source = address(1);
    header.destination = address(to);
    std::memcpy(side.memory.data(), &header, sizeof header);
    return kIpv6HeaderBytes + payload;
  }
  PostResult send(QueuePair& qp, uint32_t bytes, Qpn to) {
    const Sge sge = pair.side(0).sge(0, bytes);
    const PostResult result =
        adapter().post_send(qp, {.sges = {&sge, 1}, .dest = {.lid = Lid(2), .qpn = to}});
    pair.run(3);
    return result;
  }
  [[nodiscard]] std::vector<WorkCompletion>& received() { return pair.side(1).completions; }

  AdapterPair pair;
};

TEST_F(RawDatagram, SAN_XPORT_15_an_ipv6_packet_comes_out_as_it_went_in) {
  covers("SAN-XPORT-15");
  QueuePair* from = make_qp(0, true);
  QueuePair* to = make_qp(1, true);
  for (const uint16_t payload : {uint16_t{0}, uint16_t{1}, uint16_t{100}, uint16_t{256}}) {
    const uint32_t bytes = make_packet(kUdp, payload);
    pair.pipe.clear_trace();
    received().clear();
    ASSERT_EQ(send(*from, bytes, adapter(1).qpn(*to)), PostResult::kOk);
    ASSERT_EQ(received().size(), 1U);
    EXPECT_EQ(received()[0].byte_count, bytes);
    EXPECT_EQ(pair.side(1).bytes_at(kAt, bytes), pair.side(0).bytes_at(0, bytes));
    ASSERT_EQ(pair.post_recv(1, *to, 3, {pair.side(1).sge(kAt, 1024)}), PostResult::kOk);
    // The cell's global header has every field of the packet's header.
    ASSERT_EQ(pair.pipe.trace().size(), 1U);
    const CellView& cell = pair.pipe.trace()[0].view;
    ASSERT_NE(cell.global_header, nullptr);
    GlobalHeaderWire in_cell;
    std::memcpy(&in_cell, cell.global_header, sizeof in_cell);
    EXPECT_EQ(in_cell.version_class_flow.get(), 6U << 28 | 0x12U << 20 | 0x34567);
    EXPECT_EQ(in_cell.next_header, kUdp);
    EXPECT_EQ(in_cell.hop_limit, 5);
    EXPECT_EQ(in_cell.source, address(1));
    EXPECT_EQ(in_cell.destination, address(2));
    EXPECT_EQ(in_cell.payload_bytes.get(), payload + kCrcBytes);  // with the CRC of the cell
    EXPECT_EQ(cell.payload.size(), payload);
  }
}

TEST_F(RawDatagram, SAN_XPORT_15_software_has_every_byte_of_a_raw_frame) {
  covers("SAN-XPORT-15");
  QueuePair* from = make_qp(0, false);
  QueuePair* to = make_qp(1, false);
  pair.side(0).fill(0, 77, 200);
  ASSERT_EQ(send(*from, 77, adapter(1).qpn(*to)), PostResult::kOk);
  ASSERT_EQ(received().size(), 1U);
  EXPECT_EQ(received()[0].byte_count, 77U);
  EXPECT_EQ(pair.side(1).bytes_at(kAt, 77), pair.side(0).bytes_at(0, 77));
}

/// A frame of another program to the number of the QP, without the header of a packet.
TEST_F(RawDatagram, SAN_XPORT_15_a_frame_without_a_global_header_is_no_ipv6_packet) {
  covers("SAN-XPORT-15");
  QueuePair* from = make_qp(0, false);
  QueuePair* to = make_qp(1, true);
  ASSERT_EQ(send(*from, 77, adapter(1).qpn(*to)), PostResult::kOk);
  EXPECT_TRUE(received().empty());
  const uint32_t bytes = make_packet(kUdp, 8);
  ASSERT_EQ(send(*make_qp(0, true), bytes, adapter(1).qpn(*to)), PostResult::kOk);
  EXPECT_EQ(received().size(), 1U) << "its receive is there for the next packet";
}

TEST_F(RawDatagram, SAN_XPORT_15_what_is_no_ipv6_packet_is_not_sent) {
  covers("SAN-XPORT-15");
  const auto spoil_and_send = [&](size_t offset, uint8_t value) {
    QueuePair* from = make_qp(0, true);
    const uint32_t bytes = make_packet(kTcp, 50);
    pair.side(0).memory[offset] = static_cast<std::byte>(value);
    pair.side(0).completions.clear();
    pair.pipe.clear_trace();
    EXPECT_EQ(send(*from, bytes, Qpn(9)), PostResult::kOk);
    EXPECT_TRUE(pair.pipe.trace().empty());
    return pair.side(0).completions.at(0).status;
  };
  EXPECT_EQ(spoil_and_send(0, 0x45), WcStatus::kLocalQpOperation);  // version 4
  EXPECT_EQ(spoil_and_send(5, 49), WcStatus::kLocalQpOperation);    // wrong length
  QueuePair* from = make_qp(0, true);
  EXPECT_EQ(send(*from, kIpv6HeaderBytes - 1, Qpn(9)), PostResult::kBadSges);
  EXPECT_EQ(send(*from, kIpv6HeaderBytes + 257, Qpn(9)), PostResult::kTooLong);
  EXPECT_FALSE(adapter().create_qp({.type = QpType::kUd,
                                    .pd = pair.side(0).pd,
                                    .send_cq = pair.side(0).cq,
                                    .recv_cq = pair.side(0).cq,
                                    .raw_ipv6 = true}));
}

TEST_F(RawDatagram, SAN_XPORT_16_datagrams_are_sorted_by_protocol_and_address) {
  covers("SAN-XPORT-16");
  QueuePair* from = make_qp(0, true);
  QueuePair* tcp = make_qp(1, true);
  QueuePair* udp = make_qp(1, true);
  ChannelAdapter& at = adapter(1);
  ASSERT_TRUE(at.register_protocol(*tcp, kTcp, address(2)));
  ASSERT_TRUE(at.register_protocol(*udp, kUdp, address(2)));
  EXPECT_FALSE(at.register_protocol(*udp, kTcp, address(2)));  // already registered
  const auto receiver = [&](uint8_t next_header, uint8_t to) {
    received().clear();
    EXPECT_EQ(send(*from, make_packet(next_header, 64, to), kQpnByProtocol), PostResult::kOk);
    for (QueuePair* qp : {tcp, udp}) {
      EXPECT_EQ(pair.post_recv(1, *qp, 3, {pair.side(1).sge(kAt, 1024)}), PostResult::kOk);
    }
    return received().empty() ? Qpn(0) : received().back().qpn;
  };
  EXPECT_EQ(receiver(kTcp, 2), at.qpn(*tcp));
  EXPECT_EQ(receiver(kUdp, 2), at.qpn(*udp));
  EXPECT_EQ(at.counters().get(AdapterCounter::kDropProtocol), 0U);
  EXPECT_EQ(receiver(kIcmp, 2), Qpn(0));  // kind without a receiver
  EXPECT_EQ(receiver(kTcp, 3), Qpn(0));   // address without a receiver
  EXPECT_EQ(at.counters().get(AdapterCounter::kDropProtocol), 2U);
  // A queue pair cannot be destroyed while it is registered; after unregistering it receives nothing more.
  EXPECT_FALSE(at.destroy_qp(tcp));
  EXPECT_FALSE(at.unregister_protocol(*udp, kTcp, address(2)));
  ASSERT_TRUE(at.unregister_protocol(*tcp, kTcp, address(2)));
  EXPECT_EQ(receiver(kTcp, 2), Qpn(0));
  EXPECT_EQ(at.counters().get(AdapterCounter::kDropProtocol), 3U);
  ASSERT_TRUE(at.register_protocol(*udp, kTcp, address(2)));
  EXPECT_EQ(receiver(kTcp, 2), at.qpn(*udp));
  EXPECT_TRUE(at.destroy_qp(tcp));
  EXPECT_FALSE(at.register_protocol(*from, kIcmp, address(2)));  // queue pair of another adapter
  EXPECT_FALSE(at.register_protocol(*pair.make_qp(1, {}), kIcmp, address(2)));
}

TEST_F(RawDatagram, SAN_XPORT_16_there_are_as_many_registrations_as_the_limit_says) {
  covers("SAN-XPORT-16");
  AdapterLimits limits;
  limits.raw_protocols = 2;
  AdapterPair few(256, limits);
  QueuePair* qp = few.make_qp(0, {.type = QpType::kRaw});
  ChannelAdapter& at = *few.side(0).adapter;
  EXPECT_TRUE(at.register_protocol(*qp, kTcp, address(1)));
  EXPECT_TRUE(at.register_protocol(*qp, kTcp, address(1)));  // repeating a registration is allowed
  EXPECT_TRUE(at.register_protocol(*qp, kTcp, address(2)));
  EXPECT_FALSE(at.register_protocol(*qp, kTcp, address(3)));
}

}  // namespace
}  // namespace weft::test
