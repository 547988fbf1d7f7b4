// From a topology to the command lines of the programs.
#include "tools/node_commands.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace weft::tools {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

Topology parsed(const std::string& text) {
  Result<Topology> topology = parse_topology(text, "t.toml");
  EXPECT_TRUE(topology.ok()) << topology.error().text;
  return std::move(topology).value();
}

/// What follows `option`, in order of appearance.
std::vector<std::string> values(const NodeCommand& command, const std::string& option) {
  std::vector<std::string> out;
  for (size_t i = 0; i + 1 < command.arguments.size(); ++i)
    if (command.arguments[i] == option) out.push_back(command.arguments[i + 1]);
  return out;
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
)";

TEST(NodeCommands, start_order_and_numbers) {
  const Topology topology = parsed(kSmall);
  const auto lids = assign_lids(topology, {});
  const std::vector<NodeCommand> commands = node_commands(topology, lids, "/run/f", "warn");
  ASSERT_EQ(commands.size(), 3U);
  EXPECT_EQ(commands[0].role, NodeRole::kSwitch);
  EXPECT_EQ(commands[1].role, NodeRole::kUnit);
  EXPECT_EQ(commands[2].role, NodeRole::kHost);
  EXPECT_EQ(lids.at("h1"), Lid(1));
  EXPECT_EQ(lids.at("u1"), Lid(2));
  EXPECT_EQ(values(commands[0], "--node"), (Strings{"h1=" + values(commands[2], "--guid")[0] + ":1",
                                                    "u1=" + values(commands[1], "--guid")[0] + ":2"}));
  EXPECT_EQ(values(commands[0], "--ports"), Strings{"2"});
  EXPECT_EQ(values(commands[2], "--unit"), Strings{"2"});
  for (const NodeCommand& command : commands) {
    EXPECT_EQ(values(command, "--cell-payload"), Strings{"256"});
    EXPECT_EQ(values(command, "--log-level"), Strings{"warn"});
    EXPECT_EQ(values(command, "--dir"), Strings{"/run/f"});
  }
}

TEST(NodeCommands, drivers_get_what_the_file_says) {
  const Topology topology = parsed(kSmall);
  const std::vector<NodeCommand> commands =
      node_commands(topology, assign_lids(topology, {}), "/run/f", "info");
  const NodeCommand& unit = commands[1];
  EXPECT_EQ(values(unit, "--nic"), Strings{"packet:eth9"});
  EXPECT_THAT(unit.arguments, Contains("--bridge"));
  EXPECT_THAT(unit.arguments, Contains("--promiscuous-allowed"));
  ASSERT_EQ(unit.descriptors.size(), 1U);
  EXPECT_EQ(unit.descriptors[0].kind, HandedDescriptor::Kind::kPacket);
  EXPECT_EQ(unit.descriptors[0].option, "--nic-fd");
  const NodeCommand& host = commands[2];
  EXPECT_EQ(values(host, "--os"), Strings{"tap:eth0"});
  EXPECT_EQ(values(host, "--mode"), Strings{"sendrecv"});
  EXPECT_EQ(values(host, "--encoding"), Strings{"bytes"});
  EXPECT_EQ(values(host, "--pool"), Strings{"2048x16"});
  EXPECT_EQ(values(host, "--switch"), Strings{"shm:/run/f/s1.sock"});
  EXPECT_EQ(host.descriptors[0].option, "--os-fd");
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
  const NodeCommand host = node_commands(topology, assign_lids(topology, {}), "/d", "info").back();
  EXPECT_EQ(values(host, "--unit"), (Strings{"2", "1"}));
  EXPECT_EQ(values(host, "--os"), (Strings{"gen:", "unix:/run/q"}));
  EXPECT_EQ(values(host, "--mtu"), Strings{"9000"});
  EXPECT_EQ(values(host, "--mac").size(), 2U);
  EXPECT_TRUE(host.descriptors.empty());
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
  const std::vector<NodeCommand> commands = node_commands(topology, assign_lids(topology, {}), "/d", "info");
  EXPECT_EQ(values(commands[0], "--listen"), (Strings{"ipc:///d/s1.zmq", "tcp://192.0.2.1:7000"}));
  EXPECT_EQ(values(commands[0], "--curve-secret"), Strings{"/k/s1.secret"});
  EXPECT_EQ(values(commands[0], "--curve-allow"), Strings{"/d/s1.allow"});
  EXPECT_EQ(values(commands[1], "--curve-secret"), Strings{"/k/u1.secret"});
  EXPECT_EQ(values(commands[1], "--curve-server"), Strings{"/k/s1.public"});
  EXPECT_EQ(values(commands[2], "--switch"), Strings{"ipc:///d/s1.zmq"});
  EXPECT_EQ(values(commands[2], "--curve-server"), Strings{"/k/s1.public"})
      << "one key holder makes all of them so";
  topology.units[0].endpoint = "tcp://127.0.0.1:7000";
  EXPECT_THAT(node_commands(topology, assign_lids(topology, {}), "/d", "info")[1].arguments,
              Contains("--curve-secret"));
  topology.units[0].endpoint.clear();
  for (const NodeCommand& command : node_commands(topology, assign_lids(topology, {}), "/d", "info"))
    EXPECT_THAT(command.arguments, Not(Contains("--curve-secret"))) << command.name;
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
  const std::vector<NodeCommand> commands = node_commands(topology, assign_lids(topology, {}), "/d", "info");
  const auto guid = [&topology](uint32_t i) {
    return fmt::format("{:016x}", topology.switches[i].guid.value());
  };
  EXPECT_EQ(values(commands[0], "--neighbour"), Strings{"s2=" + guid(1) + ":2,3"});
  EXPECT_EQ(values(commands[0], "--join"), Strings{"s2=shm:/d/s2.sock"});
  EXPECT_THAT(commands[0].arguments, Not(Contains("--curve-secret")));
  EXPECT_EQ(commands[0].peers, (Strings{"h1", "s2"}));
  EXPECT_EQ(values(commands[0], "--ports"), Strings{"2"});
  EXPECT_EQ(values(commands[1], "--neighbour"), (Strings{"s1=" + guid(0) + ":1", "s3=" + guid(2) + ":3"}));
  EXPECT_THAT(commands[1].arguments, Not(Contains("--join"))) << "the second of a link listens";
  EXPECT_EQ(values(commands[1], "--listen"), Strings{"tcp://192.0.2.1:7000"});
  EXPECT_EQ(values(commands[1], "--curve-allow"), Strings{"/d/s2.allow"});
  EXPECT_EQ(values(commands[2], "--neighbour"), Strings{"s2=" + guid(1) + ":1,2"});
  EXPECT_EQ(values(commands[2], "--join"), Strings{"s2=tcp://192.0.2.1:7000"});
  EXPECT_EQ(values(commands[2], "--neighbour-key"), Strings{"s2=/k/s2.public"});
  EXPECT_EQ(values(commands[2], "--curve-secret"), Strings{"/k/s3.secret"});
  EXPECT_THAT(commands[2].arguments, Not(Contains("--curve-allow"))) << "nobody joins s3 over tcp";
  EXPECT_THAT(check_curve_keys(topology).error().text, HasSubstr("no keys of s2, s3 in /k"));
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
  std::filesystem::remove_all(dir);
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
