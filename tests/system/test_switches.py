"""Fabrics of several switches: frames cross three of them, over shared memory and ZeroMQ; each may be killed under load."""
import json
import os
import signal
import subprocess
import unittest

import harness
import netns
from weft_case import EXAMPLES, WeftCase


class SwitchesTest(WeftCase):
    def setUp(self):
        super().setUp()
        self.up(file=EXAMPLES / "switches.toml")

    def nodes(self):
        code, text, _ = self.weft("status", "--json")
        return code, {node["name"]: node for node in json.loads(text)["nodes"]}

    def traffic(self, host, *options):
        code, text, errors = self.weft("traffic", host, "--json", *options)
        self.assertEqual(code, 0, text + errors)
        return json.loads(text)

    def test_frames_cross_all_switches(self):
        for host in ("h1", "h3"):
            self.traffic(host, "-n", 2000, "--size", 98, "--size", 1514)
        _, nodes = self.nodes()
        ports = {name: {port["peer"]: (port["state"], port["carrier"]) for port in nodes[name]["ports"]
                        if port["peer"] != "spare"}
                 for name in ("s1", "s2", "s3")}
        self.assertEqual(ports, {"s1": {"h1": ("up", "shm"), "s2": ("up", "shm")},
                                 "s2": {"u2": ("up", "shm"), "s1": ("up", "shm"), "s3": ("up", "zmq")},
                                 "s3": {"h3": ("up", "shm"), "u3": ("up", "shm"), "s2": ("up", "zmq")}})
        code, text, _ = self.weft("stat", "--json")
        counters = json.loads(text)["counters"]
        dropped = {name: value for name, value in counters.items() if ".drop_" in name and name[0] == "s" and value}
        # Until every link was up, the first requests found no way.
        self.assertLessEqual({name.split(".")[-1] for name in dropped}, {"drop_port_down"})

    def test_each_switch_may_die_under_load(self):
        for victim in ("s1", "s2", "s3"):
            with self.subTest(victim=victim):
                load = self.start("traffic", "h1", "--json", "--bulk-only", "--duration", 2, "--answer-timeout", 10000,
                                  stdout=subprocess.PIPE)
                code, nodes = self.nodes()
                self.assertEqual(code, 0)
                os.kill(nodes[victim]["pid"], signal.SIGKILL)

                def back():
                    code, now = self.nodes()
                    return code == 0 and now[victim]["restarts"] == nodes[victim]["restarts"] + 1
                harness.wait_for(back, f"{victim} is back and every session open")
                report = json.loads(load.stdout.read())
                damage = {name: report[name] for name in ("corrupted", "duplicated", "reordered", "lost", "late")}
                self.assertEqual(set(damage.values()), {0},
                                 f"queue pairs outlive a switch: {damage}\n{self.weft('logs')[1]}")
                for host in ("h1", "h3"):
                    self.traffic(host, "-n", 500)
        logs = self.weft("logs")[1]
        for adapter in ("hca", "tca"):
            self.assertIn(f"{adapter}: port down 1", logs, "hosts and units log what their adapters report")


TWO_MACHINES = """fabric = "t"
[curve]
keys = "keys"
[[switch]]
name = "s1"
netns = "{left}"
[[switch]]
name = "s2"
netns = "{right}"
[[link]]
switches = ["s1", "s2"]
link = "zmq"
endpoint = "tcp://10.71.1.2:7000"
[[host]]
name = "h1"
switch = "s1"
netns = "{left}"
os = "gen"
[[unit]]
name = "u1"
switch = "s2"
netns = "{right}"
"""


class SwitchOnEachMachineTest(WeftCase):
    def setUp(self):
        super().setUp()
        netns.require_root()
        left, right = netns.Namespace("left"), netns.Namespace("right")
        for place in (left, right):
            self.addCleanup(place.delete)
        netns.connect(left, "cable", "10.71.1.1/24", right, "cable", "10.71.1.2/24")
        self.file.write_text(TWO_MACHINES.format(left=left.name, right=right.name))

    def test_switches_join_over_tcp_with_keys_and_hosts_stay_on_shared_memory(self):
        self.assertEqual(self.weft("keygen", "--dir", self.path / "keys", "s1", "s2")[0], 0)
        self.up()
        code, text, errors = self.weft("traffic", "-n", 500)
        self.assertEqual(code, 0, text + errors)
        _, text, _ = self.weft("status", "--json")
        carriers = {(node["name"], port["peer"]): port["carrier"]
                    for node in json.loads(text)["nodes"] for port in node["ports"]}
        self.assertEqual(carriers, {("s1", "h1"): "shm", ("s1", "s2"): "zmq", ("s2", "u1"): "shm", ("s2", "s1"): "zmq"})

    def test_a_switch_with_an_unknown_key_does_not_get_in(self):
        keys = self.path / "keys"
        self.assertEqual(self.weft("keygen", "--dir", keys, "s1", "s2", "stranger")[0], 0)
        (keys / "stranger.secret").replace(keys / "s1.secret")
        code, _, errors = self.weft("up", "--timeout", 3, self.file)
        self.assertEqual(code, 1)
        self.assertRegex(errors, "not ready in time: s1: no link to s2; .*; h1: ")
        code, text, _ = self.weft("logs", "s1")
        self.assertEqual(code, 0)
        self.assertIn("the switch does not know our key", text)


if __name__ == "__main__":
    unittest.main()
