"""Fabrics of several switches: frames cross three of them, over shared memory and ZeroMQ; each may be killed under load."""
import json
import os
import signal
import subprocess
import unittest

import harness
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
        ports = {name: {port["peer"]: (port["state"], port["carrier"]) for port in nodes[name]["ports"]}
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
                load = self.start("traffic", "h1", "--json", "--bulk-only", "--duration", 3, "--timeout", 10000,
                                  stdout=subprocess.PIPE)
                code, nodes = self.nodes()
                self.assertEqual(code, 0)
                os.kill(nodes[victim]["pid"], signal.SIGKILL)

                def back():
                    code, now = self.nodes()
                    return code == 0 and now[victim]["restarts"] == nodes[victim]["restarts"] + 1
                harness.wait_for(back, f"{victim} is back and every session open")
                report = json.loads(load.stdout.read())
                self.assertEqual((report["corrupted"], report["duplicated"], report["reordered"]), (0, 0, 0))
                self.assertEqual((report["lost"], report["late"]), (0, 0), "queue pairs outlive a switch")
                for host in ("h1", "h3"):
                    self.traffic(host, "-n", 500)


if __name__ == "__main__":
    unittest.main()
