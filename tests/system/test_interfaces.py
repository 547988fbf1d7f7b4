"""Interfaces come and go under a running fabric: a LAN NIC or a TAP that is deleted, renamed, set down or made anew."""
import json
import os
import pathlib
import signal
import time
import unittest

import harness
import netns
from weft_case import WeftCase

NOTICE = 1.0  # seconds until it is noticed (issue 7, section 3)
FABRIC = """fabric = "t"
[[switch]]
name = "s1"
[[host]]
name = "h1"
netns = "{host}"
interface = "eth0"
addresses = ["10.9.2.1/24"]
[[unit]]
name = "u1"
{unit}
"""
PACKET = 'nic = "packet"\nnetns = "{lan}"\ninterface = "u0"\n{more}'
TAP = 'nic = "tap"\nnetns = "{lan}"\ninterface = "lan0"\naddresses = ["10.9.2.254/24"]\n'


class InterfacesTest(WeftCase):
    def setUp(self):
        super().setUp()
        netns.require_root()
        self.host, self.lan, self.far = (netns.Namespace(role) for role in ("host", "lan", "far"))
        for namespace in (self.host, self.lan, self.far):
            self.addCleanup(namespace.delete)
            namespace.exec("sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1",
                           check=False)

    def make_veth(self):
        self.lan.ip("link", "add", "u0", "type", "veth", "peer", "name", "b0", "netns", self.far.name)
        self.lan.ip("link", "set", "u0", "up")
        self.far.ip("addr", "add", "10.9.2.254/24", "dev", "b0")
        self.far.ip("link", "set", "b0", "up")

    def bring_up(self, unit, more=""):
        if "packet" in unit:
            self.make_veth()
        self.launcher = self.up(FABRIC.format(host=self.host.name, unit=unit.format(lan=self.lan.name, more=more)))
        self.assertTrue(self.pings())

    def ping(self, wait=1):
        return " 1 received" in self.host.exec("ping", "-c1", f"-W{wait}", "10.9.2.254", check=False)

    def pings(self):
        return harness.wait_for(self.ping, "a ping is answered", interval=0.05)

    def node(self, name):
        return next(entry for entry in json.loads(self.weft("status", "--json")[1])["nodes"] if entry["name"] == name)

    def fault(self, name, expected, code=None):
        """weft status says it within a second; returns how long it took."""
        def said():
            status, text, _ = self.weft("status")
            line = next(line for line in text.splitlines() if line.startswith(name + " "))
            return (expected in line if expected else "interface" not in line) and code in (None, status)
        _, took = harness.wait_for(said, f"{name}: {expected}", interval=0.02)
        return took

    def cpu_share(self, *nodes, seconds=1.0):
        """Part of a core that the processes of these nodes use."""
        def ticks():
            total = 0
            for node in nodes:
                fields = pathlib.Path(f"/proc/{self.node(node)['pid']}/stat").read_text().rsplit(")", 1)[1].split()
                total += int(fields[11]) + int(fields[12])
            return total
        before, start = ticks(), time.monotonic()
        time.sleep(seconds)
        return (ticks() - before) / os.sysconf("SC_CLK_TCK") / (time.monotonic() - start)

    def identity(self):
        return [(self.node(name)["pid"], self.node(name)["restarts"]) for name in ("h1", "u1")]

    def counter(self, name):
        return json.loads(self.weft("stat", "--json", "--all", "--interval", 10)[1])["counters"][name]

    def logs(self):
        return self.weft("logs")[1]

    def logged_after(self, node, text, since):
        """Seconds from `since` to the line of the node's own log that says `text`: by the process's clock, not by that of the
        commands that look."""
        def times():
            lines = (self.state / "t" / f"{node}.log").read_text().splitlines()
            said = (line.split(" ", 1) for line in lines if text in line)
            return [moment for moment in (float(word) for word, _ in said) if moment > since - NOTICE]
        harness.wait_for(times, f"{node} says: {text}", interval=0.05)
        return times()[-1] - since

    def expect_notice(self, node, text, code, since):
        self.fault(node, text, code)
        if "gone" in text:
            self.assertLess(self.logged_after(node, "the interface is gone", since), NOTICE)
        self.assertLess(self.cpu_share("h1", "u1"), 0.4, "nothing spins")
        blocked = json.loads(self.weft("stat", "--json", "--interval", 50)[1])["blocked"]
        if "gone" in text:
            self.assertTrue(any(f"interface of {node} is gone" in line for line in blocked), blocked)
            self.assertIn("the interface is gone", self.logs())

    def test_a_lan_interface_that_is_deleted_and_made_anew(self):
        self.bring_up(PACKET)
        before = self.identity()
        opened = self.counter("u1.unit.driver.hosts_admitted")
        self.far.ip("link", "del", "b0")  # the other end, and with it ours
        self.expect_notice("u1", "interface u0 is gone", 1, time.time())
        harness.wait_for(lambda: "NO-CARRIER" in self.host.ip("link", "show", "eth0"), "the host's carrier is off")
        nic = json.loads(self.weft("nic", "h1", "--json")[1])["nics"][0]
        self.assertFalse(nic["link_up"])
        self.assertIn("u1: interface u0 is gone", nic["faults"])
        self.make_veth()
        self.assertLess(self.logged_after("u1", "the interface is back", time.time()), NOTICE)
        self.fault("u1", "", 0)
        self.pings()
        self.assertEqual(self.identity(), before, "no restart")
        self.assertEqual(self.counter("u1.unit.driver.hosts_admitted"), opened, "no new session")

    def test_a_lan_interface_that_is_renamed_or_set_down(self):
        self.bring_up(PACKET)
        before = self.identity()
        for away, text, code, back in (
                ([["down"], ["name", "x0"]], "interface u0 is gone", 1, [("x0", "name", "u0"), ("u0", "up")]),
                ([["down"]], "interface u0 is down", 0, [("u0", "up")])):
            for words in away:
                self.lan.ip("link", "set", "dev", "u0", *words)
            self.expect_notice("u1", text, code, time.time())
            for device, *words in back:
                self.lan.ip("link", "set", "dev", device, *words)
            self.fault("u1", "", 0)
            self.pings()
        self.assertEqual(self.identity(), before)

    def test_a_unit_that_dies_while_its_interface_is_away_comes_back_without_it(self):
        self.bring_up(PACKET)
        self.lan.ip("link", "del", "u0")
        self.fault("u1", "interface u0 is gone")
        os.kill(self.node("u1")["pid"], signal.SIGKILL)
        harness.wait_for(lambda: self.node("u1")["restarts"] == 1, "it is started again")
        self.fault("u1", "interface u0 is gone", 1)
        time.sleep(1)
        self.assertEqual(self.node("u1")["restarts"], 1, "and stays up")
        self.make_veth()
        self.pings()

    def test_a_deleted_tap_is_made_anew_by_the_launcher(self):
        self.bring_up(TAP)
        before = self.identity()
        for node, namespace, name, address in (("h1", self.host, "eth0", "10.9.2.1"), ("u1", self.lan, "lan0", "10.9.2.254")):
            namespace.ip("link", "set", "dev", name, "txqueuelen", "77")
            mac = namespace.interface(name)["address"]
            namespace.ip("link", "del", name)
            made = f"interface {name} was deleted and has been made anew"
            self.assertLess(self.logged_after(node, made, time.time()), NOTICE)
            self.assertIn(made, self.logs(), "the launcher's word, in the log of the node")
            harness.wait_for(lambda: namespace.interface(name) and address in str(namespace.interface(name)["addr_info"]),
                             "the interface is there again")
            self.assertNotEqual(namespace.interface(name)["txqlen"], 77, "another one")
            self.assertEqual(namespace.interface(name)["address"], mac)
            self.pings()
            self.fault(node, "", 0)
            self.assertIn("the interface is back", self.logs())
        self.assertEqual(self.identity(), before)
        self.assertLess(self.cpu_share("h1", "u1"), 0.4)
        self.launcher.terminate()
        self.launcher.wait(20)
        self.assertIsNone(self.host.interface("eth0"), "removed at the end")

    def test_a_tap_that_is_made_anew_is_a_port_of_its_bridge_again(self):
        self.bring_up(TAP)
        self.host.ip("link", "add", "br0", "type", "bridge")
        self.host.ip("link", "set", "dev", "eth0", "master", "br0")
        time.sleep(0.5)  # the launcher hears of it
        self.host.ip("link", "del", "eth0")
        harness.wait_for(lambda: self.host.interface("eth0") and self.host.interface("eth0").get("master") == "br0",
                         "the interface is in its bridge again")
        self.assertIn("interface eth0 was deleted and has been made anew in bridge br0", self.logs())
        self.host.ip("link", "set", "dev", "eth0", "nomaster")
        time.sleep(0.5)
        self.host.ip("link", "del", "eth0")
        harness.wait_for(lambda: self.host.interface("eth0"), "the interface is there again")
        self.assertIsNone(self.host.interface("eth0").get("master"), "it was taken out")

    def test_what_a_launcher_without_a_terminal_mends_stands_in_the_logs(self):
        self.file.write_text(FABRIC.format(host=self.host.name, unit=TAP.format(lan=self.lan.name)))
        self.addCleanup(self.weft, "down")
        self.assertEqual(self.weft("up", "--detach", self.file)[0], 0)
        self.host.ip("link", "del", "eth0")
        harness.wait_for(lambda: "h1: interface eth0 was deleted and has been made anew" in self.logs(), "it is said")
        self.pings()

    def test_a_tap_that_cannot_be_made_anew_keeps_a_dead_host_from_starting_in_vain(self):
        self.bring_up(TAP)
        os.kill(self.launcher.pid, signal.SIGSTOP)  # so that somebody else is faster
        self.host.ip("link", "del", "eth0")
        self.expect_notice("h1", "interface eth0 is gone", 1, time.time())
        self.host.ip("link", "add", "eth0", "type", "veth", "peer", "name", "x1")
        pid = self.node("h1")["pid"]
        os.kill(pid, signal.SIGKILL)
        os.kill(self.launcher.pid, signal.SIGCONT)
        harness.wait_for(lambda: not self.node("h1")["running"], "it is dead")
        time.sleep(1.5)
        self.assertEqual(self.node("h1")["restarts"], 0)
        self.host.ip("link", "del", "eth0")
        self.pings()
        self.assertEqual(self.node("h1")["restarts"], 1)

    def test_a_tap_that_is_renamed_is_used_again_under_its_name(self):
        self.bring_up(TAP)
        before = self.identity()
        self.host.ip("link", "set", "dev", "eth0", "down")
        self.host.ip("link", "set", "dev", "eth0", "name", "x0")
        self.expect_notice("h1", "interface eth0 is gone", 1, time.time())
        self.host.ip("link", "set", "dev", "x0", "name", "eth0")
        self.host.ip("link", "set", "dev", "eth0", "up")
        self.fault("h1", "", 0)
        self.pings()
        self.assertEqual(self.identity(), before)

    def test_a_host_restarted_while_its_tap_has_another_name_uses_it_again(self):
        self.bring_up(TAP)
        self.host.ip("link", "set", "dev", "eth0", "down")
        self.host.ip("link", "set", "dev", "eth0", "name", "x0")
        self.fault("h1", "interface eth0 is gone")
        os.kill(self.node("h1")["pid"], signal.SIGKILL)
        harness.wait_for(lambda: self.node("h1")["restarts"] == 1, "it is started again")
        self.fault("h1", "interface eth0 is gone", 1)
        self.host.ip("link", "set", "dev", "x0", "name", "eth0")
        self.host.ip("link", "set", "dev", "eth0", "up")
        self.fault("h1", "", 0)
        self.pings()
        self.assertEqual(self.node("h1")["restarts"], 1, "without another restart")

    def settings(self):
        link, = json.loads(netns.run("ip", "-n", self.lan.name, "-d", "-json", "link", "show", "dev", "u0"))
        return {key: link[key] for key in ("mtu", "address", "gso_max_size", "gro_max_size")}

    def test_settings_of_a_lan_interface_are_borrowed_and_given_back(self):
        self.make_veth()
        self.far.ip("link", "set", "b0", "mtu", "4000")
        self.lan.ip("link", "set", "u0", "gso_max_size", "65536")
        before = self.settings()
        topology = FABRIC.format(host=self.host.name, unit=PACKET.format(
            lan=self.lan.name, more='mtu = 3000\nmac = "02:00:00:00:55:01"\n'))
        launcher = self.up(topology)
        self.assertEqual((self.settings()["mtu"], self.settings()["address"]), (3000, "02:00:00:00:55:01"))
        self.assertLessEqual(max(self.settings()["gso_max_size"], self.settings()["gro_max_size"]), 65000)
        self.assertEqual(json.loads(self.weft("nic", "h1", "--json")[1])["nics"][0]["nic_mtu"], 3000)
        self.lan.ip("link", "del", "u0")
        self.fault("u1", "interface u0 is gone")
        self.make_veth()
        harness.wait_for(lambda: self.settings()["mtu"] == 3000, "the new one gets them too")
        fresh = self.settings()["address"]
        self.assertEqual(fresh, "02:00:00:00:55:01")
        launcher.terminate()
        launcher.wait(20)
        after = self.settings()
        self.assertEqual({**after, "address": ""}, {**before, "mtu": 1500, "address": ""})
        self.assertNotEqual(after["address"], fresh)

    def test_a_killed_launcher_leaves_nothing_changed_behind_weft_down(self):
        self.make_veth()
        self.lan.ip("link", "set", "u0", "gso_max_size", "65536")
        before = self.settings()
        launcher = self.up(FABRIC.format(host=self.host.name, unit=PACKET.format(
            lan=self.lan.name, more='mtu = 1400\nmac = "02:00:00:00:55:02"\n')))
        self.assertEqual((self.settings()["mtu"], self.settings()["address"]), (1400, "02:00:00:00:55:02"))
        launcher.kill()
        launcher.wait(10)
        self.lan.ip("link", "set", "u0", "mtu", "1450")  # somebody's own wish from here on
        self.assertEqual(self.weft("down")[0], 0)
        self.assertEqual(self.settings(), {**before, "mtu": 1450})

    def test_a_setting_that_the_interface_refuses_is_an_error_and_changes_nothing(self):
        self.make_veth()
        self.lan.ip("link", "add", "link", "u0", "name", "v0", "type", "macvlan", check=False)
        name = "v0" if self.lan.interface("v0") else None
        if name is None:
            self.skipTest("no macvlan here: no interface whose MTU has a limit below ours")
        self.file.write_text(FABRIC.format(host=self.host.name, unit=PACKET.format(
            lan=self.lan.name, more="mtu = 9000\n").replace("u0", name)))
        code, _, errors = self.weft("up", "--detach", self.file)
        self.assertEqual(code, 1)
        self.assertRegex(errors, "node 'u1': MTU 9000 on v0: ")
        self.assertEqual(self.lan.interface(name)["mtu"], 1500)

    def test_frames_beyond_the_mtu_of_the_lan_interface_are_dropped_and_counted(self):
        self.bring_up(PACKET, more="mtu = 1500\n")
        self.host.ip("link", "set", "dev", "eth0", "mtu", "9001")
        self.far.ip("link", "set", "dev", "b0", "mtu", "9000")
        wire = self.far.socket(netns.socket.AF_PACKET, netns.socket.SOCK_RAW, netns.socket.htons(3))
        self.addCleanup(wire.close)
        wire.bind(("b0", 0))
        wire.settimeout(0.5)
        self.assertNotIn(" 1 received", self.host.exec("ping", "-c1", "-W1", "-s4000", "10.9.2.254", check=False))
        stream = self.host.socket(netns.socket.AF_INET, netns.socket.SOCK_STREAM)
        self.addCleanup(stream.close)
        server = self.far.socket(netns.socket.AF_INET, netns.socket.SOCK_STREAM)
        self.addCleanup(server.close)
        server.bind(("10.9.2.254", 7777))
        server.listen()
        stream.connect(("10.9.2.254", 7777))  # both ends believe in 8960 bytes
        stream.settimeout(1)
        stream.send(bytes(60000))
        harness.wait_for(lambda: self.counter("u1.unit.driver.too_long_for_mtu") >= 2, "they are counted")
        longest = 0
        try:
            while True:
                longest = max(longest, len(wire.recv(70000)))
        except TimeoutError:
            pass
        self.assertLessEqual(longest, 1518)
        nic = json.loads(self.weft("nic", "h1", "--json")[1])["nics"][0]
        self.assertTrue(any("has MTU 9001, the fabric carries 9000" in fault for fault in nic["faults"]), nic["faults"])
        self.assertIn("has MTU 9001, the fabric carries 9000", self.logs())

    def test_losses_of_the_kernel_at_the_lan_have_a_name(self):
        self.bring_up(PACKET)
        unit = self.node("u1")["pid"]
        os.kill(unit, signal.SIGSTOP)
        try:
            wire = self.far.socket(netns.socket.AF_PACKET, netns.socket.SOCK_RAW)
            self.addCleanup(wire.close)
            wire.bind(("b0", 0))
            mac = bytes.fromhex(self.host.interface("eth0")["address"].replace(":", ""))
            frame = mac + bytes.fromhex("0200000000ee") + b"\x88\xb5" + bytes(1400)
            for _ in range(8000):
                wire.send(frame)
        finally:
            os.kill(unit, signal.SIGCONT)
        harness.wait_for(lambda: self.counter("u1.unit.nic.socket_drops") > 0, "they are counted")
        self.pings()
        nic = json.loads(self.weft("nic", "h1", "--json")[1])["nics"][0]
        self.assertGreater(nic["losses"]["u1.unit.nic.socket_drops"], 0)
        self.assertIn("u1.unit.nic.socket_drops", self.weft("nic", "h1")[1])


if __name__ == "__main__":
    unittest.main()
