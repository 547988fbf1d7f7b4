// The topology reader: what a good file means, and where and how a bad one is refused.
#include "tools/topology/topology.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "base/text_file.h"

namespace weft::tools {
namespace {

const std::string kTwo = "fabric=\"f\"\n[[switch]]\nname=\"s1\"\n[[switch]]\nname=\"s2\"\n";
const std::string kHead = "fabric = \"f\"\n[[switch]]\nname = \"s1\"\n";
const std::string kUnit = "[[unit]]\nname = \"u1\"\n";

std::string topology_refusal(const std::string& text) {
  const Result<Topology> topology = parse_topology(text, "t.toml");
  return topology.ok() ? "accepted" : topology.error().text;
}

TEST(Topology, examples_are_good) {
  const char* source = std::getenv("WEFT_SOURCE");
  if (source == nullptr) GTEST_SKIP() << "WEFT_SOURCE is not set; ctest sets it to the source tree";
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(source) + "/docs/examples")) {
    if (entry.path().extension() != ".toml") continue;
    const Result<Topology> topology = parse_topology(read_text_file(entry.path()).value(), entry.path());
    EXPECT_TRUE(topology.ok()) << topology.error().text;
    ++count;
  }
  EXPECT_GE(count, 4U);
}

TEST(Topology, nodes_are_numbered_in_file_order) {
  const Result<Topology> got = parse_topology(
      kHead + "[[host]]\nname=\"b\"\nos=\"gen\"\n" + kUnit + "[[host]]\nname=\"a\"\nos=\"gen\"\n", "t.toml");
  ASSERT_TRUE(got.ok()) << got.error().text;
  EXPECT_EQ(got.value().hosts[0].name, "b");
  EXPECT_EQ(got.value().hosts[0].order, 0U);
  EXPECT_EQ(got.value().units[0].order, 1U);
  EXPECT_EQ(got.value().hosts[1].order, 2U);
}

TEST(Topology, names_give_stable_addresses) {
  EXPECT_EQ(stable_guid("f", "h1"), stable_guid("f", "h1"));
  EXPECT_NE(stable_guid("f", "h1"), stable_guid("f", "h2"));
  EXPECT_NE(stable_guid("f", "h1"), stable_guid("g", "h1"));
  const MacAddress mac = stable_mac("f", "h1", 0);
  EXPECT_EQ(mac[0] & 3, 2) << "locally administered, unicast";
  EXPECT_NE(mac, stable_mac("f", "h1", 1));
  EXPECT_EQ(parse_mac(weft::to_string(mac)), mac);
  // A changed value would renumber every fabric that exists.
  EXPECT_EQ(stable_guid("demo", "h1").value(), 4259736811763507143U);
}

/// The processes of a fabric run in another folder than the one in which the file lies.
TEST(Topology, files_that_it_names_lie_beside_it) {
  const std::string pcap = "nic=\"pcap\"\n";
  Result<Topology> got = parse_topology(kHead + kUnit + pcap + "input=\"in\"\noutput=\"a/../out\"\n" +
                                            "[[unit]]\nname=\"u2\"\n" + pcap + "input=\"/in\"\n",
                                        "t.toml");
  ASSERT_TRUE(got.ok()) << got.error().text;
  resolve_paths(*got, "/etc/weft/t.toml");
  EXPECT_EQ(got->units[0].nic.argument, "/etc/weft/in");
  EXPECT_EQ(got->units[0].nic.output, "/etc/weft/out");
  EXPECT_EQ(got->units[1].nic.argument, "/in");
  EXPECT_EQ(got->units[1].nic.output, "") << "none is named";
}

TEST(Topology, all_keys_reach_the_model) {
  const Result<Topology> got = parse_topology(
      "fabric = \"f\"\n[links]\ncell_payload=256\nflit_payload=96\nlanes=2\ncredits=8\ncut_through=true\n"
      "silence=\"2.5s\"\n[curve]\nkeys=\"k\"\n[[switch]]\nname=\"s1\"\nports=4\nlisten=[\"tcp://"
      "10.0.0.1:7000\"]\nnetns=\"n\"\ncore=3\n"
      "[[host]]\nname=\"h1\"\nlink=\"zmq\"\nendpoint=\"tcp://"
      "10.0.0.1:7000\"\nmode=\"sendrecv\"\nencoding=\"bytes\"\n"
      "interface=\"eth0\"\naddresses=[\"10.9.0.1/24\"]\ngateway=\"10.9.0.254\"\nmtu=9000\n"
      "mac=\"02:00:00:00:00:01\"\npools=[\"2048x4\"]\n"
      "[[unit]]\nname=\"u1\"\nnic=\"pcap\"\ninput=\"a\"\noutput=\"b\"\nhosts=31\nbridge=true\npromiscuous="
      "\"allowed\"\n",
      "t.toml");
  ASSERT_TRUE(got.ok()) << got.error().text;
  const Topology& t = got.value();
  EXPECT_EQ(t.links.cell_payload_bytes, 256U);
  EXPECT_TRUE(t.cut_through);
  EXPECT_EQ(t.links.silence, Duration(2500ms));
  EXPECT_EQ(t.curve_dir, "k");
  EXPECT_EQ(t.switches[0].core, 3U);
  EXPECT_EQ(t.switches[0].listen.size(), 1U);
  const HostNode& h = t.hosts[0];
  EXPECT_EQ(h.link, LinkKind::kZmq);
  EXPECT_EQ(h.mode, TransferMode::kSendReceive);
  EXPECT_EQ(h.ports[0].interface.mtu, 9000U);
  EXPECT_EQ(h.ports[0].interface.gateway, "10.9.0.254");
  EXPECT_EQ(h.ports[0].interface.mac[5], 1);
  EXPECT_EQ(h.pools[0].elements, 4U);
  EXPECT_EQ(t.units[0].nic.argument, "a");
  EXPECT_EQ(t.units[0].nic.output, "b");
  EXPECT_EQ(t.units[0].hosts_max, 31U);
  EXPECT_TRUE(t.units[0].bridge && t.units[0].promiscuous_allowed);
}

/// By their times. A name that is no node is one whose program may come to a spare port.
TEST(Topology, faults_stand_behind_the_nodes) {
  const std::string faults =
      "[[fault]]\nat=\"2s\"\ntarget=\"u1\"\nkind=\"delay\"\nvalue=\"5ms\"\n"
      "[[fault]]\ntarget=\"s1:1\"\nkind=\"rate\"\nvalue=\"10Gbit\"\n";
  const std::string later = "[[fault]]\ntarget=\"later\"\nkind=\"cut\"\n";
  Result<Topology> got = parse_topology(kHead + kUnit + faults, "t.toml");
  ASSERT_TRUE(got.ok()) << got.error().text;
  ASSERT_EQ(got->faults.size(), 2U);
  EXPECT_EQ(got->faults[0].target, "s1:1");
  EXPECT_EQ(got->faults[1].target, "u1");
  EXPECT_FALSE(got->faults[1].prepare);
  EXPECT_FALSE(parse_topology(kHead + kUnit + later, "t.toml").ok());
  Result<Topology> spare = parse_topology(kHead + "spare_ports = 4\n" + kUnit + later, "t.toml");
  ASSERT_TRUE(spare.ok()) << spare.error().text;
  EXPECT_TRUE(spare->faults[0].prepare);
}

TEST(Topology, two_hosts_on_one_unit_and_one_host_on_two_units) {
  const Result<Topology> got = parse_topology(
      kHead + kUnit + "[[unit]]\nname=\"u2\"\n[[host]]\nname=\"h1\"\n[[host.port]]\nunit=\"u1\"\n" +
          "[[host.port]]\nunit=\"u2\"\nos=\"gen\"\n[[host]]\nname=\"h2\"\nunit=\"u1\"\nos=\"gen\"\n",
      "t.toml");
  ASSERT_TRUE(got.ok()) << got.error().text;
  EXPECT_EQ(got.value().hosts[0].ports.size(), 2U);
  EXPECT_EQ(got.value().hosts[0].ports[1].unit_index, 1U);
  EXPECT_EQ(got.value().hosts[1].ports[0].unit_index, 0U);
}

struct Bad {
  const char* name;
  std::string text;
  const char* answer;  // how the message begins
};

TEST(Topology, every_mistake_is_named_with_its_place) {
  const std::vector<Bad> table{
      {"syntax", "fabric = \n", "t.toml:1:10: "},
      {"no fabric", "[[switch]]\nname=\"s\"\n", "t.toml:1:1: the file needs 'fabric'"},
      {"no switch", "fabric=\"f\"\n", "t.toml:1:1: no switch"},
      {"unknown switch", kHead + "[[host]]\nname=\"h1\"\nswitch = \"s9\"\n" + kUnit,
       "t.toml:6:10: there is no switch 's9'; did you mean 's1'? known: s1"},
      {"unknown unit", kHead + kUnit + "[[host]]\nname=\"h1\"\nunit=\"x9y\"\n",
       "t.toml:8:6: host 'h1' names unit 'x9y', which does not exist; known: u1"},
      {"unknown key", kHead + kUnit + "adresses = 1\nnick = \"echo\"\n",
       "t.toml:6:1: [[unit]] has no key 'adresses'"},
      {"two unknown keys", kHead + kUnit + "zone = 1\nadresses = 1\n",
       "t.toml:6:1: [[unit]] has no key 'zone'"},
      {"typo", kHead + kUnit + "nick = \"echo\"\n",
       "t.toml:6:1: [[unit]] has no key 'nick'; did you mean 'nic'?"},
      {"wrong type", kHead + kUnit + "nic = 3\n", "t.toml:6:7: 'nic' must be a text in quotes"},
      {"wrong word", kHead + kUnit + "nic = \"ecco\"\n",
       "t.toml:6:7: 'nic' cannot be 'ecco'; did you mean 'echo'? known: echo, tap, packet, slirp, pcap"},
      {"number", kHead + kUnit + "nic = \"tap\"\nmtu = 10\n",
       "t.toml:7:7: 'mtu' must be a whole number from 68 to 9000"},
      {"double name", kHead + "[[unit]]\nname=\"s1\"\n", "t.toml:5:6: 's1' is already the node at line 2"},
      {"bad name", kHead + "[[unit]]\nname=\"a/b\"\n", "t.toml:5:6: 'a/b' cannot name a node: use 1 to 31"},
      {"name with a dash", kHead + "[[unit]]\nname=\"-u\"\n",
       "t.toml:5:6: '-u' cannot name a node: a name may not begin with '-'"},
      {"name with a dot", "fabric=\".f\"\n",
       "t.toml:1:8: '.f' cannot name a fabric: a name may not begin with '.'"},
      {"mistyped required key", "fabrik=\"f\"\n[[switch]]\nname=\"s\"\n",
       "t.toml:1:1: the file has no key 'fabrik'; did you mean 'fabric'?"},
      {"mistyped name", kHead + "[[unit]]\nnane=\"u\"\n",
       "t.toml:5:1: [[unit]] has no key 'nane'; did you mean 'name'?"},
      {"interface without nic", kHead + kUnit + "interface=\"eth0\"\n",
       "t.toml:6:1: 'interface' needs nic = \"tap\" or \"packet\"; this unit has none, which is "
       "\"echo\""},
      {"interface of slirp", kHead + kUnit + "nic=\"slirp\"\ninterface=\"eth0\"\n",
       "t.toml:7:1: 'interface' needs nic = \"tap\" or \"packet\"; this unit has \"slirp\""},
      {"addresses of a generator", kHead + kUnit + "[[host]]\nname=\"h\"\nos=\"gen\"\naddresses=[]\n",
       "t.toml:9:1: 'addresses' needs os = \"tap\"; this host has os = \"gen\""},
      {"addresses of a real NIC",
       kHead + kUnit + "nic=\"packet\"\ninterface=\"eth0\"\ngateway=\"10.0.0.1\"\n",
       "t.toml:8:1: 'gateway' cannot be set at an interface that exists; use ip address and ip route with "
       "dev eth0"},
      {"input of a TAP", kHead + kUnit + "nic=\"tap\"\ninput=\"f\"\n",
       "t.toml:7:1: 'input' needs nic = \"pcap\""},
      {"the same file twice", kHead + kUnit + "nic=\"pcap\"\ninput=\"f\"\noutput=\"f\"\n",
       "t.toml:8:8: 'output' is the file of 'input'"},
      {"relative socket", kHead + kUnit + "[[host]]\nname=\"h\"\nos=\"unix:q\"\n",
       "t.toml:8:4: write os = \"unix:/absolute/path\""},
      {"socket twice",
       kHead + kUnit + "[[host]]\nname=\"a\"\nos=\"unix:/q\"\n[[host]]\nname=\"b\"\nos=\"unix:/q\"\n",
       "t.toml:11:4: socket /q is used twice by hosts"},
      {"a kind of OS that is none", kHead + kUnit + "[[host]]\nname=\"h\"\nos=\"gem\"\n",
       "t.toml:8:4: 'os' cannot be 'gem'; did you mean 'gen'? known: tap, gen, unix:/PATH"},
      {"address twice",
       kHead + kUnit +
           "nic=\"tap\"\naddresses=[\"fd09::1/64\"]\n[[host]]\nname=\"h\"\naddresses=[\"FD09:0::1/128\"]\n",
       "t.toml:10:11: address fd09::1 is used twice on the LAN of unit 'u1'"},
      {"more hosts than room",
       kHead + kUnit +
           "hosts=1\n[[host]]\nname=\"a\"\nos=\"gen\"\n[[host]]\nname=\"b\"\nos=\"gen\"\nunit=\"u1\"\n",
       "t.toml:13:6: unit 'u1' serves 1 hosts, and 'b' is one more: write hosts = 2 or more, at most "
       "31"},
      {"spare ports beyond the ports",
       "fabric=\"f\"\n[[switch]]\nname=\"s1\"\nports=3\nspare_ports=3\n[[unit]]\nname=\"u1\"\n",
       "t.toml:2:1: switch 's1' has 3 ports but 1 nodes and links use it, beside 3 spare ports"},
      {"keys for no port", "fabric=\"f\"\n[[switch]]\nname=\"s1\"\nspare_keys=[\"k\"]\n",
       "t.toml:4:12: 'spare_keys' needs spare ports"},
      {"spare keys without keys",
       "fabric=\"f\"\n[[switch]]\nname=\"s1\"\nspare_ports=1\nspare_keys=[\"k\"]\n",
       "t.toml:5:12: 'spare_keys' needs [curve]"},
      {"a node's key for a spare port",
       "fabric=\"f\"\n[curve]\nkeys=\"k\"\n[[switch]]\nname=\"s1\"\nspare_ports=1\nspare_keys=[\"u1\"]\n"
       "[[unit]]\nname=\"u1\"\n",
       "t.toml:4:1: spare_keys: 'u1' is a node"},
      {"hosts beyond the maximum", kHead + kUnit + "hosts=32\n",
       "t.toml:6:7: 'hosts' must be a whole number from 1 to 31"},
      {"single brackets", "fabric=\"f\"\n[switch]\nname=\"s1\"\n",
       "t.toml:2:1: write [[switch]] with double"},
      {"address", kHead + kUnit + "nic=\"tap\"\naddresses=[\"10.0.0.1\"]\n",
       "t.toml:7:11: '10.0.0.1' is not an address"},
      {"gateway", kHead + kUnit + "nic=\"tap\"\ngateway=\"x\"\n", "t.toml:7:9: 'x' is not an IP address"},
      {"mac", kHead + kUnit + "nic=\"tap\"\nmac=\"03:00:00:00:00:01\"\n",
       "t.toml:7:5: '03:00:00:00:00:01' is not a unicast MAC"},
      {"pool", kHead + kUnit + "pools=[\"12\"]\n", "t.toml:6:7: '12': write ELEMENT_BYTESxELEMENTS"},
      {"small elements", kHead + kUnit + "pools=[\"71x4\"]\n",
       "t.toml:6:7: '71x4': elements of 72 to 16777216 bytes"},
      {"many elements", kHead + kUnit + "pools=[\"2048x32000\", \"4096x705\"]\n",
       "t.toml:6:7: '4096x705': elements of 72 to 16777216 bytes, 1 to 32704 of them in all pools"},
      {"endpoint", kHead + kUnit + "link=\"zmq\"\nendpoint=\"tcp:/x\"\n",
       "t.toml:7:10: 'tcp:/x' is not an endpoint"},
      {"endpoint on shm", kHead + kUnit + "endpoint=\"tcp://127.0.0.1:1\"\n", "t.toml:6:10: only a zmq link"},
      {"no keys", kHead + kUnit + "link=\"zmq\"\nendpoint=\"tcp://10.0.0.1:1\"\n",
       "t.toml:4:1: node 'u1' uses tcp://10.0.0.1:1, which other machines can reach: make keys with `weft "
       "keygen`"},
      {"interface twice",
       kHead + kUnit + "[[host]]\nname=\"a\"\ninterface=\"x\"\n[[host]]\nname=\"b\"\ninterface=\"x\"\n",
       "t.toml:11:11: interface 'x' is used twice"},
      {"long interface", kHead + kUnit + "[[host]]\nname=\"a-very-long-name\"\n",
       "t.toml:7:6: 'weft-a-very-long-name'"},
      {"ports",
       "fabric=\"f\"\n[[switch]]\nname=\"s1\"\nports=1\n[[unit]]\nname=\"a\"\n[[unit]]\nname=\"b\"\n",
       "t.toml:2:1: switch 's1' has 1 ports but 2 nodes and links use it"},
      {"two switches",
       "fabric=\"f\"\n[[switch]]\nname=\"s1\"\n[[switch]]\nname=\"s2\"\n[[unit]]\nname=\"u1\"\nswitch="
       "\"s1\"\n"
       "[[host]]\nname=\"h1\"\nswitch=\"s2\"\nos=\"gen\"\n",
       "t.toml:10:6: unit 'u1' is on switch 's1', host 'h1' on 's2', and no [[link]] leads"},
      {"gateway out of reach",
       kHead + kUnit + "nic=\"tap\"\naddresses=[\"10.0.0.1/25\"]\ngateway=\"10.0.0.129\"\n",
       "t.toml:8:9: gateway 10.0.0.129 lies in no network of 'addresses'"},
      {"gateway of the other family",
       kHead + kUnit + "nic=\"tap\"\naddresses=[\"10.0.0.1/0\"]\ngateway=\"fd00::1\"\n",
       "t.toml:8:9: gateway fd00::1 lies in no network"},
      {"mac twice",
       kHead + kUnit +
           "[[host]]\nname=\"a\"\nos=\"gen\"\nmac=\"02:00:00:00:00:01\"\n[[host]]\nname=\"b\"\n"
           "os=\"gen\"\nmac=\"02:00:00:00:00:01\"\n",
       "t.toml:13:5: MAC address 02:00:00:00:00:01 is used twice"},
      {"mac of the unit's TAP",
       kHead + kUnit +
           "nic=\"tap\"\nmac=\"02:00:00:00:00:01\"\n[[host]]\nname=\"a\"\nmac=\"02:00:00:00:00:01\"\n",
       "t.toml:10:5: MAC address 02:00:00:00:00:01 is used twice"},
      {"port number", kHead + kUnit + "link=\"zmq\"\nendpoint=\"tcp://127.0.0.1:65536\"\n",
       "t.toml:7:10: 'tcp://127.0.0.1:65536' is not an endpoint"},
      {"credits below a cell", "fabric=\"f\"\n[links]\nflit_payload=96\ncredits=4\n[[switch]]\nname=\"s1\"\n",
       "t.toml:4:9: 4 credits per lane cannot hold one cell of 44 flits"},
      {"silence too short", "fabric=\"f\"\n[links]\nsilence=\"900ms\"\n[[switch]]\nname=\"s1\"\n",
       "t.toml:3:9: '900ms' is not a time from 1s to 1m, like 2s or 1500ms"},
      {"silence too long", "fabric=\"f\"\n[links]\nsilence=\"61s\"\n[[switch]]\nname=\"s1\"\n",
       "t.toml:3:9: '61s' is not a time from 1s to 1m"},
      {"silence without a unit", "fabric=\"f\"\n[links]\nsilence=5\n[[switch]]\nname=\"s1\"\n",
       "t.toml:3:9: "},
      {"flits above a cell", "fabric=\"f\"\n[links]\nflit_payload=8000\n[[switch]]\nname=\"s1\"\n",
       "t.toml:3:14: flit payload of 8000 bytes"},
      {"a table that is spelled wrong", kHead + "[[host]]\nname=\"h1\"\n[[units]]\nname=\"u1\"\n",
       "t.toml:6:3: the file has no key 'units'; did you mean 'unit'?"},
      {"no unit", kHead + "[[host]]\nname=\"h1\"\n", "t.toml:4:1: host 'h1' needs a unit; add [[unit]]"},
      {"half a link", kTwo + "[[link]]\nswitches=[\"s1\"]\n", "t.toml:7:10: a link joins two switches"},
      {"link to itself", kTwo + "[[link]]\nswitches=[\"s1\", \"s1\"]\n",
       "t.toml:7:10: a link joins two switches"},
      {"link to nowhere", kTwo + "[[link]]\nswitches=[\"s1\", \"s3\"]\n",
       "t.toml:7:10: there is no switch 's3'"},
      {"fault for nobody", kHead + kUnit + "[[fault]]\ntarget = \"u2\"\nkind = \"cut\"\n",
       "t.toml:7:10: 'u2' is no node, switch or SWITCH:PORT of this file; did you mean 'u1'? known: s1, u1"},
      {"fault of no kind", kHead + kUnit + "[[fault]]\ntarget = \"u1\"\nkind = \"cutt\"\n",
       "t.toml:6:1: no fault is called 'cutt'; did you mean 'cut'?"},
      {"fault of a process", kHead + kUnit + "[[fault]]\ntarget = \"u1\"\nkind = \"kill\"\n",
       "t.toml:8:8: kill is for a script"},
      {"loop", kTwo + "[[link]]\nswitches=[\"s1\", \"s2\"]\n[[link]]\nswitches=[\"s2\", \"s1\"]\n",
       "t.toml:9:10: 's2' and 's1' are joined already; a loop of switches can block itself"},
      {"link beyond the machine",
       kTwo + "[[link]]\nswitches=[\"s1\", \"s2\"]\nlink=\"zmq\"\nendpoint=\"tcp://10.0.0.1:1\"\n",
       "t.toml:4:1: node 's2' uses tcp://10.0.0.1:1, which other machines can reach"},
  };
  for (const Bad& bad : table)
    EXPECT_EQ(topology_refusal(bad.text).substr(0, std::string(bad.answer).size()), bad.answer)
        << bad.name << ": " << topology_refusal(bad.text);
}

/// Two switches that no link joins, a unit on each, and a host on both.
std::string on_two_switches(const std::string& ports, const std::string& uplink = "switch=\"s2\"\n") {
  return kTwo +
         "[[unit]]\nname=\"u1\"\nswitch=\"s1\"\n[[host]]\nname=\"h1\"\nswitch=\"s1\"\n[[host.uplink]]\n" +
         uplink + ports + "[[unit]]\nname=\"u2\"\nswitch=\"s2\"\n";
}

TEST(Topology, a_host_may_have_a_link_to_each_of_several_switches) {
  const std::string both = "[[host.port]]\nos=\"gen\"\nunit=\"u1\"\n[[host.port]]\nos=\"gen\"\nunit=\"u2\"\n";
  Result<Topology> got = parse_topology(on_two_switches(both), "t.toml");
  ASSERT_TRUE(got.ok()) << got.error().text;
  const HostNode& host = got->hosts[0];
  ASSERT_EQ(host.further_links.size(), 1U);
  const Endnode& port = host.further_links[0];
  EXPECT_EQ(port.name, "h1.2");
  EXPECT_EQ(port.guid, stable_guid("f", "h1.2"));
  EXPECT_EQ(port.switch_index, 1U);
  EXPECT_EQ(host.order, 1U);
  EXPECT_EQ(port.order, 2U) << "LIDs follow the file";
  EXPECT_EQ(got->units[1].order, 3U);
  EXPECT_EQ(host.ports[0].via, 1U);
  EXPECT_EQ(host.ports[1].via, 2U) << "only that link leads there";

  EXPECT_EQ(
      topology_refusal(on_two_switches("[[host.port]]\nos=\"gen\"\nunit=\"u1\"\nvia=2\n")),
      "t.toml:17:5: unit 'u1' is on switch 's1', host 'h1' on 's2', and no [[link]] leads from one to the "
      "other");
  EXPECT_EQ(topology_refusal(on_two_switches("[[host.port]]\nos=\"gen\"\nunit=\"u1\"\nvia=3\n")),
            "t.toml:17:5: 'via' must be a whole number from 1 to 2");
  EXPECT_EQ(topology_refusal(on_two_switches("", "switch=\"s3\"\n")).substr(0, 39),
            "t.toml:13:8: there is no switch 's3'; d");
  EXPECT_EQ(topology_refusal(on_two_switches("", "")).substr(0, 43),
            "t.toml:12:1: node 'h1.2' needs 'switch'; kn");
  EXPECT_NE(
      topology_refusal(on_two_switches(both,
                                       "switch=\"s2\"\n[[host.uplink]]\nswitch=\"s1\"\n[[host.uplink]]\n"
                                       "switch=\"s1\"\n[[host.uplink]]\nswitch=\"s1\"\n"))
          .find("a host has at most 4 links"),
      std::string::npos);
  EXPECT_NE(topology_refusal(
                "fabric=\"f\"\n[[switch]]\nname=\"s1\"\n[[unit]]\nname=\"h1.2\"\n[[host]]\nname=\"h1\"\n"
                "os=\"gen\"\n[[host.uplink]]\n")
                .find("this port would have the name 'h1.2' of the node at line 4"),
            std::string::npos);
  // Each link takes a port of its switch.
  EXPECT_EQ(
      topology_refusal(
          "fabric=\"f\"\n[[switch]]\nname=\"s1\"\nports=2\n[[unit]]\nname=\"u1\"\n[[host]]\nname=\"h1\"\n"
          "os=\"gen\"\n[[host.uplink]]\n"),
      "t.toml:2:1: switch 's1' has 2 ports but 3 nodes and links use it");
}

TEST(Topology, a_unit_may_have_several_links_and_each_may_be_an_adapter) {
  const std::string unit = kTwo + "[[unit]]\nname=\"u1\"\nswitch=\"s1\"\n";
  Result<Topology> got =
      parse_topology(unit +
                         "adapters=\"per-link\"\n[[unit.uplink]]\nswitch=\"s2\"\n[[host]]\nname=\"h1\"\n"
                         "switch=\"s1\"\nos=\"gen\"\n[[host.uplink]]\nswitch=\"s2\"\n",
                     "t.toml");
  ASSERT_TRUE(got.ok()) << got.error().text;
  const UnitNode& two = got->units[0];
  ASSERT_EQ(two.further_links.size(), 1U);
  EXPECT_EQ(two.further_links[0].name, "u1.2");
  EXPECT_EQ(two.further_links[0].switch_index, 1U);
  EXPECT_EQ(two.further_links[0].order, 1U) << "LIDs follow the file";
  EXPECT_TRUE(two.adapter_per_link);
  EXPECT_FALSE(got->hosts[0].adapter_per_link) << "its links are ports of one adapter";
  EXPECT_NE(topology_refusal(unit + "adapters=\"per-link\"\n")
                .find("'adapters' is for several links: add [[unit.uplink]]"),
            std::string::npos)
      << topology_refusal(unit + "adapters=\"per-link\"\n");
}

/// A host on both switches of a pair that is joined takes the link that ends where the unit is.
TEST(Topology, a_session_takes_the_link_to_its_units_switch) {
  const std::string joined = kTwo +
                             "[[link]]\nswitches=[\"s1\", \"s2\"]\n[[unit]]\nname=\"u1\"\nswitch=\"s1\"\n"
                             "[[unit]]\nname=\"u2\"\nswitch=\"s2\"\n[[host]]\nname=\"h1\"\nswitch=\"s1\"\n"
                             "[[host.uplink]]\nswitch=\"s2\"\n[[host.uplink]]\nswitch=\"s2\"\n";
  const auto via = [&joined](const std::string& ports) {
    Result<Topology> got = parse_topology(joined + ports, "t.toml");
    EXPECT_TRUE(got.ok()) << got.error().text;
    std::vector<uint32_t> out;
    for (const HostPort& port : got->hosts[0].ports) out.push_back(port.via);
    return out;
  };
  const std::string one = "[[host.port]]\nos=\"gen\"\nunit=\"u1\"\n";
  const std::string two = "[[host.port]]\nos=\"gen\"\nunit=\"u2\"\n";
  EXPECT_EQ(via(one + two), (std::vector<uint32_t>{1, 2}));
  EXPECT_EQ(via(one + "via=3\n" + two + "via=3\n"), (std::vector<uint32_t>{3, 3}));
}

TEST(Topology, a_host_says_how_reliable_channels_acknowledge) {
  const auto with = [](const std::string& keys) {
    return kHead + kUnit + "[[host]]\nname=\"h1\"\nos=\"gen\"\n" + keys;
  };
  EXPECT_EQ(parse_topology(with(""), "t.toml").value().hosts[0].acks, AckPolicy::kSelective);
  EXPECT_EQ(parse_topology(with("acks=\"strict\"\n"), "t.toml").value().hosts[0].acks, AckPolicy::kStrict);
  EXPECT_EQ(topology_refusal(with("acks=\"each\"\n")).substr(0, 35), "t.toml:9:6: 'acks' cannot be 'each'");
  EXPECT_EQ(topology_refusal(with("mode=\"sendrecv\"\nacks=\"strict\"\n")),
            "t.toml:10:6: no strict acknowledgements in mode sendrecv, which has none");
}

TEST(Topology, lanes_of_switches_have_an_order) {
  const auto with = [](const std::string& keys) {
    return "fabric = \"f\"\n[links]\nlanes = 3\n" + keys + "[[switch]]\nname = \"s1\"\n";
  };
  Result<Topology> got =
      parse_topology(with("high_lanes=[\"2:64\"]\nlow_lanes=[\"0:1\",\"1:255\"]\nhigh_limit=16\n"), "t.toml");
  ASSERT_TRUE(got.ok()) << got.error().text;
  EXPECT_EQ(got->lane_order.high, (std::vector<node::LaneWeight>{{2, 64}}));
  EXPECT_EQ(got->lane_order.low, (std::vector<node::LaneWeight>{{0, 1}, {1, 255}}));
  EXPECT_EQ(got->lane_order.high_limit, 16U);
  EXPECT_EQ(parse_topology(with(""), "t.toml").value().lane_order, node::LaneOrder());
  EXPECT_EQ(topology_refusal(with("high_lanes=[\"2:64\"]\n")), "accepted") << "the others share what is left";
  const std::vector<std::pair<std::string, std::string>> bad{
      {"high_lanes=[\"2x64\"]\n", "t.toml:4:12: '2x64': write LANE:WEIGHT, like 3:64"},
      {"high_lanes=[\"3:64\"]\n", "t.toml:4:12: there is no lane 3: links have 3 data lanes, from 0"},
      {"low_lanes=[\"0:1\",\"2:1\"]\n", "t.toml:4:11: lane 1 stands in no table and would never send"},
      {"high_limit=5\n", "t.toml:4:12: a limit for high lanes, but no lane is high"},
      {"high_lanes=[\"2:64\"]\nhigh_limit=0\n", "t.toml:5:12: "}};
  for (const auto& [keys, answer] : bad)
    EXPECT_EQ(topology_refusal(with(keys)).substr(0, answer.size()), answer) << topology_refusal(with(keys));
}

TEST(Topology, a_unit_serves_as_many_hosts_as_it_has_room_for) {
  const auto with_hosts = [](size_t count, const std::string& key) {
    std::string text = kHead + kUnit + key;
    for (size_t i = 0; i < count; ++i) text += "[[host]]\nname=\"h" + std::to_string(i) + "\"\nos=\"gen\"\n";
    return topology_refusal(text);
  };
  EXPECT_EQ(with_hosts(node::kHostsPerUnitDefault, ""), "accepted");
  EXPECT_NE(with_hosts(node::kHostsPerUnitDefault + 1, "").find("write hosts = 17 or more"),
            std::string::npos);
  EXPECT_EQ(with_hosts(20, "hosts=20\n"), "accepted");
}

TEST(Topology, gateways_in_reach_and_addresses_that_two_units_share_are_good) {
  for (const char* gateway : {"10.0.0.126", "fe80::1", "fd09::ffff"})
    EXPECT_EQ(topology_refusal(kHead + kUnit +
                               "nic=\"tap\"\naddresses=[\"10.0.0.1/25\", \"fd09::1/64\"]\ngateway=\"" +
                               gateway + "\"\n"),
              "accepted")
        << gateway;
  EXPECT_EQ(topology_refusal(kHead + kUnit + "[[unit]]\nname=\"u2\"\n[[host]]\nname=\"h1\"\n" +
                             "[[host.port]]\nunit=\"u1\"\nos=\"gen\"\nmac=\"02:00:00:00:00:01\"\n" +
                             "[[host.port]]\nunit=\"u2\"\nos=\"gen\"\nmac=\"02:00:00:00:00:01\"\n"),
            "accepted");
  EXPECT_EQ(
      topology_refusal(
          "fabric=\"f\"\n[links]\nflit_payload=96\ncredits=4\ncut_through=true\n[[switch]]\nname=\"s1\"\n"),
      "accepted");
}

}  // namespace
}  // namespace weft::tools
