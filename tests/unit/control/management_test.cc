// The control messages: what goes in comes out, and what is not one is refused.
#include "control/management.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string_view>

namespace weft {
using namespace control;
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

FaultRule some_rule() {
  return {.kind = FaultKind::kDelay,
          .port = 3,
          .guid = Guid(17),
          .direction = FaultDirection::kTo,
          .lanes = 5,
          .opcode = 2,
          .chance_ppm = 6,
          .every = 7,
          .limit = 8,
          .lasts = Duration(9),
          .delay_min = Duration(10),
          .delay_max = Duration(11),
          .cells_per_second = 12,
          .bits_per_second = 16,
          .up = Duration(13),
          .down = Duration(14),
          .seed = 15};
}

TEST(Management, faults_keep_every_field_both_ways) {
  ControlRequest request;
  request.action = ControlAction::kFaultAdd;
  request.fault = some_rule();
  Result<ControlRequest> added = decode_control_request(encode_control_request(request));
  ASSERT_TRUE(added.ok());
  EXPECT_EQ(added->action, ControlAction::kFaultAdd);
  EXPECT_EQ(added->fault, request.fault);
  request.action = ControlAction::kFaultClear;
  request.fault_id = 4;
  EXPECT_EQ(decode_control_request(encode_control_request(request))->fault_id, 4U);
  request.action = ControlAction::kFaultList;
  EXPECT_EQ(decode_control_request(encode_control_request(request))->action, ControlAction::kFaultList);
  ControlReply reply;
  reply.answer = ControlAnswer::kFaults;
  reply.faults.push_back({1, request.fault, 20, 10, Duration(30)});
  Result<ControlReply> back = decode_control_reply(encode_control_reply(reply));
  ASSERT_TRUE(back.ok());
  ASSERT_EQ(back->faults.size(), 1U);
  const FaultInfo& got = back->faults[0];
  EXPECT_TRUE(got.id == 1 && got.matched == 20 && got.struck == 10 && got.left == Duration(30) &&
              got.rule == request.fault);
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

NicWish some_wish() {
  NicWish wish;
  wish.interface = "eth0";
  wish.clear = true;
  wish.promiscuous = false;
  wish.multicast = std::vector<std::string>{"01:00:5e:00:00:09", "33:33:00:00:00:01"};
  return wish;
}

NicReport some_report() {
  NicReport report;
  report.interface = "eth0";
  report.unit_lid = 2;
  report.pending = true;
  report.reads = 3;
  report.link_up = true;
  report.mac = "02:00:00:00:00:01";
  report.mtu = 1400;
  report.nic_mtu = 1500;
  report.offloads = {"checksum"};
  report.nic_offloads = {"checksum", "tso4"};
  report.promiscuous = true;
  report.multicast = {"01:00:5e:00:00:09"};
  report.statistics = {1, 2, 3, 4, 5, 6};
  report.faults = {"something"};
  return report;
}

TEST(Management, wishes_for_a_nic_come_back) {
  ControlRequest request;
  request.action = ControlAction::kNicAsk;
  request.nic = some_wish();
  const NicWish got = decode_control_request(encode_control_request(request)).value().nic;
  EXPECT_EQ(got.interface, "eth0");
  EXPECT_TRUE(got.clear);
  EXPECT_EQ(got.promiscuous, std::optional<bool>(false));
  EXPECT_EQ(got.all_multicast, std::nullopt);
  EXPECT_EQ(got.multicast, request.nic.multicast);
  request.nic.multicast = std::vector<std::string>{};
  EXPECT_EQ(decode_control_request(encode_control_request(request)).value().nic.multicast,
            request.nic.multicast);
  request.action = ControlAction::kNicReport;
  const ControlRequest report = decode_control_request(encode_control_request(request)).value();
  EXPECT_EQ(report.action, ControlAction::kNicReport);
  EXPECT_EQ(report.nic.interface, "eth0");
}

TEST(Management, reports_of_a_nic_come_back) {
  ControlReply reply;
  reply.answer = ControlAnswer::kNic;
  reply.nic = some_report();
  const ControlReply back = decode_control_reply(encode_control_reply(reply)).value();
  EXPECT_EQ(back.answer, ControlAnswer::kNic);
  const NicReport& got = back.nic;
  EXPECT_EQ(got.interface, "eth0");
  EXPECT_EQ(got.unit_lid, 2U);
  EXPECT_EQ(got.reads, 3U);
  EXPECT_TRUE(got.pending && got.link_up && got.promiscuous);
  EXPECT_FALSE(got.all_multicast);
  EXPECT_EQ(got.mac, reply.nic.mac);
  EXPECT_EQ(got.mtu, 1400U);
  EXPECT_EQ(got.nic_mtu, 1500U);
  EXPECT_EQ(got.offloads, reply.nic.offloads);
  EXPECT_EQ(got.nic_offloads, reply.nic.nic_offloads);
  EXPECT_EQ(got.multicast, reply.nic.multicast);
  EXPECT_EQ(got.statistics, reply.nic.statistics);
  EXPECT_EQ(got.faults, reply.nic.faults);
}

/// The encoder cuts the list, so it is lengthened behind its back: the count stands in the pointer to it.
TEST(Management, a_wish_for_too_many_groups_is_refused) {
  ControlRequest request;
  request.action = ControlAction::kNicAsk;
  request.nic.multicast = std::vector<std::string>(kMulticastFiltersMax);
  std::vector<std::byte> bytes = encode_control_request(request);
  ASSERT_EQ(decode_control_request(bytes).value().nic.multicast->size(), kMulticastFiltersMax);
  constexpr uint32_t kPointers = 6;  // of a list: what its elements are
  const uint32_t good = kMulticastFiltersMax << 3 | kPointers;
  const uint32_t bad = (kMulticastFiltersMax + 1) << 3 | kPointers;
  bool found = false;
  for (size_t at = 8; at < bytes.size() && !found; at += 8) {
    found = std::memcmp(bytes.data() + at + 4, &good, sizeof good) == 0;
    if (found) std::memcpy(bytes.data() + at + 4, &bad, sizeof bad);
  }
  ASSERT_TRUE(found);
  const uint32_t words = static_cast<uint32_t>(bytes.size() / 8);  // one more
  bytes.resize(bytes.size() + 8);
  std::memcpy(bytes.data() + 4, &words, sizeof words);
  const Result<ControlRequest> refused = decode_control_request(bytes);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().text, "at most 64 multicast addresses");
}

template <class Decode>
void survives_damage(const std::vector<std::byte>& good, Decode decode) {
  for (size_t bytes = 0; bytes < good.size(); ++bytes)
    EXPECT_FALSE(decode(std::span(good).first(bytes)).ok()) << bytes;
  for (size_t at = 0; at < good.size(); ++at) {
    std::vector<std::byte> bad = good;
    bad[at] ^= std::byte{0xFF};
    (void)decode(bad).ok();
  }
}

TEST(Management, every_cut_and_every_flipped_byte_is_survived) {
  ControlRequest request;
  request.action = ControlAction::kCaptureStart;
  request.capture = {"/run/x.cap", 128, 4096, "eth0", 77};
  survives_damage(encode_control_request(request), decode_control_request);
  request.action = ControlAction::kNicAsk;
  request.nic = some_wish();
  survives_damage(encode_control_request(request), decode_control_request);
  ControlReply reply;
  reply.answer = ControlAnswer::kNic;
  reply.nic = some_report();
  survives_damage(encode_control_reply(reply), decode_control_reply);
}

/// What goes on the wire for a field that the codec names wrongly is an exception, and the answer nothing.
TEST(Management, every_action_and_answer_comes_back_as_it_went) {
  ControlRequest request;
  request.capture = {"/run/x.cap", 128, 4096, "eth0", 77};
  request.nic = some_wish();
  request.fault = some_rule();
  request.fault_id = 4;
  for (const ControlAction action :
       {ControlAction::kInfo, ControlAction::kTrafficStart, ControlAction::kTrafficStop,
        ControlAction::kTrafficReport, ControlAction::kCaptureStart, ControlAction::kCaptureStop,
        ControlAction::kNicAsk, ControlAction::kNicReport, ControlAction::kFaultAdd,
        ControlAction::kFaultClear, ControlAction::kFaultList}) {
    request.action = action;
    const std::vector<std::byte> bytes = encode_control_request(request);
    const Result<ControlRequest> back = decode_control_request(bytes);
    ASSERT_TRUE(back.ok()) << back.error().text;
    EXPECT_EQ(back.value().action, action);
    EXPECT_EQ(encode_control_request(back.value()), bytes);
  }
  ControlReply reply;
  reply.error = "no";
  reply.info.sessions.push_back({3, "open", "rdma", "capnp", "02:00:00:00:00:01"});
  reply.info.ports.push_back({1, "up", 2, "h1", "shm"});
  reply.nic = some_report();
  reply.faults.push_back({1, some_rule(), 20, 10, Duration(30)});
  for (const ControlAnswer answer : {ControlAnswer::kError, ControlAnswer::kDone, ControlAnswer::kInfo,
                                     ControlAnswer::kTraffic, ControlAnswer::kNic, ControlAnswer::kFaults}) {
    reply.answer = answer;
    const std::vector<std::byte> bytes = encode_control_reply(reply);
    const Result<ControlReply> back = decode_control_reply(bytes);
    ASSERT_TRUE(back.ok()) << back.error().text;
    EXPECT_EQ(back.value().answer, answer);
    EXPECT_EQ(encode_control_reply(back.value()), bytes);
  }
}

/// The kind and a time of a rule are bytes of the wire until they are known to be good.
TEST(Management, a_rule_of_an_unknown_kind_or_an_endless_time_is_refused) {
  ControlRequest request;
  request.action = ControlAction::kFaultAdd;
  request.fault.lasts = Duration(std::chrono::hours(24 * 365)) + Duration(1);
  EXPECT_EQ(decode_control_request(encode_control_request(request)).error().text,
            "a time of a fault is at most a year");
  request.fault.lasts -= Duration(1);
  std::vector<std::byte> bytes = encode_control_request(request);
  ASSERT_TRUE(decode_control_request(bytes).ok());
  const std::string_view kind = "drop";
  const auto found = std::search(bytes.begin(), bytes.end(), kind.begin(), kind.end(),
                                 [](std::byte a, char b) { return a == static_cast<std::byte>(b); });
  ASSERT_NE(found, bytes.end());
  *found = std::byte{'c'};
  EXPECT_EQ(decode_control_request(bytes).error().text, "no fault is called 'crop'");
}

/// One segment that fills the message: the number of segments less one, then the words of the segment.
TEST(Management, a_frame_of_another_length_than_its_message_is_refused) {
  const std::vector<std::byte> good = encode_control_request({});
  ASSERT_TRUE(decode_control_request(good).ok());
  const auto refused = [](const std::vector<std::byte>& bytes) {
    const Result<ControlRequest> request = decode_control_request(bytes);
    return !request.ok() && request.error().text == "control message: bad framing";
  };
  std::vector<std::byte> other = good;
  other.resize(good.size() + 8);
  EXPECT_TRUE(refused(other)) << "a word behind the segment";
  other.resize(good.size() + 3);
  EXPECT_TRUE(refused(other)) << "no whole words";
  other.resize(good.size() - 8);
  EXPECT_TRUE(refused(other)) << "a word is missing";
  other = good;
  other[0] = std::byte{1};
  EXPECT_TRUE(refused(other)) << "two segments";
  EXPECT_TRUE(refused({})) << "nothing";
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
