// From a topology to the command lines of the programs.
#include "tools/topology/node_commands.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace weft::tools {
namespace {

using ::testing::HasSubstr;

Topology parsed(const std::string& text) {
  Result<Topology> topology = parse_topology(text, "t.toml");
  EXPECT_TRUE(topology.ok()) << topology.error().text;
  return std::move(topology).value();
}

const node::SwitchSpec& switch_of(const NodeCommand& command) {
  return std::get<node::SwitchSpec>(command.spec);
}
const node::HostSpec& host_of(const NodeCommand& command) {
  return std::get<node::HostSpec>(command.spec);
}
const node::UnitSpec& unit_of(const NodeCommand& command) {
  return std::get<node::UnitSpec>(command.spec);
}

using Strings = std::vector<std::string>;

const std::string kSmall = R"(fabric = "f"
[links]
cell_payload = 256
[[switch]]
name = "s1"
[[host]]
name = "h1"
mode = "sendrecv"
encoding = "bytes"
interface = "eth0"
pools = ["2048x16"]
[[unit]]
name = "u1"
nic = "packet"
interface = "eth9"
bridge = true
promiscuous = "allowed"
hosts = 3
)";

TEST(NodeCommands, start_order_and_numbers) {
  const Topology topology = parsed(kSmall);
  const auto lids = assign_lids(topology, {});
  const std::vector<NodeCommand> commands = node_commands(topology, lids, "/run/f", LogLevel::kWarn);
  ASSERT_EQ(commands.size(), 3U);
  EXPECT_EQ(commands[0].role, NodeRole::kSwitch);
  EXPECT_EQ(commands[1].role, NodeRole::kUnit);
  EXPECT_EQ(commands[2].role, NodeRole::kHost);
  EXPECT_EQ(lids.at("h1"), Lid(1));
  EXPECT_EQ(lids.at("u1"), Lid(2));
  EXPECT_EQ(switch_of(commands[0]).nodes,
            (std::vector<node::SwitchNodeSpec>{{"h1", host_of(commands[2]).guid, Lid(1)},
                                               {"u1", unit_of(commands[1]).guid, Lid(2)}}));
  EXPECT_EQ(switch_of(commands[0]).ports, 2U);
  EXPECT_EQ(host_of(commands[2]).ports[0].unit, Lid(2));
  for (const NodeCommand& command : commands) {
    const node::ProcessSpec& process = node::process_of(command.spec);
    EXPECT_EQ(process.links.cell_payload_bytes, 256U);
    EXPECT_EQ(process.log_level, LogLevel::kWarn);
    EXPECT_EQ(process.dir, "/run/f");
  }
}

TEST(NodeCommands, drivers_get_what_the_file_says) {
  const Topology topology = parsed(kSmall);
  const std::vector<NodeCommand> commands =
      node_commands(topology, assign_lids(topology, {}), "/run/f", LogLevel::kInfo);
  const NodeCommand& unit = commands[1];
  EXPECT_EQ(to_string(unit_of(unit).nic), "packet:eth9");
  EXPECT_TRUE(unit_of(unit).bridge && unit_of(unit).promiscuous_allowed);
  EXPECT_EQ(unit_of(unit).hosts_max, 3U);
  ASSERT_EQ(unit.descriptors.size(), 1U);
  EXPECT_EQ(unit.descriptors[0].kind, node::PortDescriptor::kPacketSocket);
  const NodeCommand& host = commands[2];
  ASSERT_EQ(host_of(host).ports.size(), 1U);
  EXPECT_EQ(to_string(host_of(host).ports[0].os), "tap:eth0");
  EXPECT_TRUE(host_of(host).ports[0].promiscuous) << "its unit bridges";
  EXPECT_EQ(host_of(host).mode, TransferMode::kSendReceive);
  EXPECT_EQ(host_of(host).encoding, MessageEncoding::kBytes);
  EXPECT_EQ(host_of(host).pools, (std::vector<node::PoolSpec>{{2048, 16}}));
  EXPECT_EQ(host_of(host).endpoint, "shm:/run/f/s1.sock");
  EXPECT_EQ(host.descriptors[0].kind, node::PortDescriptor::kTap);
  EXPECT_EQ(host_of(host).ports[0].mac, std::nullopt) << "the launcher has set it";
}

/// The second port is a node to its switch, with a LID and a key of its own, and a link of one process.
TEST(NodeCommands, each_port_of_a_host_hangs_on_its_own_switch) {
  const Topology topology = parsed(
      "fabric = \"f\"\n[curve]\nkeys = \"/k\"\n[[switch]]\nname = \"s1\"\n[[switch]]\nname = \"s2\"\n"
      "[[host]]\nname = \"h1\"\nswitch = \"s1\"\n[[host.uplink]]\nswitch = \"s2\"\nlink = \"zmq\"\n"
      "endpoint = \"tcp://10.0.0.1:7000\"\n[[host.port]]\nos = \"gen\"\nunit = \"u1\"\n[[host.port]]\n"
      "os = \"gen\"\nunit = \"u2\"\n[[unit]]\nname = \"u1\"\nswitch = \"s1\"\n"
      "[[unit]]\nname = \"u2\"\nswitch = \"s2\"\n");
  const auto lids = assign_lids(topology, {});
  EXPECT_EQ(lids,
            (std::map<std::string, Lid>{{"h1", Lid(1)}, {"h1.2", Lid(2)}, {"u1", Lid(3)}, {"u2", Lid(4)}}));
  const std::vector<NodeCommand> commands = node_commands(topology, lids, "/run/f", LogLevel::kInfo);
  ASSERT_EQ(commands.size(), 5U) << "the port is no process";
  EXPECT_EQ(commands[0].peers, (Strings{"h1", "u1"}));
  EXPECT_EQ(commands[1].peers, (Strings{"h1.2", "u2"}));
  const node::HostSpec& host = host_of(commands[4]);
  EXPECT_EQ(switch_of(commands[1]).nodes[0],
            (node::SwitchNodeSpec{"h1.2", stable_guid("f", "h1.2"), Lid(2)}));
  EXPECT_EQ(host.endpoint, "shm:/run/f/s1.sock");
  EXPECT_EQ(host.curve_secret, "");
  EXPECT_EQ(host.further_links,
            (std::vector<node::FurtherLinkSpec>{{stable_guid("f", "h1.2"), Lid(2), "tcp://10.0.0.1:7000",
                                                 "/k/h1.2.secret", "/k/s2.public"}}));
  EXPECT_EQ(host.ports[0].via, 1U);
  EXPECT_EQ(host.ports[1].via, 2U);
}

TEST(NodeCommands, a_unit_has_its_further_links_as_adapters) {
  const Topology topology = parsed(
      "fabric = \"f\"\n[[switch]]\nname = \"s1\"\n[[switch]]\nname = \"s2\"\n[[unit]]\nname = \"u1\"\n"
      "switch = \"s1\"\nadapters = \"per-link\"\n[[unit.uplink]]\nswitch = \"s2\"\n");
  const auto lids = assign_lids(topology, {});
  EXPECT_EQ(lids, (std::map<std::string, Lid>{{"u1", Lid(1)}, {"u1.2", Lid(2)}}));
  const std::vector<NodeCommand> commands = node_commands(topology, lids, "/run/f", LogLevel::kInfo);
  ASSERT_EQ(commands.size(), 3U);
  EXPECT_EQ(commands[1].peers, (Strings{"u1.2"}));
  const auto& unit = std::get<node::UnitSpec>(commands[2].spec);
  EXPECT_TRUE(unit.adapter_per_link);
  EXPECT_EQ(
      unit.further_links,
      (std::vector<node::FurtherLinkSpec>{{stable_guid("f", "u1.2"), Lid(2), "shm:/run/f/s2.sock", "", ""}}));
}

TEST(NodeCommands, every_switch_goes_by_the_order_of_lanes) {
  const Topology topology = parsed(
      "fabric = \"f\"\n[links]\nhigh_lanes = [\"3:64\"]\nhigh_limit = 2\n[[switch]]\nname = \"s1\"\n"
      "[[switch]]\nname = \"s2\"\n");
  for (const NodeCommand& command : node_commands(topology, {}, "/run/f", LogLevel::kInfo)) {
    EXPECT_EQ(switch_of(command).lane_order.high, (std::vector<node::LaneWeight>{{3, 64}}));
    EXPECT_EQ(switch_of(command).lane_order.high_limit, 2U);
  }
}

TEST(NodeCommands, the_silence_limit_reaches_every_process) {
  std::string text = kSmall;
  text.insert(text.find("cell_payload"), "silence = \"3s\"\n");
  const Topology topology = parsed(text);
  const auto commands = node_commands(topology, assign_lids(topology, {}), "/run/f", LogLevel::kInfo);
  ASSERT_EQ(commands.size(), 3U);
  for (const NodeCommand& command : commands)
    EXPECT_EQ(node::process_of(command.spec).links.silence, Duration(std::chrono::seconds(3)));
}

TEST(NodeCommands, processes_get_the_numbers_of_their_descriptors) {
  const Topology topology = parsed(kSmall);
  const auto commands = node_commands(topology, assign_lids(topology, {}), "/run/f", LogLevel::kInfo);
  const node::NodeSpec unit = with_descriptors(commands[1].spec, 3, {4});
  EXPECT_EQ(node::process_of(unit).parent_fd, 3);
  EXPECT_EQ(std::get<node::UnitSpec>(unit).nic_fd, 4);
  const node::NodeSpec host = with_descriptors(commands[2].spec, 3, {-1});
  EXPECT_EQ(std::get<node::HostSpec>(host).ports[0].fd, -1);
}

TEST(NodeCommands, every_port_of_a_host_pairs_its_options) {
  const Topology topology = parsed(R"(fabric = "f"
[[switch]]
name = "s1"
[[unit]]
name = "u1"
[[unit]]
name = "u2"
[[host]]
name = "h1"
[[host.port]]
unit = "u2"
os = "gen"
[[host.port]]
unit = "u1"
os = "unix:/run/q"
mtu = 9000
)");
  const NodeCommand host = node_commands(topology, assign_lids(topology, {}), "/d", LogLevel::kInfo).back();
  const std::vector<node::HostPortSpec>& ports = host_of(host).ports;
  ASSERT_EQ(ports.size(), 2U);
  EXPECT_EQ(ports[0].unit, Lid(2));
  EXPECT_EQ(ports[1].unit, Lid(1));
  EXPECT_EQ(to_string(ports[0].os), "gen");
  EXPECT_EQ(to_string(ports[1].os), "unix:/run/q");
  EXPECT_EQ(ports[0].mtu_bytes, 0U);
  EXPECT_EQ(ports[1].mtu_bytes, 9000U) << "each interface has its own";
  EXPECT_TRUE(ports[0].mac && ports[1].mac && ports[0].mac != ports[1].mac);
  EXPECT_FALSE(ports[0].promiscuous || ports[1].promiscuous);
  for (const HandedDescriptor& descriptor : host.descriptors)
    EXPECT_EQ(descriptor.kind, node::PortDescriptor::kNone);
}

TEST(NodeCommands, zmq_links_and_keys) {
  Topology topology = parsed(R"(fabric = "f"
[curve]
keys = "keys"
[[switch]]
name = "s1"
[[unit]]
name = "u1"
link = "zmq"
endpoint = "tcp://192.0.2.1:7000"
[[host]]
name = "h1"
os = "gen"
link = "zmq"
)");
  topology.curve_dir = "/k";
  const std::vector<NodeCommand> commands =
      node_commands(topology, assign_lids(topology, {}), "/d", LogLevel::kInfo);
  EXPECT_EQ(switch_of(commands[0]).listen, (Strings{"ipc:///d/s1.zmq", "tcp://192.0.2.1:7000"}));
  EXPECT_EQ(switch_of(commands[0]).curve_secret, "/k/s1.secret");
  EXPECT_EQ(switch_of(commands[0]).curve_allow, "/d/s1.allow");
  EXPECT_EQ(unit_of(commands[1]).curve_secret, "/k/u1.secret");
  EXPECT_EQ(unit_of(commands[1]).curve_server, "/k/s1.public");
  EXPECT_EQ(host_of(commands[2]).endpoint, "ipc:///d/s1.zmq");
  EXPECT_EQ(host_of(commands[2]).curve_server, "/k/s1.public") << "one key holder makes all of them so";
  topology.units[0].endpoint = "tcp://127.0.0.1:7000";
  EXPECT_NE(
      unit_of(node_commands(topology, assign_lids(topology, {}), "/d", LogLevel::kInfo)[1]).curve_secret, "");
  topology.units[0].endpoint.clear();
  for (const NodeCommand& command : node_commands(topology, assign_lids(topology, {}), "/d", LogLevel::kInfo))
    EXPECT_EQ(node::process_of(command.spec).curve_secret, "") << command.name;
}

constexpr const char* kRow = R"(fabric = "f"
[curve]
keys = "keys"
[[switch]]
name = "s1"
[[switch]]
name = "s2"
[[switch]]
name = "s3"
[[link]]
switches = ["s1", "s2"]
[[link]]
switches = ["s3", "s2"]
link = "zmq"
endpoint = "tcp://192.0.2.1:7000"
[[host]]
name = "h1"
switch = "s1"
os = "gen"
unit = "u3"
[[unit]]
name = "u2"
switch = "s2"
[[unit]]
name = "u3"
switch = "s3"
)";

TEST(NodeCommands, switches_know_which_lids_lie_behind_each_neighbour) {
  Topology topology = parsed(kRow);
  topology.curve_dir = "/k";
  const std::vector<NodeCommand> commands =
      node_commands(topology, assign_lids(topology, {}), "/d", LogLevel::kInfo);
  using Neighbours = std::vector<node::NeighbourSpec>;
  const auto guid = [&topology](uint32_t i) { return topology.switches[i].guid; };
  const node::SwitchSpec& s1 = switch_of(commands[0]);
  EXPECT_EQ(s1.neighbours, (Neighbours{{"s2", guid(1), {Lid(2), Lid(3)}, "shm:/d/s2.sock", ""}}));
  EXPECT_EQ(s1.curve_secret, "");
  EXPECT_EQ(commands[0].peers, (Strings{"h1", "s2"}));
  EXPECT_EQ(s1.ports, 2U);
  const node::SwitchSpec& s2 = switch_of(commands[1]);
  EXPECT_EQ(s2.neighbours, (Neighbours{{"s1", guid(0), {Lid(1)}, "", ""}, {"s3", guid(2), {Lid(3)}, "", ""}}))
      << "the second of a link listens";
  EXPECT_EQ(s2.listen, Strings{"tcp://192.0.2.1:7000"});
  EXPECT_EQ(s2.curve_allow, "/d/s2.allow");
  const node::SwitchSpec& s3 = switch_of(commands[2]);
  EXPECT_EQ(s3.neighbours,
            (Neighbours{{"s2", guid(1), {Lid(1), Lid(2)}, "tcp://192.0.2.1:7000", "/k/s2.public"}}));
  EXPECT_EQ(s3.curve_secret, "/k/s3.secret");
  EXPECT_EQ(s3.curve_allow, "") << "nobody joins s3 over tcp";
  EXPECT_THAT(check_curve_keys(topology).error().text, HasSubstr("no keys of s2, s3 in /k"));
}

TEST(NodeCommands, spare_ports_have_lids_of_their_own_that_every_switch_knows) {
  Topology topology = parsed(kRow);
  topology.switches[1].spare_ports = 2;
  topology.switches[2].spare_ports = 5;
  // All LIDs that spare ports may have, by what each switch needs: 64 and 80.
  const uint32_t second_lids = 40960U * 64 / 144;
  const uint32_t third_lids = 40960U * 80 / 144;
  const auto third = static_cast<uint16_t>(node::kSpareLidMax + 1 - second_lids - third_lids);
  const std::vector<NodeCommand> commands = node_commands(
      topology, assign_lids(topology, {{"h1", Lid(third)}, {"u2", Lid(9)}}), "/d", LogLevel::kInfo);
  EXPECT_EQ(switch_of(commands[0]).spare_ports, 0U);
  EXPECT_EQ(switch_of(commands[0]).nodes[0].lid, Lid(1)) << "not one that is a spare port's now";
  const node::SwitchSpec& s2 = switch_of(commands[1]);
  EXPECT_EQ(s2.spare_ports, 2U);
  EXPECT_EQ(s2.spare_lid, Lid(static_cast<uint16_t>(node::kSpareLidMax + 1 - second_lids)));
  EXPECT_EQ(s2.spare_lids, second_lids);
  EXPECT_EQ(switch_of(commands[2]).spare_lid, Lid(third));
  EXPECT_EQ(commands[1].peers, (Strings{"u2", "s1", "s3", "spare", "spare"}));
  EXPECT_EQ(s2.ports, 5U);
  // Behind s2, for s1: u2 and u3, and the LIDs of both switches' spare ports.
  EXPECT_EQ(switch_of(commands[0]).neighbours[0].beyond.size(), 2U + second_lids + third_lids);
  EXPECT_EQ(s2.neighbours[1].beyond.size(), 1U + third_lids);
  EXPECT_EQ(s2.neighbours[1].beyond.back(), Lid(static_cast<uint16_t>(third + third_lids - 1)));
}

TEST(NodeCommands, the_way_through_switches_is_the_shortest) {
  Topology topology = parsed(kRow);
  EXPECT_EQ(next_switches(topology, 0), (std::vector<uint32_t>{kNoSwitch, 1, 1}));
  topology.switch_links.push_back({0, 2, LinkKind::kShm, {}});
  EXPECT_EQ(next_switches(topology, 0), (std::vector<uint32_t>{kNoSwitch, 1, 2}));
  topology.switch_links.clear();
  EXPECT_EQ(next_switches(topology, 0), (std::vector<uint32_t>{kNoSwitch, kNoSwitch, kNoSwitch}));
}

TEST(NodeCommands, allow_file_binds_key_to_name_and_guid) {
  const std::filesystem::path dir = std::filesystem::temp_directory_path() / "weft-allow-test";
  std::filesystem::create_directories(dir);
  Topology topology = parsed("fabric=\"f\"\n[[switch]]\nname=\"s1\"\n[[unit]]\nname=\"u1\"\nlink=\"zmq\"\n");
  topology.curve_dir = dir;
  EXPECT_EQ(curve_allow_text(topology, 0).value(), "") << "a socket of this user alone needs no keys";
  topology.units[0].endpoint = "tcp://127.0.0.1:7000";
  EXPECT_FALSE(curve_allow_text(topology, 0).ok()) << "keys that are there are used on loopback too";
  topology.units[0].endpoint = "tcp://192.0.2.1:7000";
  std::filesystem::remove(dir / "u1.public");
  EXPECT_FALSE(curve_allow_text(topology, 0).ok());
  EXPECT_THAT(check_curve_keys(topology).error().text, HasSubstr("no keys of s1, u1 in"));
  const std::string key(40, 'k');
  std::ofstream(dir / "u1.public") << key << '\n';
  const Result<std::string> text = curve_allow_text(topology, 0);
  ASSERT_TRUE(text.ok());
  EXPECT_TRUE(text.value().starts_with("u1 "));
  EXPECT_TRUE(text.value().ends_with(" " + key + "\n"));
  EXPECT_EQ(text.value().size(), 3 + 16 + 1 + 40 + 1U);
  for (const size_t bytes : {39U, 41U}) {
    std::ofstream(dir / "u1.public") << std::string(bytes, 'k') << '\n';
    EXPECT_THAT(curve_allow_text(topology, 0).error().text, HasSubstr("holds no key"));
  }
  std::filesystem::remove_all(dir);
}

/// Every program can read what the launcher writes for it.
TEST(NodeCommands, commands_are_read_as_they_were_meant) {
  for (const std::string& text : {kSmall, std::string(kRow)}) {
    const Topology topology = parsed(text);
    for (const NodeCommand& command :
         node_commands(topology, assign_lids(topology, {}), "/run/f", LogLevel::kInfo)) {
      const node::NodeSpec given = with_descriptors(command.spec, 3, {});
      const auto read_again = [](auto spec) {
        decltype(spec) got;
        EXPECT_EQ(node::decode(node::encode(spec), got), std::nullopt);
        return got == spec;
      };
      EXPECT_TRUE(std::visit(read_again, given)) << command.name;
    }
  }
}

TEST(NodeCommands, lids_stay_with_their_nodes) {
  const Topology topology = parsed(kSmall);
  const auto lids = assign_lids(topology, {{"u1", Lid(1)}, {"gone", Lid(2)}});
  EXPECT_EQ(lids.at("u1"), Lid(1));
  EXPECT_EQ(lids.at("h1"), Lid(2));
  const auto doubled = assign_lids(topology, {{"u1", Lid(7)}, {"h1", Lid(7)}});
  EXPECT_NE(doubled.at("u1"), doubled.at("h1")) << "a damaged file gives no two nodes one LID";
}

}  // namespace
}  // namespace weft::tools
