// Raw queue pairs of a program of hca/: IPv6 packets, and registration for the protocols of an address.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "hca/device_core.h"
#include "messages/ipv6_frame.h"
#include "tests/support/requirement.h"
#include "tests/support/two_devices.h"

namespace weft::test {
namespace {

using adapter::QpType;
using hca::Answer;

constexpr uint8_t kProtocolTcp = 6;
constexpr uint8_t kProtocolUdp = 17;

Gid packet_address(uint8_t host) {
  Gid out{};
  out[0] = std::byte{0x20};
  out[15] = std::byte{host};
  return out;
}

class ConsumerRawPackets : public TwoDevices {
 protected:
  static constexpr uint32_t kPacketBytes = kIpv6HeaderBytes + 40;

  static hca::Qp* make(Consumer& side, QpType type = QpType::kRaw) {
    const adapter::QpConfig config{.type = type, .raw_ipv6 = type == QpType::kRaw};
    const hca::QpInit init{.send_cq = side.cq, .recv_cq = side.cq, .config = config, .user = nullptr};
    hca::Qp* qp = side.context->create_qp(*side.pd, init).object;
    EXPECT_NE(qp, nullptr);
    return qp;
  }
  static hca::Qp* open(Consumer& side) {
    hca::Qp* qp = make(side);
    EXPECT_EQ(bring_up(*qp, QpType::kRaw, {}), Answer::kOk);
    return qp;
  }
  /// Sends a packet of `protocol` to `host` by `from` of `a`. @return the completions of `b`
  std::vector<adapter::WorkCompletion> send(hca::Qp& from, uint8_t protocol, uint8_t host) {
    GlobalHeaderWire header{};
    header.version_class_flow.set(6U << 28 | 0x1234U);
    header.payload_bytes.set(kPacketBytes - kIpv6HeaderBytes);
    header.next_header = protocol;
    header.hop_limit = 9;
    header.source = packet_address(1);
    header.destination = packet_address(host);
    std::memcpy(a().memory.data(), &header, sizeof header);
    const adapter::Sge sge = a().sge(0, kPacketBytes);
    const adapter::SendRequest request{.wr_id = 1,
                                       .flags = adapter::kSendSignaled,
                                       .sges = std::span(&sge, 1),
                                       .dest = {.lid = Lid(2), .qpn = kQpnByProtocol}};
    size_t posted = 0;
    EXPECT_EQ(from.post_send(std::span(&request, 1), posted), Answer::kOk);
    help(5);
    EXPECT_EQ(next(*a().cq).status, adapter::WcStatus::kSuccess);
    std::vector<adapter::WorkCompletion> out;
    for (adapter::WorkCompletion entry; b().cq->poll(std::span(&entry, 1)) == 1;) out.push_back(entry);
    return out;
  }
  [[nodiscard]] uint64_t dropped() { return b().device.count(adapter::AdapterCounter::kDropProtocol); }
};

TEST_F(ConsumerRawPackets, come_to_the_queue_pair_that_has_registered_for_them) {
  covers("SAN-XPORT-15 SAN-XPORT-16");
  hca::Qp* from = open(a());
  hca::Qp* tcp = open(b());
  hca::Qp* udp = open(b());
  ASSERT_EQ(tcp->register_protocol(kProtocolTcp, packet_address(2)), Answer::kOk);
  ASSERT_EQ(udp->register_protocol(kProtocolUdp, packet_address(2)), Answer::kOk);
  for (hca::Qp* qp : {tcp, udp}) ASSERT_EQ(b().recv(*qp, 7, 256), Answer::kOk);

  std::vector<adapter::WorkCompletion> got = send(*from, kProtocolUdp, 2);
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(got[0].qpn, udp->number());
  EXPECT_EQ(got[0].byte_count, kPacketBytes);
  EXPECT_EQ(std::memcmp(b().memory.data() + Consumer::kBytes / 2, a().memory.data(), kPacketBytes), 0)
      << "the packet is as it was";
  EXPECT_TRUE(send(*from, kProtocolTcp, 3).empty()) << "an address without a queue pair";
  EXPECT_TRUE(send(*from, 58, 2).empty()) << "a protocol without a queue pair";
  EXPECT_EQ(dropped(), 2U);
  got = send(*from, kProtocolTcp, 2);
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(got[0].qpn, tcp->number());

  ASSERT_EQ(tcp->unregister_protocol(kProtocolTcp, packet_address(2)), Answer::kOk);
  ASSERT_EQ(b().recv(*tcp, 7, 256), Answer::kOk);
  EXPECT_TRUE(send(*from, kProtocolTcp, 2).empty()) << "it takes nothing more";
  EXPECT_EQ(dropped(), 3U);
}

TEST_F(ConsumerRawPackets, each_refusal_of_a_registration_has_its_answer) {
  covers("SAN-XPORT-16");
  hca::Qp* one = open(a());
  hca::Qp* other = open(a());
  EXPECT_EQ(make(a(), QpType::kUd)->register_protocol(kProtocolTcp, packet_address(2)),
            Answer::kNotOfService);
  EXPECT_EQ(one->unregister_protocol(kProtocolTcp, packet_address(2)), Answer::kNotMember);
  ASSERT_EQ(one->register_protocol(kProtocolTcp, packet_address(2)), Answer::kOk);
  EXPECT_EQ(one->register_protocol(kProtocolTcp, packet_address(2)), Answer::kOk) << "twice is once";
  EXPECT_EQ(other->register_protocol(kProtocolTcp, packet_address(2)), Answer::kTaken);
  EXPECT_EQ(other->unregister_protocol(kProtocolTcp, packet_address(2)), Answer::kNotMember)
      << "of another queue pair";
  const uint32_t most = a().device.limits().raw_protocols;
  for (uint32_t i = 1; i < most; ++i) {
    const Gid address = packet_address(static_cast<uint8_t>(i >> 7));
    ASSERT_EQ(other->register_protocol(static_cast<uint8_t>(100 + i % 128), address), Answer::kOk) << i;
  }
  EXPECT_EQ(other->register_protocol(kProtocolUdp, packet_address(2)), Answer::kTableFull);
  EXPECT_EQ(one->register_protocol(kProtocolTcp, packet_address(2)), Answer::kOk) << "it has that one";
  EXPECT_EQ(a().context->destroy(one), Answer::kBusy);
  EXPECT_EQ(one->unregister_protocol(kProtocolTcp, packet_address(2)), Answer::kOk);
  EXPECT_EQ(a().context->destroy(one), Answer::kOk);
  EXPECT_EQ(other->register_protocol(kProtocolTcp, packet_address(2)), Answer::kOk) << "the room came back";
}

TEST_F(ConsumerRawPackets, a_context_that_closes_ends_its_registrations) {
  hca::Qp* left = open(b());
  ASSERT_EQ(left->register_protocol(kProtocolTcp, packet_address(2)), Answer::kOk);
  const Qpn number = left->number();
  const hca::DeviceCore& core = b().context->core();
  b().device.close(b().context);
  EXPECT_EQ(core.find_qp(number), nullptr);
  b().context = nullptr;
  b().open();
  hca::Qp* next_one = open(b());
  EXPECT_EQ(next_one->register_protocol(kProtocolTcp, packet_address(2)), Answer::kOk);
  ASSERT_EQ(b().recv(*next_one, 7, 256), Answer::kOk);
  EXPECT_EQ(send(*open(a()), kProtocolTcp, 2).size(), 1U);
}

}  // namespace
}  // namespace weft::test
