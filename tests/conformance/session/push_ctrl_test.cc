// PUSH-CFG and PUSH-CTRL: requests and replies, and the traffic of a session's two channels.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/endian.h"
#include "tests/support/netdev_random.h"
#include "tests/support/requirement.h"
#include "tests/support/session_talk.h"
#include "tests/support/session_wire.h"

namespace weft::test {
using namespace session;
namespace {

std::set<int> channels_of(const std::vector<WireItem>& wire, WireKind kind) {
  std::set<int> out;
  for (const WireItem& item : wire) {
    if (item.kind == kind) out.insert(item.channel);
  }
  return out;
}

// ---- PUSH-CFG ---------------------------------------------------------------------------------

TEST(PushCfg, PUSH_CFG_01_02_every_request_is_complete_and_has_one_reply) {
  covers("PUSH-CFG-01 PUSH-CFG-02");
  for (const MessageEncoding encoding : {MessageEncoding::kBytes, MessageEncoding::kCapnp}) {
    SessionPair pair(in_mode(TransferMode::kRdma, encoding));
    const auto mac = from_hex("02000000002a");
    const uint64_t first = pair.host().request_config({.request_class = CfgClass::kMacConfig,
                                                       .code = static_cast<uint16_t>(MacConfigCode::kSetMac),
                                                       .data = mac});
    pair.run(20);
    ASSERT_EQ(pair.unit_events.requests.size(), 1U);
    EXPECT_EQ(pair.unit_events.requests[0].data, mac);
    EXPECT_EQ(pair.unit_events.requests[0].code, 2U);
    ASSERT_EQ(pair.host_events.replies.size(), 1U);
    EXPECT_EQ(pair.host_events.replies[0].transaction, first);
    EXPECT_TRUE(pair.host_events.replies[0].data.empty());
    pair.unit_events.answer.bytes = 48;
    const uint64_t second = pair.host().request_config(
        {.request_class = CfgClass::kUtility, .code = static_cast<uint16_t>(UtilityCode::kReadStatistics)});
    pair.run(20);
    ASSERT_EQ(pair.host_events.replies.size(), 2U);
    EXPECT_EQ(pair.host_events.replies[1].transaction, second);
    EXPECT_EQ(pair.host_events.replies[1].data.size(), 48U);
    // Also after a failure and for an unknown request.
    pair.unit_events.answer = {};
    pair.unit_events.answer.status = CfgStatus::kFailed;
    (void)pair.host().request_config({.request_class = CfgClass::kMacConfig, .code = 1});
    (void)pair.host().request_config({.request_class = static_cast<CfgClass>(9), .code = 99});
    pair.run(20);
    ASSERT_EQ(pair.host_events.replies.size(), 4U);
    EXPECT_EQ(pair.host_events.replies[2].status, CfgStatus::kFailed);
    EXPECT_EQ(pair.host_events.replies[3].status, CfgStatus::kUnknownRequest);
    EXPECT_EQ(pair.unit_events.requests.size(), 3U);
    const auto wire = read_wire(pair.pipe, 1024);
    EXPECT_EQ(bodies<CfgUtilRequest>(wire, 0).size(), 4U);
    EXPECT_EQ(bodies<CfgUtilReply>(wire, 1).size(), 4U);
    for (const WireItem& item : wire) {
      if (encoding != MessageEncoding::kBytes) break;
      if (const auto* request = item.body<CfgUtilRequest>()) {
        EXPECT_EQ(load_be<uint32_t>(item.bytes.data() + 16), request->data.size());
        EXPECT_EQ(item.bytes.size(), 20 + request->data.size());
      } else if (const auto* reply = item.body<CfgUtilReply>()) {
        EXPECT_EQ(load_be<uint32_t>(item.bytes.data() + 20), reply->data.size());
        EXPECT_EQ(item.bytes.size(), 24 + reply->data.size());
      }
    }
  }
}

// ---- PUSH-CTRL --------------------------------------------------------------------------------

TEST(PushCtrl, PUSH_CTRL_01_two_queue_pairs_with_disjoint_traffic) {
  covers("PUSH-CTRL-01");
  for (const TransferMode mode : {TransferMode::kRdma, TransferMode::kSendReceive}) {
    SessionPair pair(in_mode(mode));
    exchange(pair);
    const auto wire = read_wire(pair.pipe, 1024);
    SessionOffer offers[2];
    for (const WireItem& item : wire) {
      if (item.kind != WireKind::kCm ||
          (item.cm.kind != CmAttribute::kReq && item.cm.kind != CmAttribute::kRep))
        continue;
      EXPECT_EQ(item.cm.offer.channels, 2);
      offers[item.from] = item.cm.offer;
    }
    // Each channel joins its own queue pair at the host to its own at the unit: all four differ, and cells to
    // one
    // of them come from its partner.
    std::map<std::pair<int, uint32_t>, uint32_t> partner;
    for (int to = 0; to < 2; ++to) {
      const SessionOffer& here = offers[to];
      const SessionOffer& there = offers[1 - to];
      EXPECT_NE(here.control.qpn, here.data.qpn);
      partner[{to, here.control.qpn.value()}] = there.control.qpn.value();
      partner[{to, here.data.qpn.value()}] = there.data.qpn.value();
    }
    EXPECT_EQ(partner.size(), 4U);
    for (const TracedCell& cell : pair.pipe.trace()) {
      if (cell.view.opcode == Opcode::kUdSend) continue;
      EXPECT_EQ(partner.at({1 - cell.from, cell.view.dest_qpn.value()}), cell.view.src_qpn.value());
    }
    EXPECT_EQ(channels_of(wire, WireKind::kMessage), std::set<int>{0});
    const WireKind frames = mode == TransferMode::kRdma ? WireKind::kWrite : WireKind::kPlainSend;
    EXPECT_EQ(channels_of(wire, frames), std::set<int>{1});
    EXPECT_TRUE(channels_of(wire, WireKind::kOther).empty());
  }
}

TEST(PushCtrl, PUSH_CTRL_02_configuration_on_channel_0_only) {
  covers("PUSH-CTRL-02");
  for (const TransferMode mode : {TransferMode::kRdma, TransferMode::kSendReceive}) {
    SessionPair pair(in_mode(mode));
    exchange(pair);
    ask_and_close(pair);
    uint32_t count = 0;
    for (const WireItem& item : read_wire(pair.pipe, 1024)) {
      if (item.body<CfgUtilRequest>() == nullptr && item.body<CfgUtilReply>() == nullptr) continue;
      EXPECT_EQ(item.channel, 0);
      ++count;
    }
    EXPECT_GE(count, 4U);
  }
}

TEST(PushCtrl, PUSH_CTRL_03_send_receive_mode_has_no_acknowledgements) {
  covers("PUSH-CTRL-03");
  SessionPair pair(in_mode(TransferMode::kSendReceive));
  exchange(pair);
  ask_and_close(pair);
  std::set<std::pair<int, int>> used;
  for (const WireItem& item : read_wire(pair.pipe, 1024)) {
    if (item.channel >= 0) used.emplace(item.from, item.channel);
  }
  EXPECT_EQ(used.size(), 4U) << "both channels, both directions";
  for (const TracedCell& cell : pair.pipe.trace()) {
    EXPECT_NE(cell.view.opcode, Opcode::kAck);
    EXPECT_NE(cell.view.opcode, Opcode::kNak);
    EXPECT_FALSE(cell.view.has(kCellAckWanted));
  }
}

TEST(PushCtrl, PUSH_CTRL_04_rdma_mode_is_acknowledged_and_channel_1_carries_writes_only) {
  covers("PUSH-CTRL-04");
  SessionPair pair(in_mode(TransferMode::kRdma));
  exchange(pair);
  ask_and_close(pair);
  std::set<std::pair<int, int>> acknowledged;
  uint32_t requests = 0;
  for (const WireItem& item : read_wire(pair.pipe, 1024)) {
    if (item.kind == WireKind::kAck) acknowledged.emplace(item.from, item.channel);
    if (item.kind == WireKind::kCm && item.cm.kind == CmAttribute::kReq) ++requests;
    if (item.channel == 1 && item.kind != WireKind::kAck) {
      EXPECT_EQ(item.kind, WireKind::kWrite);
    }
    if (item.kind == WireKind::kWrite) {
      EXPECT_EQ(item.channel, 1);
    }
    if (item.kind == WireKind::kMessage) {
      EXPECT_EQ(item.channel, 0);
    }
  }
  EXPECT_EQ(acknowledged.size(), 4U) << "both channels, both directions";
  EXPECT_EQ(requests, 1U) << "one service connection";
}

TEST(PushCtrl, PUSH_CTRL_05_channel_1_carries_the_packet_itself) {
  covers("PUSH-CTRL-05");
  SessionPair pair(in_mode(TransferMode::kSendReceive));
  EXPECT_EQ(pair.stream(0, 0, 10, 1000).size(), 10U);
  EXPECT_EQ(pair.stream(1, 50, 10, 1000).size(), 10U);
  const auto wire = read_wire(pair.pipe, 1024);
  for (int from = 0; from < 2; ++from) {
    uint32_t number = from == 0 ? 0 : 50;
    const auto sends = select(wire, from, WireKind::kPlainSend);
    ASSERT_EQ(sends.size(), 10U);
    for (const WireItem* send : sends) {
      const auto frame = make_frame(number++, 1000);
      EXPECT_TRUE(
          std::equal(frame.begin() + kVnetBytes, frame.end(), send->bytes.begin(), send->bytes.end()));
      EXPECT_FALSE(send->idata.has_value());
    }
  }
}

}  // namespace
}  // namespace weft::test
