"""A bridge behind a host: what `bridge = true` alone has to be enough for."""
import json
import unittest

import harness
import netns
from weft_case import WeftCase

TOPOLOGY = """fabric = "t"
[[switch]]
name = "s1"
[[host]]
name = "h1"
netns = "{host}"
interface = "eth0"
[[unit]]
name = "u1"
nic = "tap"
netns = "{lan}"
interface = "lan0"
addresses = ["10.9.1.254/24"]
{bridge}
"""


class BridgeTest(WeftCase):
    def bridged_station(self, bridge):
        """A station in a namespace of its own, which reaches the LAN through a bridge in the host's."""
        netns.require_root()
        spaces = {role: netns.Namespace(role) for role in ("host", "lan", "station")}
        for space in spaces.values():
            self.addCleanup(space.delete)
        host, station = spaces["host"], spaces["station"]
        self.up(TOPOLOGY.format(host=host.name, lan=spaces["lan"].name, bridge=bridge))
        host.ip("link", "add", "br0", "type", "bridge")
        netns.connect(host, "port0", None, station, "eth0", "10.9.1.7/24")
        for port in ("eth0", "port0"):
            host.ip("link", "set", port, "master", "br0")
        host.ip("link", "set", "br0", "up")
        return station

    def reaches(self, station):
        return "1 received" in station.exec("ping", "-c1", "-W1", "10.9.1.254", check=False)

    def test_bridge_alone_is_enough(self):
        station = self.bridged_station("bridge = true")
        harness.wait_for(lambda: self.reaches(station), "a station behind the bridge reaches the LAN")

    def test_without_it_nothing_passes(self):
        station = self.bridged_station("")
        self.assertFalse(any(self.reaches(station) for _ in range(3)))
        self.assertGreater(self.counter("u1.unit.driver.foreign_source"), 0)

    def counter(self, name):
        return json.loads(self.weft("stat", "--json", "--all")[1])["counters"][name]


if __name__ == "__main__":
    unittest.main()
