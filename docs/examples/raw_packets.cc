// Raw datagrams (RAW): IPv6 packets cross the fabric as they are, and the receiving adapter sorts them. Two
// queue pairs register for one protocol each of an address, and a packet goes to the one that its next header
// and destination name. The sender knows the endnode, and none of its queue pairs.
#include <weft/messages/ipv6_frame.h>

#include <cstring>

#include "program.h"

using namespace example;

namespace {

constexpr uint8_t kTcp = 6;
constexpr uint8_t kUdp = 17;
constexpr uint8_t kIcmp = 58;
constexpr uint32_t kPayload = 64;
constexpr uint32_t kPacket = kIpv6HeaderBytes + kPayload;

/// 2001:db8::host
Gid address(uint8_t host) {
  Gid out{};
  out[0] = std::byte{0x20};
  out[1] = std::byte{0x01};
  out[2] = std::byte{0x0d};
  out[3] = std::byte{0xb8};
  out[15] = std::byte{host};
  return out;
}

hca::Qp& open_raw(Endnode& node) {
  hca::Qp& qp = node.make_qp({.type = adapter::QpType::kRaw, .raw_ipv6 = true});
  bring_up(qp, adapter::QpType::kRaw, {});
  return qp;
}

void send(Endnode& node, hca::Qp& qp, Lid to, uint8_t protocol) {
  GlobalHeaderWire header{};
  header.version_class_flow.set(6U << 28);
  header.payload_bytes.set(kPayload);
  header.next_header = protocol;
  header.hop_limit = kHopLimitDefault;
  header.source = address(1);
  header.destination = address(2);
  std::memcpy(node.memory.data(), &header, sizeof header);
  node.put(kIpv6HeaderBytes, "protocol " + std::to_string(protocol));
  const adapter::Sge from = node.sge(0, kPacket);
  node.post(qp, {.wr_id = 1,
                 .flags = adapter::kSendSignaled,
                 .sges = std::span(&from, 1),
                 .dest = {.lid = to, .qpn = kQpnByProtocol}});
  node.next_good();
}

void sort_packets() {
  Endnode sender(fabric_here());
  Endnode host(fabric_here());
  hca::Qp& from = open_raw(sender);
  hca::Qp& tcp = open_raw(host);
  hca::Qp& udp = open_raw(host);
  check(tcp.register_protocol(kTcp, address(2)) == Answer::kOk, "TCP is not registered");
  check(udp.register_protocol(kUdp, address(2)) == Answer::kOk, "UDP is not registered");
  check(udp.register_protocol(kTcp, address(2)) == Answer::kTaken, "two queue pairs have one protocol");

  const auto arrives_at = [&](uint8_t protocol, hca::Qp& at) {
    host.expect(at, 1024, kPacket);
    send(sender, from, host.lid(), protocol);
    const adapter::WorkCompletion got = host.next_good();
    check(got.qpn == at.number() && got.byte_count == kPacket, "a packet came elsewhere");
    check(std::memcmp(host.memory.data() + 1024, sender.memory.data(), kPacket) == 0, "it has changed");
  };
  send(sender, from, host.lid(), kIcmp);
  arrives_at(kTcp, tcp);
  arrives_at(kUdp, udp);
  check(host.device.count(adapter::AdapterCounter::kDropProtocol) == 1, "a third protocol was taken");

  // A registered queue pair stays; the protocol passes on.
  check(host.context->destroy(&tcp) == Answer::kBusy, "a registered queue pair has ended");
  check(tcp.unregister_protocol(kTcp, address(2)) == Answer::kOk, "it stays registered");
  check(udp.register_protocol(kTcp, address(2)) == Answer::kOk, "the protocol does not pass on");
  arrives_at(kTcp, udp);
  std::cout << "packets of 2 protocols came to their queue pairs, and those of a third to none\n";
}

}  // namespace

int main() {
  return run("raw_packets", sort_packets);
}
