"""Membership without the file: processes that no topology names join a switch with spare ports and talk, over shared memory
and ZeroMQ with keys, and what they had is free when they have gone."""
import json
import os
import signal
import unittest

import frames
import harness
from weft_case import WeftCase

MAC = "02:00:00:00:78:01"


class SparePortsTest(WeftCase):
    def guest(self, program, name, *options, switch=None):
        """A process outside of the launcher, with a directory that it makes itself, and neither LID nor GUID."""
        directory = self.path / name
        argv = [self.bin / program, "--name", name, "--dir", directory, "--switch",
                switch or f"shm:{self.state}/t/s1.sock", *options]
        process = harness.Process(self.path, name, argv)
        self.addCleanup(process.destroy)
        return process.start()

    def ports(self):
        nodes = json.loads(self.weft("status", "--json")[1])["nodes"]
        return [port for node in nodes if node["name"] == "s1" for port in node["ports"]]

    def guests(self):
        """guest GUID -> LID of those that are there."""
        return {port["peer"]: port["lid"] for port in self.ports() if port["state"] == "up" and "guest" in port["peer"]}

    def new_guest(self, known):
        (name, lid), _ = harness.wait_for(lambda: next(iter(set(self.guests().items()) - set(known.items())), None),
                                          "a guest to join")
        return name, lid

    def talk(self, unit_lid, *options, switch=None):
        """A host joins beside a unit at `unit_lid`, and frames come back from there."""
        host = self.guest("weft-host", "host", "--unit", unit_lid, "--os", f"unix:{self.path}/host.frames", "--mac", MAC,
                          *options, switch=switch)
        stream = frames.FrameStream(self.path / "host.frames")
        self.addCleanup(stream.close)
        traffic = frames.EchoTraffic(stream, mac=bytes.fromhex(MAC.replace(":", "")), give_up_seconds=30.0)
        traffic.run_frames(300)
        traffic.drain()
        self.assertEqual((traffic.lost, traffic.corrupted, traffic.duplicated, len(traffic.waiting)), (0, 0, 0, 0),
                         f"{traffic}\n{host.report()}")
        return host

    def test_two_processes_that_nobody_named_talk(self):
        self.up('fabric = "t"\n[[switch]]\nname = "s1"\nspare_ports = 2\n')
        self.assertEqual([port["peer"] for port in self.ports()], ["spare", "spare"])
        unit = self.guest("weft-iou", "unit", "--nic", "echo")
        unit_name, unit_lid = self.new_guest({})
        self.assertEqual(oct((self.path / "unit").stat().st_mode & 0o777), "0o700", "the program made its directory")
        host = self.talk(unit_lid)
        both = self.guests()
        self.assertEqual(len(both), 2)
        # The third finds no port, and says why.
        late = self.guest("weft-iou", "late", "--nic", "echo")
        harness.wait_for(lambda: "no free port" in late.stderr(), "the third to be refused by name")
        # A clean end and a death free the ports; LIDs rest.
        self.assertEqual(host.terminate(), 0)
        _, late_lid = self.new_guest(both)
        self.assertNotIn(late_lid, both.values())
        unit.kill()
        harness.wait_for(lambda: unit_name not in self.guests(), "the port of the dead unit to be free")
        there = self.guests()
        self.guest("weft-iou", "other", "--nic", "echo")
        _, other_lid = self.new_guest(there)
        self.assertNotIn(other_lid, [*both.values(), late_lid])

    def test_a_switch_tells_of_254_ports(self):
        self.up('fabric = "t"\n[[switch]]\nname = "s1"\nspare_ports = 254\n')
        self.guest("weft-iou", "unit", "--nic", "echo")
        _, lid = self.new_guest({})
        self.talk(lid)
        self.assertEqual([port["port"] for port in self.ports()], list(range(1, 255)))
        code, out, err = self.weft("stat", "--all", "--json")
        self.assertEqual(code, 0, err)
        counters = json.loads(out)["counters"]
        for port in (1, 2, 26, 100, 254):
            self.assertIn(f"s1.port.{port}.cells_in", counters)
            self.assertIn(f"s1.port.{port}.link.vl.3.credits", counters)
        self.assertGreater(counters["s1.port.1.cells_in"], 0)

    def test_guests_outlive_their_switch(self):
        self.up('fabric = "t"\n[[switch]]\nname = "s1"\nspare_ports = 4\n[[unit]]\nname = "u1"\n')
        self.talk(1)
        before = self.guests()
        switch = next(node for node in json.loads(self.weft("status", "--json")[1])["nodes"] if node["name"] == "s1")
        os.kill(switch["pid"], signal.SIGKILL)
        harness.wait_for(lambda: self.guests() == before, "the guest to be back as who it was")

    def test_a_guest_that_left_is_not_listed_as_lost(self):
        """Neither after a death nor after a clean end; a host of the topology stays listed."""
        self.up('fabric = "t"\n[[switch]]\nname = "s1"\nspare_ports = 4\n[[unit]]\nname = "u1"\n[[host]]\nname = "h1"\nos = "gen"\n')

        def peers():
            nodes = json.loads(self.weft("status", "--json")[1])["nodes"]
            return {session["peer"]: session["state"] for node in nodes if node["name"] == "u1" for session in node["sessions"]}
        for end in ("kill", "terminate"):
            host = self.talk(1)
            harness.wait_for(lambda: peers() == {"h1": "open", "": "open"}, "host and guest", interval=0.2)
            getattr(host, end)()
            harness.wait_for(lambda: peers() == {"h1": "open"}, "the guest to be gone from the list", interval=0.2)
            (self.path / "host.frames").unlink(missing_ok=True)
        frozen = next(node for node in json.loads(self.weft("status", "--json")[1])["nodes"] if node["name"] == "h1")["pid"]
        os.kill(frozen, signal.SIGSTOP)
        try:
            harness.wait_for(lambda: peers() == {"h1": "lost"}, "the host of the topology to be listed as lost", interval=0.2)
        finally:
            os.kill(frozen, signal.SIGCONT)

    def test_over_tcp_with_keys(self):
        keys = self.path / "keys"
        self.assertEqual(self.weft("keygen", "--dir", keys, "s1", "alice", "bob")[0], 0)
        endpoint = f"tcp://127.0.0.1:{20000 + os.getpid() % 20000}"
        self.up(f'fabric = "t"\n[curve]\nkeys = "{keys}"\n[[switch]]\nname = "s1"\nlisten = ["{endpoint}"]\n'
                'spare_ports = 4\nspare_keys = ["alice", "bob"]\n')

        def key(name):
            return "--curve-secret", keys / f"{name}.secret", "--curve-server", keys / "s1.public"

        self.guest("weft-iou", "unit", "--nic", "echo", *key("alice"), switch=endpoint)
        _, unit_lid = self.new_guest({})
        self.talk(unit_lid, *key("bob"), switch=endpoint)


if __name__ == "__main__":
    unittest.main()
