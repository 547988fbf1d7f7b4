// What the driver halves refuse, drop or fail to do: each under its own name and no other, and the session
// goes on (decisions 5.9).
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "base/net/vnet_header.h"
#include "tests/support/driver_world.h"
#include "tests/support/reason_table.h"
#include "tests/support/session_pair.h"

namespace weft::test {
namespace {

using namespace std::chrono_literals;
using Bytes = std::vector<std::byte>;
constexpr MacAddress kForeign{0x02, 0, 0, 0, 0x66, 0x66};
constexpr MacAddress kGroup{0x01, 0, 0x5E, 0, 0, 0x05};

struct Bench {
  DriverWorld& make() { return world.emplace(config); }
  DriverWorld& open() {
    make().run_until_open();
    return *world;
  }
  /// From here on the test answers the host's requests in the place of the unit.
  void answer_for_the_unit(CfgStatus status, uint32_t bytes) {
    unit.answer.status = status;
    unit.answer.bytes = bytes;
    world->units[0].acceptor->set_events(&unit);
  }
  session::NetdevSession& unit_session() { return *world->units[0].acceptor->sessions().front(); }

  DriverWorldConfig config;
  RecordingEvents unit;
  std::optional<DriverWorld> world;
};

Bytes with_vnet(const VnetHeader& vnet, const Bytes& frame) {
  Bytes bytes(kVnetBytes);
  store_vnet(bytes.data(), vnet);
  bytes.insert(bytes.end(), frame.begin(), frame.end());
  return bytes;
}

/// To be segmented, but its TCP header is shorter than any.
Bytes uncuttable(const MacAddress& to, const MacAddress& from) {
  Bytes frame = make_ethernet(to, from, 1, 1000, kEtherTypeIpv4);
  std::fill_n(frame.begin() + kEthernetHeaderBytes, 40, std::byte{0});
  frame[14] = std::byte{0x45};
  frame[23] = std::byte{kIpProtocolTcp};
  frame[46] = std::byte{0x10};
  return with_vnet({.flags = kVnetNeedsChecksum,
                    .gso_type = static_cast<uint8_t>(VnetGso::kTcp4),
                    .gso_bytes = 100,
                    .checksum_start = 34,
                    .checksum_offset = 16},
                   frame);
}

template <class Reason>
struct Case {
  Reason reason;
  void (*provoke)(Bench& at);
};
template <class Reason>
Case(Reason, void (*)(Bench&)) -> Case<Reason>;

// ---- the unit half ----------------------------------------------------------------------------

constexpr std::array kUnitCases{
    Case{iou::UnitCounter::kBadVnetHeader,
         [](Bench& at) {
           const Bytes frame = make_ethernet(kLanMac, host_mac(0), 1);
           at.open().os().inject_raw(with_vnet({.flags = 0x80}, frame));
         }},
    Case{iou::UnitCounter::kForeignSource,
         [](Bench& at) { at.open().os().inject(make_ethernet(kLanMac, kForeign, 1)); }},
    Case{iou::UnitCounter::kGroupSource,
         [](Bench& at) { at.open().os().inject(make_ethernet(kLanMac, kGroup, 1)); }},
    Case{iou::UnitCounter::kTooLongForMtu,
         [](Bench& at) { at.open().os().inject(make_ethernet(kLanMac, host_mac(0), 1, 1519)); }},
    Case{iou::UnitCounter::kNicRefused,
         [](Bench& at) {
           at.open().nic().drop = true;
           at.world->os().inject(make_ethernet(kLanMac, host_mac(0), 1));
         }},
    Case{iou::UnitCounter::kNicDown,
         [](Bench& at) {
           at.open().nic().down = true;
           at.world->os().inject(make_ethernet(kLanMac, host_mac(0), 1));
         }},
    Case{iou::UnitCounter::kNoHostFor,
         [](Bench& at) { at.open().nic().inject(make_ethernet(kForeign, kLanMac, 1)); }},
    Case{iou::UnitCounter::kLanReadRefused,
         [](Bench& at) { at.open().nic().inject(make_ethernet(host_mac(0), kLanMac, 1, 70'000)); }},
    Case{iou::UnitCounter::kLanBadVnetHeader,
         [](Bench& at) {
           const Bytes frame = make_ethernet(host_mac(0), kLanMac, 1);
           at.open().nic().inject_raw(with_vnet({.flags = 0x80}, frame));
         }},
    Case{iou::UnitCounter::kUncuttableForHost,
         [](Bench& at) {
           at.config.nic_offloads = Offload::kChecksum | Offload::kTso4;
           at.open().nic().inject_raw(uncuttable(host_mac(0), kLanMac));
         }},
    Case{iou::UnitCounter::kUncuttableForHost,
         [](Bench& at) {  // between hosts
           at.config.hosts = 2;
           at.config.host_offloads = Offload::kChecksum | Offload::kTso4;
           at.open().host(1).controller().set_features(Offload::kNone);
           at.world->run();
           at.world->os(0).inject_raw(uncuttable(host_mac(1), host_mac(0)));
         }},
    Case{iou::UnitCounter::kTooLongForHost,
         [](Bench& at) {
           at.config.mode = TransferMode::kSendReceive;
           at.open().nic().inject(make_ethernet(host_mac(0), kLanMac, 1, 20'000));
         }},
    Case{iou::UnitCounter::kSlowHostDrops,
         [](Bench& at) {
           at.config.hosts = 2;
           at.config.pools = {{2048, 4}};
           at.open().os(1).busy = true;
           for (uint32_t i = 0; i < 40; ++i) at.world->nic().inject(make_ethernet(host_mac(1), kLanMac, i));
           at.world->run_for(iou::kSlowHostMax + 100ms);
         }},
    Case{iou::UnitCounter::kHostsRefusedMac,
         [](Bench& at) {
           at.config.macs = {kGroup};
           at.make().run_for(100ms);
         }},
    Case{iou::UnitCounter::kNicOffloadErrors,
         [](Bench& at) {
           at.config.host_offloads = at.config.nic_offloads = Offload::kChecksum;
           at.make().nic().refuse_settings = true;
           at.world->run_until_open();
         }},
};
static_assert(names_every_reason(kUnitCases, iou::UnitCounter::kBadVnetHeader, iou::UnitCounter::kCount));

TEST(UnitReasons, each_has_its_own_counter_and_nothing_passes) {
  for (const auto& one : kUnitCases) {
    Bench at;
    one.provoke(at);
    at.world->run();
    expect_only(at.world->unit().counters(), one.reason, iou::UnitCounter::kBadVnetHeader,
                iou::UnitCounter::kCount);
    EXPECT_TRUE(at.world->nic().written.empty());
    EXPECT_TRUE(at.world->os().written.empty());
    const bool refused = one.reason == iou::UnitCounter::kHostsRefusedMac;
    EXPECT_EQ(at.world->session().state() == session::SessionState::kOpen, !refused);
    EXPECT_EQ(at.world->unit().counters().get(iou::UnitCounter::kHostsAdmitted),
              refused ? 0 : at.config.hosts);
  }
}

TEST(UnitReasons, a_frame_that_is_too_long_for_a_host_is_among_its_drops) {
  for (const auto& one : kUnitCases) {
    if (one.reason != iou::UnitCounter::kTooLongForHost) continue;
    Bench at;
    one.provoke(at);
    at.world->run();
    at.world->host().controller().read_statistics();
    at.world->run();
    EXPECT_EQ(at.world->host().controller().statistics().drops, 1U);
  }
}

// ---- the host half ----------------------------------------------------------------------------

void hand_to_host(Bench& at, const Bytes& bytes) {
  const std::span<std::byte> into = at.unit_session().claim_frame(2000);
  ASSERT_GE(into.size(), bytes.size());
  std::copy(bytes.begin(), bytes.end(), into.begin());
  at.unit_session().submit_frame(static_cast<uint32_t>(bytes.size()));
}

constexpr std::array<std::byte, 4> kTwo{std::byte{0}, std::byte{0}, std::byte{0}, std::byte{2}};

constexpr std::array kHostCases{
    Case{host::HostCounter::kBadVnetHeader,
         [](Bench& at) {
           at.open();
           hand_to_host(at, with_vnet({.gso_type = 77}, make_ethernet(host_mac(0), kLanMac, 1)));
         }},
    Case{host::HostCounter::kOsRefused,
         [](Bench& at) {
           at.open().os().drop = true;
           at.world->nic().inject(make_ethernet(host_mac(0), kLanMac, 1));
         }},
    Case{host::HostCounter::kOsDown,
         [](Bench& at) {
           at.open().os().down = true;
           at.world->nic().inject(make_ethernet(host_mac(0), kLanMac, 1));
         }},
    Case{host::HostCounter::kReadRefused,
         [](Bench& at) { at.open().os().inject(make_ethernet(kLanMac, host_mac(0), 1, 70'000)); }},
    Case{host::HostCounter::kUnknownRequests,
         [](Bench& at) {
           at.open();
           EXPECT_NE(at.unit_session().request_config({.request_class = CfgClass::kMacConfig, .code = 99}),
                     0U);
         }},
    Case{host::HostCounter::kBadRequests,
         [](Bench& at) {
           at.open();
           const auto code = static_cast<uint16_t>(UtilityCode::kLinkState);
           EXPECT_NE(at.unit_session().request_config({.code = code, .data = kTwo}), 0U);
         }},
    Case{host::HostCounter::kOsOffloadErrors,
         [](Bench& at) {
           at.config.host_offloads = at.config.nic_offloads = Offload::kChecksum;
           at.make().os().refuse_settings = true;
           at.world->run_until_open();
         }},
};
static_assert(names_every_reason(kHostCases, host::HostCounter::kBadVnetHeader, host::HostCounter::kCount));

TEST(HostReasons, each_has_its_own_counter_and_nothing_passes) {
  for (const auto& one : kHostCases) {
    Bench at;
    one.provoke(at);
    at.world->run();
    expect_only(at.world->host().counters(), one.reason, host::HostCounter::kBadVnetHeader,
                host::HostCounter::kCount);
    EXPECT_TRUE(at.world->os().written.empty());
    EXPECT_TRUE(at.world->nic().written.empty());
    EXPECT_TRUE(at.world->os().carrier_set);
    EXPECT_EQ(at.world->session().state(), session::SessionState::kOpen);
  }
}

// ---- configuration ----------------------------------------------------------------------------

void ask(Bench& at, MacConfigCode code, std::span<const std::byte> data, size_t host = 0) {
  EXPECT_NE(at.world->session(host).request_config(
                {.request_class = CfgClass::kMacConfig, .code = static_cast<uint16_t>(code), .data = data}),
            0U);
}

void ask_for_mac(Bench& at, const MacAddress& mac, size_t host = 0) {
  ask(at, MacConfigCode::kSetMac, std::as_bytes(std::span(mac)), host);
}

constexpr std::array kConfigCases{
    Case{iou::ConfigCounter::kUnknown,
         [](Bench& at) {
           at.open();
           ask(at, static_cast<MacConfigCode>(99), {});
         }},
    Case{iou::ConfigCounter::kBadData,
         [](Bench& at) {
           at.open();
           ask(at, MacConfigCode::kSetMac, kTwo);
         }},
    Case{iou::ConfigCounter::kBadData,
         [](Bench& at) {
           at.open();
           constexpr std::array<std::byte, 4> kLess{{{}, {}, {}, std::byte{67}}};
           ask(at, MacConfigCode::kSetMtu, kLess);
         }},
    Case{iou::ConfigCounter::kBadData,
         [](Bench& at) {  // a feature that does not exist
           at.open();
           constexpr std::array<std::byte, 4> kMore{{std::byte{0x80}, {}, {}, {}}};
           ask(at, MacConfigCode::kSetFeatures, kMore);
         }},
    Case{iou::ConfigCounter::kMacTaken,
         [](Bench& at) {
           at.config.hosts = 2;
           at.open();
           ask_for_mac(at, host_mac(1));
         }},
    Case{iou::ConfigCounter::kPromiscuousRefused,
         [](Bench& at) {
           at.open();
           NicFilters filters;
           filters.promiscuous = true;
           std::array<std::byte, kNicFiltersBytesMax> data{};
           ask(at, MacConfigCode::kSetFilters, std::span(data).first(encode_filters(filters, data)));
         }},
    Case{iou::ConfigCounter::kNicRefused,
         [](Bench& at) {
           at.open().nic().refuse_settings = true;
           ask_for_mac(at, kForeign);
         }},
    Case{
        iou::ConfigCounter::kMtuLimited,
        [](Bench& at) {
          at.open().nic().refuse_settings = true;
          constexpr std::array<std::byte, 4> kMore{std::byte{0}, std::byte{0}, std::byte{0x40}, std::byte{0}};
          ask(at, MacConfigCode::kSetMtu, kMore);
        }},
};
static_assert(names_every_reason(kConfigCases, iou::ConfigCounter::kUnknown, iou::ConfigCounter::kCount));

TEST(ConfigReasons, each_has_its_own_counter_and_changes_nothing) {
  for (const auto& one : kConfigCases) {
    Bench at;
    one.provoke(at);
    const auto& config = at.world->unit().config().counters();
    const uint64_t applied = config.get(iou::ConfigCounter::kApplied);
    EXPECT_GT(applied, 0U);
    at.world->run();
    expect_only(config, one.reason, iou::ConfigCounter::kUnknown, iou::ConfigCounter::kCount);
    EXPECT_EQ(config.get(iou::ConfigCounter::kApplied), applied);
    for (const iou::UnitClient& client : at.world->unit().clients()) {
      EXPECT_EQ(client.mac, client.session->peer().mac);
      EXPECT_FALSE(client.filters.promiscuous);
    }
    EXPECT_EQ(at.world->session().state(), session::SessionState::kOpen);
  }
}

constexpr std::array kControllerCases{
    Case{host::ControllerCounter::kRefused,
         [](Bench& at) {
           at.open().host().controller().read_statistics();
           at.answer_for_the_unit(CfgStatus::kNotPermitted, 0);
         }},
    Case{host::ControllerCounter::kFailed,
         [](Bench& at) {
           at.open().host().controller().read_statistics();
           at.answer_for_the_unit(CfgStatus::kFailed, 0);
         }},
    Case{host::ControllerCounter::kLimited,
         [](Bench& at) {
           at.open().host().controller().set_mtu(9000);
           at.answer_for_the_unit(CfgStatus::kLimited, 4);
         }},
    Case{host::ControllerCounter::kTimedOut,
         [](Bench& at) {
           at.open().host().controller().read_statistics();
           at.world->nodes[at.world->units[0].node].paused = true;
           at.world->run_for(session::SessionLimits{}.config_timeout + 100ms);
           EXPECT_EQ(at.world->session().counters().get(session::SessionCounter::kConfigTimedOut), 1U);
         }},
    Case{host::ControllerCounter::kBadReply,
         [](Bench& at) {
           at.open().host().controller().read_statistics();
           at.answer_for_the_unit(CfgStatus::kGood, kNicStatisticsBytes - 1);
         }},
};
static_assert(names_every_reason(kControllerCases, host::ControllerCounter::kRefused,
                                 host::ControllerCounter::kCount));

TEST(ControllerReasons, each_has_its_own_counter) {
  for (const auto& one : kControllerCases) {
    Bench at;
    one.provoke(at);
    at.world->run();
    host::NicController& controller = at.world->host().controller();
    expect_only(controller.counters(), one.reason, host::ControllerCounter::kRefused,
                host::ControllerCounter::kCount);
    EXPECT_EQ(controller.statistics_read(), 0U);
    EXPECT_EQ(at.world->session().state(), session::SessionState::kOpen);
  }
}

TEST(ControllerReasons, features_that_were_not_asked_for_are_not_granted) {
  Bench at;
  host::NicController& controller = at.open().host().controller();
  controller.set_features(Offload::kChecksum);
  at.answer_for_the_unit(CfgStatus::kGood, 4);
  encode_u32(static_cast<uint32_t>(Offload::kChecksum | Offload::kTso4),
             std::span(at.unit.answer.data).first<4>());
  at.world->run();
  EXPECT_EQ(controller.granted(), Offload::kChecksum);
}

}  // namespace
}  // namespace weft::test
