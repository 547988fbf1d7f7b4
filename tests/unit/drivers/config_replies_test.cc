// What the unit answers to each request of a host about its NIC: status and data, as the host's session gets
// them.
#include <gtest/gtest.h>

#include <optional>

#include "iou_driver/iou_netdev.h"
#include "messages/cfg_data.h"
#include "tests/support/driver_world.h"
#include "tests/support/session_pair.h"

namespace weft::test {
namespace {

using namespace std::chrono_literals;
using Bytes = std::vector<std::byte>;

Bytes number(uint32_t value) {
  Bytes out(4);
  encode_u32(value, out);
  return out;
}
Bytes address(const MacAddress& mac) {
  Bytes out(mac.size());
  encode_mac(mac, out);
  return out;
}
Bytes filters(bool promiscuous) {
  NicFilters wanted;
  wanted.promiscuous = promiscuous;
  Bytes out(kNicFiltersBytesMax);
  out.resize(encode_filters(wanted, out));
  return out;
}

constexpr MacAddress kSecondMac{0x02, 0, 0, 0, 0x77, 1};
constexpr uint32_t kNicMtu = 1500;

/// A host with address host_mac(0) at a unit whose NIC has address kLanMac, an MTU of 1500 and checksums.
class ConfigReplies : public ::testing::Test {
 protected:
  ConfigReplies() : pair(options()), half(pair.acceptor(), nic, {}) {
    pair.restart_host();
    run();
    EXPECT_EQ(pair.host().state(), session::SessionState::kOpen);
  }
  static SessionPairOptions options() {
    SessionPairOptions out;
    out.host.mac = host_mac(0);
    out.host.features = out.unit.session.features = Offload::kChecksum;
    out.open = false;
    return out;
  }
  void run() {
    for (int i = 0; i < 400; ++i) {
      pair.turn();
      half.poll(pair.clock.now());
    }
  }
  RecordingEvents::Reply ask(CfgClass request_class, uint16_t code, const Bytes& data) {
    pair.host_events.replies.clear();
    const uint64_t asked =
        pair.host().request_config({.request_class = request_class, .code = code, .data = data});
    run();
    if (pair.host_events.replies.size() != 1) {
      ADD_FAILURE() << "no answer to request " << code;
      return {};
    }
    EXPECT_EQ(pair.host_events.replies[0].transaction, asked);
    return pair.host_events.replies[0];
  }
  void expect(MacConfigCode code, const Bytes& data, CfgStatus status, const Bytes& answer = {}) {
    const auto reply = ask(CfgClass::kMacConfig, static_cast<uint16_t>(code), data);
    EXPECT_EQ(reply.status, status) << "code " << static_cast<int>(code);
    EXPECT_EQ(reply.data, answer) << "code " << static_cast<int>(code);
  }
  void expect(UtilityCode code, const Bytes& data, CfgStatus status, const Bytes& answer = {}) {
    const auto reply = ask(CfgClass::kUtility, static_cast<uint16_t>(code), data);
    EXPECT_EQ(reply.status, status) << "code " << static_cast<int>(code);
    EXPECT_EQ(reply.data, answer) << "code " << static_cast<int>(code);
  }
  NicStatistics statistics() {
    NicStatistics out;
    const auto reply = ask(CfgClass::kUtility, static_cast<uint16_t>(UtilityCode::kReadStatistics), {});
    EXPECT_EQ(reply.status, CfgStatus::kGood);
    EXPECT_TRUE(decode_statistics(reply.data, out));
    return out;
  }

  MemoryFramePort nic{kLanMac, Offload::kChecksum, kNicMtu};
  SessionPair pair;
  iou::IouNetdev half;
};

TEST_F(ConfigReplies, about_the_address) {
  expect(MacConfigCode::kGetMac, {}, CfgStatus::kGood, address(host_mac(0)));
  expect(MacConfigCode::kSetMac, address(kSecondMac), CfgStatus::kGood);
  expect(MacConfigCode::kGetMac, {}, CfgStatus::kGood, address(kSecondMac));
  expect(MacConfigCode::kSetMac, number(1), CfgStatus::kBadData);
  expect(MacConfigCode::kSetMac, address(kMacBroadcast), CfgStatus::kBadData);
  nic.refuse_settings = true;
  expect(MacConfigCode::kSetMac, address(host_mac(3)), CfgStatus::kFailed);
  expect(MacConfigCode::kGetMac, {}, CfgStatus::kGood, address(kSecondMac));
}

TEST_F(ConfigReplies, about_the_mtu) {
  expect(MacConfigCode::kGetMtu, {}, CfgStatus::kGood, number(kNicMtu));
  expect(MacConfigCode::kSetMtu, number(68), CfgStatus::kGood);
  expect(MacConfigCode::kGetMtu, {}, CfgStatus::kGood, number(68));
  expect(MacConfigCode::kSetMtu, number(67), CfgStatus::kBadData);
  expect(MacConfigCode::kSetMtu, {}, CfgStatus::kBadData);
  nic.refuse_settings = true;
  expect(MacConfigCode::kSetMtu, number(kNicMtu), CfgStatus::kGood);
  expect(MacConfigCode::kSetMtu, number(kNicMtu + 1), CfgStatus::kLimited, number(kNicMtu));
  expect(MacConfigCode::kGetMtu, {}, CfgStatus::kGood, number(kNicMtu));
  nic.show_mtu(9000);
  expect(MacConfigCode::kGetMtu, {}, CfgStatus::kGood, number(kNicMtu + 1));
}

TEST_F(ConfigReplies, about_filters_and_features) {
  expect(MacConfigCode::kSetFilters, filters(false), CfgStatus::kGood);
  expect(MacConfigCode::kSetFilters, filters(true), CfgStatus::kNotPermitted);
  expect(MacConfigCode::kSetFilters, number(0), CfgStatus::kBadData);
  nic.refuse_settings = true;
  expect(MacConfigCode::kSetFilters, filters(false), CfgStatus::kFailed);
  const auto all = static_cast<uint32_t>(kOffloadsAll);
  const auto checksum = static_cast<uint32_t>(Offload::kChecksum);
  expect(MacConfigCode::kSetFeatures, number(all), CfgStatus::kGood, number(checksum));
  expect(MacConfigCode::kSetFeatures, number(0), CfgStatus::kGood, number(0));
  expect(MacConfigCode::kSetFeatures, number(2 * (all + 1)), CfgStatus::kBadData);
  expect(MacConfigCode::kInitialise, {}, CfgStatus::kGood);
  expect(MacConfigCode::kInitialise, number(0), CfgStatus::kBadData);
  expect(static_cast<MacConfigCode>(99), {}, CfgStatus::kUnknownRequest);
}

TEST_F(ConfigReplies, about_capabilities_and_the_link) {
  const FramePortInfo& info = nic.info();
  Bytes capabilities(kNicCapabilitiesBytes);
  encode_capabilities(
      {.offloads = info.offloads, .mtu_bytes = info.mtu_bytes, .frame_bytes_max = info.frame_bytes_max},
      capabilities);
  expect(UtilityCode::kCapabilities, {}, CfgStatus::kGood, capabilities);
  for (const uint32_t state : {0U, 1U}) expect(UtilityCode::kLinkState, number(state), CfgStatus::kGood);
  expect(UtilityCode::kLinkState, number(2), CfgStatus::kBadData);
  expect(UtilityCode::kLinkState, {}, CfgStatus::kBadData);
  expect(static_cast<UtilityCode>(99), {}, CfgStatus::kUnknownRequest);
}

/// What the NIC moved for the host, until the host clears it.
TEST_F(ConfigReplies, about_statistics) {
  EXPECT_EQ(statistics(), NicStatistics{});
  const auto to_lan = make_ethernet(kLanMac, host_mac(0), 1, 300);
  const std::span<std::byte> into = pair.host().claim_frame(2000);
  ASSERT_GE(into.size(), kVnetBytes + to_lan.size());
  std::fill_n(into.begin(), kVnetBytes, std::byte{0});
  std::copy(to_lan.begin(), to_lan.end(), into.begin() + kVnetBytes);
  pair.host().submit_frame(static_cast<uint32_t>(kVnetBytes + to_lan.size()));
  for (uint32_t i = 0; i < 2; ++i) nic.inject(make_ethernet(host_mac(0), kLanMac, i, 100));
  run();
  const NicStatistics moved{.frames_in = 2, .bytes_in = 200, .frames_out = 1, .bytes_out = 300};
  EXPECT_EQ(statistics(), moved);
  EXPECT_EQ(statistics(), moved) << "to read is not to clear";
  expect(UtilityCode::kClearStatistics, {}, CfgStatus::kGood);
  EXPECT_EQ(statistics(), NicStatistics{});
}

}  // namespace
}  // namespace weft::test
