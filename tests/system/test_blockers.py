"""`weft stat` under a blocker that the test makes: it names the lane, the pool or the peer."""
import json
import os
import re
import signal
import unittest

import frames
import harness
from weft_case import WeftCase

FABRIC = """fabric = "t"
{links}
[[switch]]
name = "s1"
[[host]]
name = "h1"
{host}
[[unit]]
name = "u1"
{unit}
"""
GEN = 'os = "gen"'


class BlockersTest(WeftCase):
    def bring_up(self, host=GEN, unit="", links="", options=()):
        self.up(FABRIC.format(host=host, unit=unit, links=links), options)

    def blocked(self):
        code, text, errors = self.weft("stat", "--json", "--interval", 600)
        self.assertEqual(code, 0, errors)
        return json.loads(text)["blocked"]

    def load(self, *options):
        """Traffic that goes on for longer than the test looks."""
        return self.start("traffic", "--bulk-only", "--duration", 60, "--answer-timeout", 60000, *options)

    def wait_for_line(self, pattern):
        seen = []

        def named():
            seen[:] = self.blocked()
            return any(re.search(pattern, line) for line in seen)
        try:
            harness.wait_for(named, pattern)
        except harness.WaitFailed as error:
            self.fail(f"{error}; last seen: {seen}")

    def process(self, node):
        _, text, _ = self.weft("status", "--json")
        return next(entry["pid"] for entry in json.loads(text)["nodes"] if entry["name"] == node)

    def test_a_fabric_at_rest(self):
        self.bring_up()
        self.assertEqual(self.blocked(), [])
        code, text, _ = self.weft("stat", "--interval", 600)
        self.assertEqual((code, text.splitlines()[-1]), (0, "nothing blocks"))

    def test_a_fault_that_is_used_up(self):
        self.bring_up()
        self.load("--window", 4)
        self.assertEqual(self.weft("fault", "h1", "drop", "--limit", 3)[0], 0)

        def struck():
            return json.loads(self.weft("fault", "list", "--json")[1])["faults"][0]["struck"]
        harness.wait_for(lambda: struck() == 3, "three losses")
        self.assertFalse([line for line in self.blocked() if line.startswith("fault ")])
        self.assertEqual(self.weft("fault", "h1", "drop", "--every", 2)[0], 0)
        self.wait_for_line("^fault .*: drop")

    def test_one_credit_per_lane(self):
        self.bring_up(links="[links]\ncredits = 1\nlanes = 1")
        self.load("--window", 512)
        self.wait_for_line("lane 0 from h1 to s1 waited for credit")

    def test_a_pool_of_four_elements(self):
        self.bring_up(unit='pools = ["2048x4"]')
        self.load("--window", 512)
        self.wait_for_line("frames from h1 waited for a free element in the pools of u1")

    def test_a_reader_of_the_os_interface_that_stopped(self):
        """Nobody reads the Unix socket: the elements of the host stay full, and the LAN is told to wait."""
        path = self.path / "frames.sock"
        self.bring_up(host=f'os = "unix:{path}"\nmac = "02:00:00:00:77:99"\npools = ["2048x4"]')
        stream = frames.FrameStream(path)
        self.addCleanup(stream.close)
        traffic = frames.EchoTraffic(stream, mac=bytes.fromhex("020000007799"), give_up_seconds=60.0)
        traffic.run_frames(10)
        for sequence in range(5000):  # more than socket buffers hold; nobody reads an answer
            stream.send(frames.echo_request(sequence, 1514, traffic.mac))
        self.wait_for_line("the OS interface of h1 for u1 took no frame")
        self.wait_for_line("the LAN interface of u1 took no frame")
        self.wait_for_line(r"the pools of h1 for u1 are full: none of their \d+ elements is taken")

    def test_a_frozen_peer(self):
        self.bring_up()
        self.load("--window", 4096)
        pid = self.process("u1")
        os.kill(pid, signal.SIGSTOP)
        self.addCleanup(os.kill, pid, signal.SIGCONT)
        self.wait_for_line("u1 is frozen")
        # A link has as many slots as a lane has credits: which of them ends first is a matter of what was under way.
        self.wait_for_line("the link from s1 to u1 was full: u1 reads it too slowly|lane 0 from s1 to u1 has no credit")

    def test_a_dead_peer(self):
        self.bring_up(options=["--no-restart"])
        os.kill(self.process("u1"), signal.SIGKILL)
        self.wait_for_line("u1 does not run")
        self.wait_for_line("the link between s1 and u1 is down")
        self.wait_for_line("the session of h1 with u1 is not open")


if __name__ == "__main__":
    unittest.main()
