"""`weft nic`: the LAN NIC behind a host, asked and set over the fabric; and what `ip link` sets on the host's interface."""
import json
import os
import signal
import socket
import struct
import unittest

import harness
import netns
from test_tools import TWO_PORTS, read_pcapng
from weft_case import ECHO, WeftCase

FOREIGN, MDNS, ALL_NODES = "02:00:00:00:aa:02", "01:00:5e:00:00:fb", "33:33:00:00:00:01"
SENDER = "02:00:00:00:aa:01"
TAPS = """fabric = "t"
[[switch]]
name = "s1"
[[host]]
name = "h1"
netns = "{host}"
interface = "eth0"
addresses = ["10.9.1.1/24"]
[[unit]]
name = "u1"
nic = "tap"
netns = "{lan}"
interface = "lan0"
addresses = ["10.9.1.254/24"]
promiscuous = "allowed"
"""


def octets(mac):
    return bytes.fromhex(mac.replace(":", ""))


def frame(to):
    return octets(to) + octets(SENDER) + b"\x88\xb5" + bytes(50)


def recording(seconds):
    """A pcap file of a LAN where every 10 ms a frame goes to each of three addresses, none of them the host's."""
    records = [struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)]
    for at_ms in range(0, seconds * 1000, 10):
        for data in map(frame, (FOREIGN, MDNS, ALL_NODES)):
            records.append(struct.pack("<IIII", at_ms // 1000, at_ms % 1000 * 1000, len(data), len(data)) + data)
    return b"".join(records)


class NicTest(WeftCase):
    def nic(self, *words):
        """The NIC of h1 as JSON."""
        code, text, errors = self.weft("nic", "h1", "--json", *words)
        self.assertEqual((code, errors), (0, ""))
        found, = json.loads(text)["nics"]
        return found

    def process(self, node):
        _, text, _ = self.weft("status", "--json")
        return next(entry for entry in json.loads(text)["nodes"] if entry["name"] == node)

    def delivered(self):
        """Destinations of the next frames that reach the host."""
        file = self.path / "frames.pcapng"
        self.assertEqual(self.weft("capture", "h1", "-o", file, "-c", 30)[0], 0)
        return {frame[:6].hex(":") for _, frame in read_pcapng(file.read_bytes())[1]}

    def test_statistics_rise_with_traffic_and_are_cleared(self):
        self.up(ECHO)
        first = self.nic()
        self.assertEqual((first["unit"], first["interface"], first["link_up"], first["mtu"]), ("u1", "gen0", True, 9000))
        self.assertEqual(self.weft("traffic", "--bulk-only", "-n", 300, "--size", 200)[0], 0)
        rise = {key: value - first["statistics"][key] for key, value in self.nic()["statistics"].items()}
        self.assertGreaterEqual((rise["frames_in"], rise["frames_out"]), (300, 300))
        self.assertGreaterEqual((rise["bytes_in"], rise["bytes_out"]), (60_000, 60_000))
        self.assertGreaterEqual(self.nic("--clear")["statistics"]["frames_out"], 300, "read before it is cleared")
        self.assertEqual(set(self.nic()["statistics"].values()), {0})
        code, text, _ = self.weft("nic", "h1:gen0")
        self.assertEqual(code, 0)
        for line in ("h1:gen0, NIC of unit u1 (lid 2)", "link           up", "promiscuous    off", "all-multicast  on",
                     "frames in      0"):
            self.assertIn(line, text)

    def test_filters_decide_what_the_lan_delivers(self):
        recorded = self.path / "lan.pcap"
        recorded.write_bytes(recording(100))
        self.up(ECHO + f'nic = "pcap"\ninput = "{recorded}"\npromiscuous = "allowed"\n')
        self.assertEqual(self.delivered(), {MDNS, ALL_NODES}, "all multicast, as at the start")
        self.assertTrue(self.nic("--promisc", "on")["promiscuous"])
        self.assertEqual(self.delivered(), {FOREIGN, MDNS, ALL_NODES})
        report = self.nic("--promisc", "off", "--all-multicast", "off", "--multicast", MDNS.upper())
        self.assertEqual((report["promiscuous"], report["all_multicast"], report["multicast"]), (False, False, [MDNS]))
        self.assertEqual(self.delivered(), {MDNS})
        os.kill(self.process("u1")["pid"], signal.SIGKILL)  # its successor begins the recording anew
        harness.wait_for(lambda: self.process("u1")["restarts"] == 1 and self.weft("nic", "h1")[0] == 0, "the unit is back")
        self.assertEqual(self.nic()["multicast"], [MDNS], "set again when the unit returns")
        self.assertEqual(self.delivered(), {MDNS})
        self.nic("--multicast", "none")
        before = self.nic()["statistics"]["frames_in"]
        refused = self.counter("u1.unit.driver.no_host_for")
        harness.wait_for(lambda: self.counter("u1.unit.driver.no_host_for") > refused + 30, "the LAN goes on")
        self.assertEqual(self.nic()["statistics"]["frames_in"], before)

    def counter(self, name):
        return json.loads(self.weft("stat", "--json", "--all")[1])["counters"][name]

    def test_bad_input_and_refusals_say_what_mends_them(self):
        self.up(TWO_PORTS)
        both = json.loads(self.weft("nic", "h1", "--json")[1])["nics"]
        self.assertEqual([(nic["interface"], nic["unit"]) for nic in both], [("gen0", "u1"), ("gen1", "u2")])
        for code, words, says in (
                (1, ["u1"], "node 'u1' is no host; a unit's NIC is asked through a host that uses it: h1"),
                (1, ["s1"], "node 's1' is no host"),
                (1, ["host"], "there is no node 'host'"),
                (1, ["h1:gen2"], "this host has no interface 'gen2'; did you mean 'gen"),
                (1, ["h1", "--clear"], "node 'h1' has several interfaces; choose: h1:gen0, h1:gen1"),
                (1, ["h1:gen1", "--promisc", "on"], 'in its entry of the topology write bridge = true'),
                (2, [], "HOST is missing"),
                (2, ["h1", "--promisc", "yes"], "option --promisc needs on or off, not 'yes'"),
                (2, ["h1", "--multicast", f"{MDNS},{FOREIGN}"], f"or none, not '{FOREIGN}'"),
                (2, ["h1", "--multicast", ""], "or none, not ''"),
                (2, ["h1", "--multicast", ",".join([MDNS] * 65)], "at most 64 addresses")):
            with self.subTest(words=words):
                done = self.weft("nic", *words)
                self.assertEqual((done[0], len(done[2].splitlines())), (code, 1), done)
                self.assertIn(says, done[2])
        self.assertEqual(self.weft("nic", "h1:gen1", "--promisc", "off")[0], 0)
        unit = self.process("u1")["pid"]
        os.kill(unit, signal.SIGSTOP)
        try:
            for _ in range(2):  # while the host waits for the unit, and when it has given up
                code, text, errors = self.weft("nic", "h1:gen0")
                self.assertEqual((code, text), (1, ""))
                self.assertRegex(errors, "the session with the unit, lid 2, is .*; see weft status")
        finally:
            os.kill(unit, signal.SIGCONT)
        harness.wait_for(lambda: self.weft("nic", "h1:gen0")[0] == 0, "the unit answers again")

    def test_the_unit_follows_what_is_set_on_the_interface(self):
        netns.require_root()
        host, lan = netns.Namespace.next_name("host"), netns.Namespace("lan")
        self.addCleanup(lan.delete)
        self.up(TAPS.format(host=host, lan=lan.name))

        def link(*words):
            code, _, errors = self.weft("exec", "h1", "--", "ip", "link", "set", "dev", "eth0", *words)
            self.assertEqual(code, 0, errors)

        def ping():
            self.assertEqual(self.weft("exec", "h1", "--", "ping", "-c1", "-W5", "10.9.1.254")[0], 0)
        ping()
        link("address", "02:00:00:00:77:01", "mtu", "1400", "promisc", "on")
        harness.wait_for(lambda: self.nic()["promiscuous"], "the unit has followed")
        report = self.nic()
        self.assertEqual((report["mac"], report["mtu"]), ("02:00:00:00:77:01", 1400))
        nodes = {node["name"]: node for node in json.loads(self.weft("status", "--json")[1])["nodes"]}
        self.assertEqual({session["mac"] for name in ("h1", "u1") for session in nodes[name]["sessions"]},
                         {"02:00:00:00:77:01"}, "both ends of the session name one address")
        ping()
        wire = lan.socket(socket.AF_PACKET, socket.SOCK_RAW)
        self.addCleanup(wire.close)
        wire.bind(("lan0", 0))
        before = self.nic()["statistics"]["frames_in"]
        for _ in range(50):
            wire.send(frame(FOREIGN))
        harness.wait_for(lambda: self.nic()["statistics"]["frames_in"] >= before + 50, "frames for others are delivered")
        link("promisc", "off")
        harness.wait_for(lambda: not self.nic()["promiscuous"], "the unit has followed")
        refused = self.counter("u1.unit.driver.no_host_for")
        for _ in range(50):
            wire.send(frame(FOREIGN))
        harness.wait_for(lambda: self.counter("u1.unit.driver.no_host_for") >= refused + 50, "they are not any more")


if __name__ == "__main__":
    unittest.main()
