// The control messages: what goes in comes out, and what is not one is refused.
#include "messages/management.h"

#include <cstring>

#include "gtest/gtest.h"

namespace weft {
namespace {

TEST(Management, request_keeps_every_field) {
  ControlRequest request;
  request.id = 77;
  request.action = ControlAction::kTrafficStart;
  TrafficRun& run = request.traffic;
  run.port = 1;
  run.round_trips = 9;
  run.icmp = false;
  run.bulk = false;
  run.bulk_frames = 10;
  run.bulk_duration_ms = 20;
  run.sizes = {64, 1514};
  run.rate = 30;
  run.window = 7;
  run.timeout_ms = 500;
  run.seed = 3;
  run.target_ipv4 = 0x0A00'0001;
  run.target_ipv6_high = 4;
  run.target_ipv6_low = 5;
  const Result<ControlRequest> back = decode_control_request(encode_control_request(request));
  ASSERT_TRUE(back.ok()) << back.error().text;
  EXPECT_EQ(back.value().id, 77U);
  EXPECT_EQ(back.value().action, ControlAction::kTrafficStart);
  const TrafficRun& got = back.value().traffic;
  EXPECT_EQ(got.port, 1U);
  EXPECT_EQ(got.round_trips, 9U);
  EXPECT_TRUE(got.arp && got.icmpv6 && got.udp);
  EXPECT_FALSE(got.icmp || got.bulk);
  EXPECT_EQ(got.bulk_frames, 10U);
  EXPECT_EQ(got.bulk_duration_ms, 20U);
  EXPECT_EQ(got.sizes, (std::vector<uint32_t>{64, 1514}));
  EXPECT_EQ(got.rate, 30U);
  EXPECT_EQ(got.window, 7U);
  EXPECT_EQ(got.timeout_ms, 500U);
  EXPECT_EQ(got.seed, 3U);
  EXPECT_EQ(got.target_ipv4, 0x0A00'0001U);
  EXPECT_EQ(got.target_ipv6_high, 4U);
  EXPECT_EQ(got.target_ipv6_low, 5U);
}

TEST(Management, info_keeps_sessions_and_ports) {
  ControlReply reply;
  reply.id = 5;
  reply.answer = ControlAnswer::kInfo;
  reply.info.program = "weft-host";
  reply.info.ready = true;
  reply.info.fault = "none";
  reply.info.sessions.push_back({3, "open", "rdma", "capnp", "02:00:00:00:00:01"});
  reply.info.ports.push_back({1, "up", 2, "h1", "shm"});
  reply.info.interfaces = {"eth0", "gen0"};
  const Result<ControlReply> back = decode_control_reply(encode_control_reply(reply));
  ASSERT_TRUE(back.ok()) << back.error().text;
  ASSERT_EQ(back.value().info.sessions.size(), 1U);
  EXPECT_EQ(back.value().info.sessions[0].mode, "rdma");
  ASSERT_EQ(back.value().info.ports.size(), 1U);
  EXPECT_EQ(back.value().info.ports[0].peer, "h1");
  EXPECT_EQ(back.value().info.interfaces, (std::vector<std::string>{"eth0", "gen0"}));
  EXPECT_TRUE(back.value().info.ready);
}

TEST(Management, report_and_error_come_back) {
  ControlReply reply;
  reply.answer = ControlAnswer::kTraffic;
  reply.traffic.frames_sent = 9;
  reply.traffic.by_kind[2].max_ns = 1'000;
  reply.traffic.late = 4;
  EXPECT_EQ(decode_control_reply(encode_control_reply(reply)).value().traffic.by_kind[2].max_ns, 1'000U);
  EXPECT_EQ(decode_control_reply(encode_control_reply(reply)).value().traffic.late, 4U);
  reply.answer = ControlAnswer::kError;
  reply.error = std::string(5'000, 'x');
  EXPECT_EQ(decode_control_reply(encode_control_reply(reply)).value().error.size(), kControlTextBytesMax);
}

TEST(Management, captures_come_back) {
  ControlRequest request;
  request.action = ControlAction::kCaptureStart;
  request.capture = {"/run/x.cap", 128, 4096, "eth0", 77};
  const ControlRequest start = decode_control_request(encode_control_request(request)).value();
  EXPECT_EQ(start.capture.path, "/run/x.cap");
  EXPECT_EQ(start.capture.interface, "eth0");
  EXPECT_EQ(start.capture.reader_pid, 77U);
  request.action = ControlAction::kCaptureStop;
  const ControlRequest stop = decode_control_request(encode_control_request(request)).value();
  EXPECT_EQ(stop.action, ControlAction::kCaptureStop);
  EXPECT_EQ(stop.capture.path, "/run/x.cap");
}

TEST(Management, every_cut_and_every_flipped_byte_is_survived) {
  ControlRequest request;
  request.action = ControlAction::kCaptureStart;
  request.capture = {"/run/x.cap", 128, 4096, "eth0", 77};
  const std::vector<std::byte> good = encode_control_request(request);
  for (size_t bytes = 0; bytes < good.size(); ++bytes)
    EXPECT_FALSE(decode_control_request(std::span(good).first(bytes)).ok()) << bytes;
  for (size_t at = 0; at < good.size(); ++at) {
    std::vector<std::byte> bad = good;
    bad[at] ^= std::byte{0xFF};
    (void)decode_control_request(bad).ok();
  }
}

TEST(Management, unknown_request_is_told_apart_from_a_broken_one) {
  std::vector<std::byte> bytes = encode_control_request({});
  // The union's tag is the u16 after the id in the root struct: segment table 8, root pointer 8, id 8.
  const uint16_t tag = 999;
  std::memcpy(bytes.data() + 24, &tag, sizeof tag);
  const Result<ControlRequest> request = decode_control_request(bytes);
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request.value().action, ControlAction::kUnknown);
}

}  // namespace
}  // namespace weft
