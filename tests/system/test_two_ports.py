"""Nodes with two links, each on a switch of its own, as docs/examples/two_links.toml and two_adapters.toml have it."""
import json
import os
import signal
import subprocess
import unittest

import harness
from run import covers
from weft_case import EXAMPLES, WeftCase


class TwoPortsTest(WeftCase):
    def setUp(self):
        super().setUp()
        self.up(file=EXAMPLES / "two_links.toml")

    def nodes(self):
        _, text, _ = self.weft("status", "--json")
        return {node["name"]: node for node in json.loads(text)["nodes"]}

    def counters(self):
        return json.loads(self.weft("stat", "--all", "--json")[1])["counters"]

    def traffic(self, port):
        """Echoes over a session, every byte compared."""
        code, text, errors = self.weft("traffic", "h1", "--port", port, "-n", 1000)
        self.assertEqual(code, 0, text + errors)

    @covers("SAN-NODE-03")
    def test_each_port_carries_the_session_of_its_switch(self):
        nodes = self.nodes()
        self.assertEqual({name: [port["peer"] for port in nodes[name]["ports"]] for name in ("left", "right")},
                         {"left": ["u1", "h1"], "right": ["u2", "h1.2"]})
        for port, switch, other in ((0, "left", "right"), (1, "right", "left")):
            before = self.counters()
            self.traffic(port)
            after = self.counters()
            cells = {name: after[f"{name}.port.2.cells_in"] - before[f"{name}.port.2.cells_in"] for name in (switch, other)}
            self.assertGreater(cells[switch], 1000, cells)
            self.assertLess(cells[other], 1000, "keep-alives only")

    def test_the_death_of_a_switch_ends_no_session_of_the_other(self):
        session = "h1.unit.{}.session."
        lids = {name: node["lid"] for name, node in self.nodes().items()}
        lost = f"{session.format(lids['u1'])}"
        os.kill(self.nodes()["right"]["pid"], signal.SIGKILL)
        self.traffic(0)
        harness.wait_for(lambda: self.nodes()["right"]["restarts"] == 1, "the switch to be started again")
        harness.wait_for(lambda: self.weft("status")[0] == 0, "every session open")
        self.traffic(1)
        after = self.counters()
        self.assertEqual({name: value for name, value in after.items() if name.startswith(lost) and ".lost_" in name and value}, {})

    def test_a_fault_strikes_the_port_that_it_names(self):
        code, text, errors = self.weft("fault", "h1.2", "cut")
        self.assertEqual(code, 0, text + errors)
        def sessions():
            return {session["peer"]: session["state"] == "open" for session in self.nodes()["h1"]["sessions"]}
        harness.wait_for(lambda: sessions() == {"u1": True, "u2": False}, "the session of that port to end")
        self.traffic(0)
        self.assertEqual(self.weft("fault", "clear")[0], 0)
        harness.wait_for(lambda: self.weft("status")[0] == 0, "every session open")
        self.traffic(1)


class TwoAdaptersTest(WeftCase):
    """Host and unit have an adapter for each link: one session, which goes on while any link of both is left."""

    def setUp(self):
        super().setUp()
        self.up(file=EXAMPLES / "two_adapters.toml")

    def counters(self):
        return json.loads(self.weft("stat", "--all", "--json")[1])["counters"]

    def opened(self):
        """How many sessions have begun, on both sides."""
        return {name: value for name, value in self.counters().items() if name.endswith("session.opened")}

    def cells(self, switch):
        return sum(value for name, value in self.counters().items() if name.startswith(f"{switch}.port.") and name.endswith("cells_in"))

    def busy(self, switch):
        before = self.cells(switch)
        harness.wait_for(lambda: self.cells(switch) > before + 5000, f"frames to pass {switch}")

    def test_a_session_goes_over_to_the_link_that_is_left_and_back(self):
        opened = self.opened()
        self.assertTrue(opened)
        traffic = self.start("traffic", "h1", "--bulk-only", "-t", 12, "--rate", 20000, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        for target, left in (("h1", "right"), ("u1.2", "left"), ("u1", "right"), ("h1.2", "left")):
            self.assertEqual(self.weft("fault", target, "cut")[0], 0)
            self.busy(left)
            self.assertEqual(self.weft("fault", "clear")[0], 0)
        said = traffic.communicate(timeout=60)[0]
        self.assertEqual(traffic.returncode, 0, said)
        self.assertEqual(self.opened(), opened, "the session is the one that was there")
        self.assertGreater(self.counters()["h1.keys.handed_over"] + self.counters()["u1.keys.handed_over"], 0)


if __name__ == "__main__":
    unittest.main()
