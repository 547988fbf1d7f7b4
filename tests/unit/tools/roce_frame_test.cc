// RoCE v2 frames against frames that the Linux kernel's software adapter (rxe) has sent: every byte of the
// headers, the order of the parts, and the invariant CRC.
#include "tools/capture/roce_frame.h"

#include <gtest/gtest.h>

#include <string_view>

#include "base/endian.h"

namespace weft::tools {
namespace {

FrameBytes bytes(std::string_view hex) {
  const auto digit = [](char c) { return static_cast<unsigned>(c <= '9' ? c - '0' : c - 'a' + 10); };
  FrameBytes out;
  for (size_t i = 0; i + 1 < hex.size(); i += 2)
    out.push_back(static_cast<std::byte>(digit(hex[i]) << 4 | digit(hex[i + 1])));
  return out;
}

RoceHeaders headers(void (*put)(RoceHeaders&)) {
  RoceHeaders out;
  put(out);
  return out;
}

/// Node 2 asks, node 1 answers.
struct KernelFrame {
  const char* what;
  bool answer;
  RoceBase base;
  RoceHeaders headers;
  std::string_view payload;
  std::string_view frame;
};

std::vector<KernelFrame> kernel_frames() {
  return {
      {"acknowledgement",
       true,
       {.opcode = 0x11, .pkey = 0xFFFF, .dest_qpn = 0x11, .psn = 0x31C35B},
       headers([](RoceHeaders& to) { to.aeth(0x1F, 1); }),
       "",
       "52540009000252540009000108004500003"
       "0a4844000401182240a0900010a090002c72912b7001c0000"
       "1100ffff000000110031c35b1f000001bcd34714"},
      {"read request",
       false,
       {.opcode = 0x0C, .ack_wanted = true, .pkey = 0xFFFF, .dest_qpn = 0x14, .psn = 0x31C371},
       headers([](RoceHeaders& to) { to.reth(0x0000561BF88DB000, 0x537, 0x40); }),
       "",
       "52540009000152540009000208004500003"
       "cb18d4000401175"
       "0f0a0900020a090001c72912b700280000"
       "0c00ffff000000148031c3710000561bf88db0000000053700000040f9d9be9f"},
      {"fetch and add",
       false,
       {.opcode = 0x14, .ack_wanted = true, .pkey = 0xFFFF, .dest_qpn = 0x14, .psn = 0x31C37B},
       headers([](RoceHeaders& to) { to.atomiceth(0x0000561BF88DB000, 0x537, 1, 0); }),
       "",
       "525400090001525400090002080045000048b18f4000401175010a0900020a090001c72912b700340000"
       "1400ffff000000148031c37b0000561bf88db000000005370000000000000001000000000000000053038f19"},
      {"compare and swap",
       false,
       {.opcode = 0x13, .ack_wanted = true, .pkey = 0xFFFF, .dest_qpn = 0x14, .psn = 0x31C37C},
       headers([](RoceHeaders& to) { to.atomiceth(0x0000561BF88DB000, 0x537, 3, 2); }),
       "",
       "525400090001525400090002080045000048b1904000401175000a0900020a090001c72912b700340000"
       "1300ffff000000148031c37c0000561bf88db000000005370000000000000003000000000000000262402c5a"},
      {"answer to an atomic operation",
       true,
       {.opcode = 0x12, .pkey = 0xFFFF, .dest_qpn = 0x11, .psn = 0x31C37B},
       headers([](RoceHeaders& to) {
         to.aeth(0x1F, 9);
         to.atomicacketh(0x7777777777777777);
       }),
       "",
       "525400090002525400090001080045000038a4a04000401182000a0900010a090002c72912b700240000"
       "1200ffff000000110031c37b1f00000977777777777777774aeb35cf"},
      {"Send that invalidates",
       false,
       {.opcode = 0x17, .ack_wanted = true, .pkey = 0xFFFF, .dest_qpn = 0x14, .psn = 0x31C37D},
       headers([](RoceHeaders& to) { to.ieth(0x537); }),
       "7877777777777777777777777777777777777777777777777777777777777777"
       "7777777777777777777777777777777777777777777777777777777777777777",
       "525400090001525400090002080045000070b1914000401174d70a0900020a090001c72912b7005c0000"
       "1700ffff000000148031c37d00000537"
       "7877777777777777777777777777777777777777777777777777777777777777"
       "77777777777777777777777777777777777777777777777777777777777777773e8fa4b5"},
  };
}

RoceRoute route_of(const KernelFrame& kernel) {
  const FrameBytes frame = bytes(kernel.frame);
  RoceRoute route;
  std::copy_n(frame.begin(), 6, route.destination_mac.begin());
  std::copy_n(frame.begin() + 6, 6, route.source_mac.begin());
  store_be(route.source.data() + 12, kernel.answer ? 0x0A090001U : 0x0A090002U);
  store_be(route.destination.data() + 12, kernel.answer ? 0x0A090002U : 0x0A090001U);
  route.source_port = 0xC729;
  return route;
}

TEST(RoceFrame, invariant_crc_is_the_kernels) {
  for (const KernelFrame& kernel : kernel_frames()) {
    const FrameBytes frame = bytes(kernel.frame);
    const std::array<std::byte, kIcrcBytes> icrc = roce_icrc(frame);
    EXPECT_TRUE(std::equal(icrc.begin(), icrc.end(), frame.end() - kIcrcBytes)) << kernel.what;
  }
}

/// The kernel numbers its IP packets and we do not, so that number and the checksum over it are taken over.
TEST(RoceFrame, all_else_stands_where_the_kernel_puts_it) {
  for (const KernelFrame& kernel : kernel_frames()) {
    const FrameBytes expected = bytes(kernel.frame);
    FrameBytes frame = make_roce_frame(route_of(kernel), kernel.base, kernel.headers, bytes(kernel.payload));
    ASSERT_EQ(frame.size(), expected.size()) << kernel.what;
    for (const size_t at : {18U, 19U, 24U, 25U}) frame[at] = expected[at];
    seal_roce_frame(frame);
    EXPECT_EQ(frame, expected) << kernel.what;
  }
}

TEST(RoceFrame, payload_is_padded_to_four_bytes_and_says_so) {
  for (size_t size = 0; size <= 4; ++size) {
    const FrameBytes payload(size, std::byte{0xEE});
    const FrameBytes frame = make_roce_frame({}, {.solicited = true, .migrated = true}, {}, payload);
    const size_t pad = (4 - size % 4) % 4;
    EXPECT_EQ(frame.size(), roce_headers_at(false) + size + pad + kIcrcBytes);
    EXPECT_EQ(frame[roce_headers_at(false) - kBthBytes + 1], static_cast<std::byte>(0xC0 | pad << 4));
  }
}

TEST(RoceFrame, checksum_of_the_ipv4_header_is_right) {
  RoceRoute route;
  store_be(route.source.data() + 12, 0x0A570001U);
  store_be(route.destination.data() + 12, 0x0A570002U);
  const FrameBytes frame = make_roce_frame(route, {}, {}, {});
  uint32_t sum = 0;
  for (size_t at = kEthernetHeaderBytes; at < kEthernetHeaderBytes + 20; at += 2)
    sum += load_be<uint16_t>(frame.data() + at);
  EXPECT_EQ((sum & 0xFFFF) + (sum >> 16), 0xFFFFU);
}

/// Traffic class, flow label, hop limit, UDP checksum and the congestion bits of the base header.
TEST(RoceFrame, what_routers_change_in_ipv6_leaves_the_invariant_crc) {
  RoceRoute route;
  route.ipv6 = true;
  route.source = make_gid(SubnetId(1), Guid(0x1111));
  route.destination = make_gid(SubnetId(2), Guid(0x2222));
  FrameBytes frame = make_roce_frame(route, {.opcode = 4, .dest_qpn = 7, .psn = 9}, {}, FrameBytes(32));
  seal_roce_frame(frame);
  const auto icrc = roce_icrc(frame);
  EXPECT_TRUE(std::equal(icrc.begin(), icrc.end(), frame.end() - kIcrcBytes))
      << "the UDP checksum is not in it";
  constexpr size_t kIp = kEthernetHeaderBytes;
  for (const size_t at : {kIp + 1, kIp + 2, kIp + 3, kIp + 7, kIp + 46, kIp + 47, kIp + 52}) {
    FrameBytes changed = frame;
    changed[at] ^= std::byte{0x5A};
    EXPECT_EQ(roce_icrc(changed), icrc) << "byte " << at;
  }
  for (const size_t at : {kIp + 4, kIp + 6, kIp + 8, kIp + 39, kIp + 40, kIp + 48, kIp + 56, kIp + 60}) {
    FrameBytes changed = frame;
    changed[at] ^= std::byte{0x5A};
    EXPECT_NE(roce_icrc(changed), icrc) << "byte " << at;
  }
}

/// Sum over pseudo header and UDP, its checksum included, is all ones.
TEST(RoceFrame, udp_over_ipv6_has_a_checksum) {
  RoceRoute route;
  route.ipv6 = true;
  route.source = make_gid(SubnetId(1), Guid(0x1111));
  route.destination = make_gid(SubnetId(2), Guid(0x2222));
  FrameBytes frame = make_roce_frame(route, {.opcode = 4}, {}, FrameBytes(31, std::byte{0xA7}));
  seal_roce_frame(frame);
  uint32_t sum = 17 + static_cast<uint32_t>(frame.size() - kEthernetHeaderBytes - 40);
  for (size_t at = kEthernetHeaderBytes + 8; at < frame.size(); at += 2)
    sum += load_be<uint16_t>(frame.data() + at);
  while (sum >> 16 != 0) sum = (sum & 0xFFFF) + (sum >> 16);
  EXPECT_EQ(sum, 0xFFFFU);
}

/// As Linux computes it for queue pairs 0x11 and 0x14 of the frames above.
TEST(RoceFrame, source_port_belongs_to_a_pair_of_queue_pairs) {
  EXPECT_EQ(roce_source_port(0x11, 0x14), 0xC000 | (0x11 * 0x14));
  EXPECT_EQ(roce_source_port(0x11, 0x14), roce_source_port(0x14, 0x11));
  EXPECT_GE(roce_source_port(0xFFFFFF, 0xFFFFFE), 0xC000);
}

}  // namespace
}  // namespace weft::tools
