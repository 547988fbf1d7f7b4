// The configuration of a process and its command line: what is written is what is read, for any spec; and
// what a person writes wrongly is refused with what would be right.
#include "node/spec_codec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "base/rng.h"
#include "fabric/carrier/limits.h"
#include "fabric/link/link_handshake.h"

namespace weft::node {
namespace {

using Strings = std::vector<std::string>;

/// Draws specs that a process could have; every field takes its default now and then.
class SpecMaker {
 public:
  explicit SpecMaker(uint64_t seed) : random_(seed) {}

  SwitchSpec make_switch() {
    SwitchSpec spec;
    fill(spec);
    for (uint64_t i = below(4); i > 0; --i) spec.nodes.push_back({name(), guid(), lid()});
    for (uint64_t i = below(4); i > 0; --i) {
      NeighbourSpec& neighbour = spec.neighbours.emplace_back();
      neighbour.name = name() + std::to_string(i);  // options find a neighbour by its name
      neighbour.guid = guid();
      for (uint64_t n = below(3); n > 0; --n) neighbour.beyond.push_back(lid());
      const auto first = static_cast<uint16_t>(1 + below(1000));
      for (uint16_t n = 0; n < below(40); ++n)
        neighbour.beyond.push_back(Lid(static_cast<uint16_t>(first + n)));
      if (maybe()) neighbour.endpoint = text();
      if (!neighbour.endpoint.empty() && maybe()) neighbour.key = text();
    }
    if (maybe()) spec.ports = 1 + below(kSwitchPortsMax);
    for (uint64_t i = below(3); i > 0; --i) spec.listen.push_back(text());
    if (maybe()) spec.curve_allow = text();
    if (maybe()) spec.spare_ports = below(kSwitchPortsMax + 1);
    if (maybe()) spec.spare_lid = lid();
    if (maybe()) spec.spare_lids = below(kSpareLidMax + 1U);
    spec.cut_through = maybe();
    for (uint32_t i = below(4); i > 0; --i)
      spec.lane_order.high.push_back({below(spec.links.lanes), 1 + below(kLaneWeightMax)});
    const uint32_t low = maybe() ? spec.links.lanes : 0;
    for (uint32_t lane = 0; lane < low; ++lane)
      spec.lane_order.low.push_back({lane, 1 + below(kLaneWeightMax)});
    if (!spec.lane_order.high.empty() && maybe()) spec.lane_order.high_limit = 1 + below(kHighLimitNone);
    return spec;
  }

  HostSpec make_host() {
    HostSpec spec;
    fill_endnode(spec);
    for (uint64_t i = 1 + below(4); i > 0; --i) {
      HostPortSpec& port = spec.ports.emplace_back();
      port.unit = lid();
      port.os.kind = kOsKinds[below(kOsKinds.size())].kind;
      fill_argument(row_of(port.os.kind).argument, port.os.argument);
      if (maybe()) port.fd = static_cast<int>(below(1000));
      if (maybe()) port.mac = MacAddress{2, byte(), byte(), byte(), byte(), byte()};
      if (maybe()) port.mtu_bytes = kMtuMin + below(kMtuMax - kMtuMin + 1);
      port.promiscuous = maybe();
    }
    const uint32_t more = fill_links(spec);
    for (HostPortSpec& port : spec.ports)
      if (maybe()) port.via = 1 + below(more + 1);
    spec.mode =
        std::array{TransferMode::kRdma, TransferMode::kSendReceive, TransferMode::kSendDataOnly}[below(3)];
    spec.encoding = maybe() ? MessageEncoding::kBytes : MessageEncoding::kCapnp;
    if (spec.mode != TransferMode::kSendReceive && maybe()) spec.acks = AckPolicy::kStrict;
    return spec;
  }

  UnitSpec make_unit() {
    UnitSpec spec;
    fill_endnode(spec);
    fill_links(spec);
    spec.nic.kind = kNicKinds[below(kNicKinds.size())].kind;
    fill_argument(row_of(spec.nic.kind).argument, spec.nic.argument);
    std::erase(spec.nic.argument, ',');
    if (row_of(spec.nic.kind).argument == PortArgument::kFiles && maybe()) spec.nic.output = text();
    if (maybe()) spec.nic_fd = static_cast<int>(below(1000));
    spec.bridge = maybe();
    spec.promiscuous_allowed = maybe();
    if (maybe()) spec.hosts_max = 1 + below(kHostsPerUnitMax);
    return spec;
  }

 private:
  uint32_t below(uint64_t bound) { return static_cast<uint32_t>(random_.below(bound)); }
  bool maybe() { return below(2) == 0; }
  uint8_t byte() { return static_cast<uint8_t>(below(256)); }
  Lid lid() { return Lid(static_cast<uint16_t>(1 + below(kLidMax))); }
  Guid guid() { return Guid(random_.next() | 1U); }
  std::string letters(std::string_view from, uint64_t bytes) {
    std::string out;
    for (; bytes > 0; --bytes) out += from[below(from.size())];
    return out;
  }
  std::string name() { return "n" + letters("abcXYZ019-_.", below(20)); }
  /// A path or endpoint: whatever a file may be called, dashes, spaces and signs of the options included.
  std::string text() { return letters("-/=:, x\"'#\\", 1) + letters("abc/=:,.- \"'#\\[]", below(30)); }

  void fill_argument(PortArgument form, std::string& argument) {
    if (form == PortArgument::kInterface) argument = "i" + letters("abc019-_.", below(14));
    if (form == PortArgument::kPath || form == PortArgument::kFiles) argument = "/" + text();
  }
  void fill(ProcessSpec& spec) {
    spec.name = name();
    if (maybe()) spec.dir = text();
    spec.log_level =
        std::array{LogLevel::kDebug, LogLevel::kInfo, LogLevel::kWarn, LogLevel::kError}[below(4)];
    spec.guid = guid();
    if (maybe()) spec.parent_fd = static_cast<int>(below(1000));
    if (maybe()) spec.core = below(kCoreMax + 1);
    if (maybe()) spec.curve_secret = text();
    if (maybe())
      spec.links.cell_payload_bytes =
          kCellPayloadBytesMin + below(kCellPayloadBytesMax - kCellPayloadBytesMin + 1);
    if (maybe()) spec.links.flit_payload_bytes = below(cell_bytes_max(kCellPayloadBytesMax) + 1);
    if (maybe()) spec.links.lanes = 1 + below(fabric::kDataLanesMax);
    if (maybe()) spec.links.silence = fabric::kZmqSilenceMin + below(59'001) * Duration(1ms);
    if (maybe()) spec.links.credits = 1 + below(fabric::kCreditsPerLaneMax);
  }
  uint32_t fill_links(EndnodeSpec& spec) {
    const uint32_t more = spec.lid == kLidNone ? 0 : below(kLinksMax);
    spec.adapter_per_link = more != 0 && maybe();
    for (uint32_t i = 0; i < more; ++i) {
      FurtherLinkSpec& link = spec.further_links.emplace_back();
      link.guid = guid();
      link.lid = lid();
      link.endpoint = text();
      if (maybe()) link.curve_secret = text();
      if (maybe()) link.curve_server = text();
    }
    return more;
  }
  void fill_endnode(EndnodeSpec& spec) {
    fill(spec);
    if (maybe()) {  // else a spare port
      spec.lid = lid();
    } else {
      spec.guid = Guid{};
    }
    spec.endpoint = text();
    if (maybe()) spec.curve_server = text();
    uint32_t bytes = kOwnElementBytesMin;
    for (uint64_t i = below(kPoolsMax + 1); i > 0; --i) {
      spec.pools.push_back({bytes, 1 + below(kOwnElementsTogetherMax / kPoolsMax)});
      bytes += 1 + below(100'000);
    }
  }

  SeededRandom random_;
};

/// Reads `arguments` into a fresh spec; the complaint, if any, in `said`.
template <class Spec>
std::optional<int> read(const Strings& arguments, Spec& out, std::string& said) {
  ::testing::internal::CaptureStderr();
  const std::optional<int> code = decode(arguments, out);
  said = ::testing::internal::GetCapturedStderr();
  return code;
}

template <class Spec>
void expect_same_again(const Spec& spec) {
  const Strings arguments = encode(spec);
  Spec got;
  std::string said;
  EXPECT_EQ(read(arguments, got, said), std::nullopt) << said;
  EXPECT_TRUE(got == spec) << ::testing::PrintToString(arguments) << "\n"
                           << ::testing::PrintToString(encode(got));
}

TEST(SpecCodec, what_is_written_is_read_again) {
  for (uint64_t seed = 1; seed <= 400 && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    SpecMaker maker(seed);
    expect_same_again(maker.make_switch());
    expect_same_again(maker.make_host());
    expect_same_again(maker.make_unit());
  }
}

TEST(SpecCodec, defaults_are_left_out) {
  UnitSpec spec;
  spec.name = "u1";
  spec.guid = Guid(0xB1);
  spec.lid = Lid(2);
  spec.endpoint = "shm:/d/s1.sock";
  EXPECT_EQ(encode(spec), (Strings{"--name", "u1", "--guid", "00000000000000b1", "--lid", "2", "--switch",
                                   "shm:/d/s1.sock", "--nic", "echo"}));
}

const Strings kHost{"--name", "h1", "--guid", "a1", "--lid", "1", "--switch", "shm:/d/s", "--unit", "2"};
const Strings kUnit{"--name", "u1", "--guid", "b1", "--lid", "2", "--switch", "shm:/d/s"};
const Strings kSwitch{"--name", "s1", "--guid", "51"};

struct Refused {
  Strings arguments;
  const char* answer;  // how the line begins
};

template <class Spec>
void expect_refused(const char* program, const Strings& rest, const std::vector<Refused>& table) {
  for (const Refused& bad : table) {
    Strings arguments = rest;
    arguments.insert(arguments.end(), bad.arguments.begin(), bad.arguments.end());
    Spec got;
    std::string said;
    EXPECT_EQ(read(arguments, got, said), 2);
    const std::string wanted = std::string(program) + ": " + bad.answer;
    EXPECT_EQ(said.substr(0, wanted.size()), wanted) << said;
    EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
  }
}

TEST(SpecCodec, numbers_are_read_whole) {
  const Strings host = [] {
    Strings out = kHost;
    out.insert(out.end(), {"--os", "gen"});
    return out;
  }();
  expect_refused<HostSpec>(
      "weft-host", host,
      {{{"--unit", "12abc", "--os", "gen"}, "option --unit 12abc: a LID is a whole number from 1 to 65534"},
       {{"--unit", "0", "--os", "gen"}, "option --unit 0: a LID is"},
       {{"--unit", "65535", "--os", "gen"}, "option --unit 65535: a LID is"},
       {{"--os-fd", "3x"}, "option --os-fd 3x: not a whole number"},
       {{"--mtu", "9000 "}, "option --mtu 9000 : not a whole number from 68 to 9000"},
       {{"--mtu", "67"}, "option --mtu 67: not a whole number from 68 to 9000"},
       {{"--pool", "2048x16x"}, "option --pool 2048x16x: write ELEMENT_BYTESxELEMENTS"},
       {{"--pool", "x16"}, "option --pool x16: write ELEMENT_BYTESxELEMENTS"},
       {{"--core", "1024"}, "option --core 1024: not a whole number from 0 to 1023"},
       {{"--credits", "1e3"}, "option --credits 1e3: not a whole number"}});
  expect_refused<SwitchSpec>(
      "weft-switch", kSwitch,
      {{{"--node", "h1=a1:1x"}, "option --node h1=a1:1x: a LID is a whole number"},
       {{"--node", "h1=a1g:1"}, "option --node h1=a1g:1: a GUID is up to 16 hex"},
       {{"--neighbour", "s2=52:4,"}, "option --neighbour s2=52:4,: no LID stands"},
       {{"--neighbour", "s2=52:9-4"}, "option --neighbour s2=52:9-4: 9-4: the lower LID"},
       {{"--neighbour", "s2=52:4-"}, "option --neighbour s2=52:4-: a LID is a whole"},
       {{"--ports", "255"}, "option --ports 255: not a whole number from 1 to 254"},
       {{"--high-lane", "3"}, "option --high-lane 3: write LANE:WEIGHT, like 3:64"},
       {{"--high-lane", "3:64x"}, "option --high-lane 3:64x: write LANE:WEIGHT"},
       {{"--high-lane", "15:64"}, "option --high-lane 15:64: lane 15: data lanes are 0 to 14"},
       {{"--low-lane", "0:0"}, "option --low-lane 0:0: weight 0: choose 1 to 255"},
       {{"--low-lane", "0:256"}, "option --low-lane 0:256: weight 256: choose 1 to 255"},
       {{"--high-lane", "3:1", "--high-limit", "0"},
        "option --high-limit 0: not a whole number from 1 to 255"}});
}

TEST(SpecCodec, unknown_kinds_are_refused) {
  expect_refused<HostSpec>(
      "weft-host", kHost,
      {{{"--os", "teapot:x"}, "option --os teapot:x: write tap:INTERFACE, gen or unix:PATH"},
       {{"--os", "gem"}, "option --os gem: write tap:INTERFACE, gen or unix:PATH; did you mean 'gen'?"},
       {{"--os", "tap"}, "option --os tap: write tap:INTERFACE"},
       {{"--os", "tap:../x"}, "option --os tap:../x: '../x' cannot name an interface: a name may not begin"},
       {{"--os", "gen:7"}, "option --os gen:7: gen takes no '7'"},
       {{"--os", "gen", "--mode", "fast"}, "option --mode fast: one of rdma, sendrecv, senddata"},
       {{"--os", "gen", "--acks", "each"}, "option --acks each: one of selective, strict"},
       {{"--os", "gen", "--acks", "strict", "--mode", "sendrecv"},
        "--acks: no strict acknowledgements in mode sendrecv, which has none"},
       {{"--os", "gen", "--encoding", "xml"}, "option --encoding xml: one of capnp, bytes"}});
  expect_refused<UnitSpec>(
      "weft-iou", kUnit,
      {{{"--nic", "ecco"},
        "option --nic ecco: write echo, tap:INTERFACE, packet:INTERFACE, slirp or pcap:IN[,OUT]; did you "
        "mean"},
       {{"--nic", "packet:"}, "option --nic packet:: write packet:INTERFACE"},
       {{"--nic", "pcap:,out"}, "option --nic pcap:,out: write pcap:IN[,OUT]"},
       {{"--nic", "echo", "--sessions", "32"}, "option --sessions 32: not a whole number from 1 to 31"}});
}

TEST(SpecCodec, what_is_missing_or_does_not_pair_is_said) {
  expect_refused<UnitSpec>("weft-iou", kUnit, {{{}, "--nic is missing: echo needs no right and no network"}});
  expect_refused<SwitchSpec>("weft-switch", {"--name", "s1"},
                             {{{}, "--guid is missing: 16 hexadecimal digits"}});
  expect_refused<UnitSpec>("weft-iou", {"--name", "u1", "--switch", "shm:/s", "--nic", "echo"},
                           {{{"--lid", "3"}, "--lid and --guid belong together; without both"},
                            {{"--guid", "3"}, "--lid and --guid belong together; without both"}});
  expect_refused<HostSpec>(
      "weft-host", {"--name", "h1", "--guid", "a1", "--lid", "1"},
      {{{}, "--switch is missing: shm:DIR/SWITCH.sock"}, {{"--switch", "shm:/s"}, "--unit is missing"}});
  expect_refused<HostSpec>(
      "weft-host", kHost,
      {{{}, "give one --os for each --unit"},
       {{"--os", "gen", "--os", "gen"}, "give one --os for each --unit"},
       {{"--os", "gen", "--mac", "auto", "--mac", "auto"}, "give at most one --os-fd, --mac, --mtu"},
       {{"--os", "gen", "--mac", "01:00:00:00:00:01"},
        "option --mac 01:00:00:00:00:01: six hexadecimal pairs"},
       {{"--os", "gen", "--via", "1", "--via", "1"},
        "give at most one --os-fd, --mac, --mtu, --promiscuous and --via"},
       {{"--os", "gen", "--via", "2"}, "--via 2: this host has 1 links"},
       {{"--os", "gen", "--via", "3", "--link", "a2:3:shm:/e/s"}, "--via 3: this host has 2 links"},
       {{"--os", "gen", "--link", "a2:3"}, "option --link a2:3: write GUID:LID:ENDPOINT"},
       {{"--os", "gen", "--link", "a2:3:"}, "option --link a2:3:: write GUID:LID:ENDPOINT"},
       {{"--os", "gen", "--link", "a2:0:shm:/e/s"}, "option --link a2:0:shm:/e/s: a LID is"},
       {{"--os", "gen", "--link-curve-server", "/k"},
        "give at most one --link-curve-secret and --link-curve-server for each --link"},
       {{"--os", "gen", "--pool", "2048x4", "--pool", "2048x8"},
        "--pool: list the pools from the smallest"}});
  expect_refused<HostSpec>(
      "weft-host", {"--name", "../h1"},
      {{{"--guid", "a1", "--lid", "1", "--switch", "shm:/s", "--unit", "2", "--os", "gen"},
        "--name: '../h1' cannot name a node: a name may not begin with '.'"}});
  expect_refused<SwitchSpec>(
      "weft-switch", kSwitch,
      {{{"--join", "s3=shm:/d/s3.sock"}, "--join s3=shm:/d/s3.sock: there is no --neighbour s3"},
       {{"--neighbour", "s2=52:4", "--join", "s2=shm:/a", "--join", "s2=shm:/b"},
        "--join s2=shm:/b: stands twice"},
       {{"--neighbour", "s2=52:4", "--neighbour-key", "s2=/k"},
        "--neighbour-key s2=/k: there is no --join s2"},
       {{"--neighbour", "s2=52:4", "--join", "s2=shm:/a", "--neighbour-key", "s2=/k", "--neighbour-key",
         "s2=/l"},
        "--neighbour-key s2=/l: stands twice"},
       {{"--high-lane", "4:1"},
        "--high-lane, --low-lane: there is no lane 4: links have 4 data lanes, from 0"},
       {{"--high-lane", "3:1", "--low-lane", "0:1", "--low-lane", "1:1"},
        "--high-lane, --low-lane: lane 2 stands in no table and would never send"},
       {{"--high-limit", "9"}, "--high-lane, --low-lane: a limit for high lanes, but no lane is high"}});
}

TEST(SpecCodec, people_may_write_less_than_the_launcher) {
  Strings arguments = kHost;
  arguments.insert(arguments.end(),
                   {"--os", "gen:", "--unit", "3", "--os", "tap:eth1", "--mac", "02:00:00:00:00:01", "--mtu",
                    "9000", "--pool", "65536x4", "--pool", "2048x8"});
  HostSpec got;
  std::string said;
  ASSERT_EQ(read(arguments, got, said), std::nullopt) << said;
  ASSERT_EQ(got.ports.size(), 2U);
  EXPECT_EQ(got.ports[0].os.kind, OsKind::kGen);
  EXPECT_EQ(got.ports[0].mac, (MacAddress{2, 0, 0, 0, 0, 1}));
  EXPECT_EQ(got.ports[1].mac, std::nullopt) << "the second interface has none of its own";
  EXPECT_EQ(got.ports[0].mtu_bytes, 9000U);
  EXPECT_EQ(got.ports[1].mtu_bytes, 9000U) << "one MTU is that of all interfaces";
  EXPECT_EQ(got.pools, (std::vector<PoolSpec>{{2048, 8}, {65536, 4}})) << "in the order the session wants";
}

TEST(SpecCodec, a_host_has_as_many_ports_as_it_has_links) {
  const auto with_links = [](uint32_t further) {
    Strings arguments = kHost;
    arguments.insert(arguments.end(), {"--os", "gen"});
    for (uint32_t i = 0; i < further; ++i)
      arguments.insert(arguments.end(),
                       {"--link", "a" + std::to_string(i) + ":1" + std::to_string(i) + ":shm:/e/s:1"});
    arguments.insert(arguments.end(), {"--via", std::to_string(further + 1)});
    return arguments;
  };
  HostSpec got;
  std::string said;
  ASSERT_EQ(read(with_links(kLinksMax - 1), got, said), std::nullopt) << said;
  ASSERT_EQ(got.further_links.size(), kLinksMax - 1);
  EXPECT_EQ(got.further_links[1].guid, Guid(0xA1));
  EXPECT_EQ(got.further_links[1].lid, Lid(11));
  EXPECT_EQ(got.further_links[1].endpoint, "shm:/e/s:1");
  EXPECT_EQ(got.ports[0].via, kLinksMax);
  HostSpec more = got;
  more.further_links.emplace_back();
  EXPECT_EQ(spec_fault(more), "--link: at most 4 links of a node");
  HostSpec guest = got;
  guest.lid = kLidNone;
  guest.guid = Guid{};
  EXPECT_EQ(spec_fault(guest), "--link: a node at a spare port has one link");
  HostSpec single = got;
  single.further_links.clear();
  single.ports[0].via = 1;
  single.adapter_per_link = true;
  EXPECT_EQ(spec_fault(single), "--adapter-per-link is for several links: --link");
}

TEST(SpecCodec, help_names_every_option) {
  ::testing::internal::CaptureStdout();
  UnitSpec unit;
  EXPECT_EQ(decode({"--help"}, unit), 0);
  const std::string text = ::testing::internal::GetCapturedStdout();
  for (const char* option :
       {"--name NAME", "--nic NIC", "--sessions N", "--bridge", "--pool BYTESxCOUNT", "--config FILE"})
    EXPECT_NE(text.find(option), std::string::npos) << option;
}

}  // namespace
}  // namespace weft::node
