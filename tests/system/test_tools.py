"""The tools on a fabric of real programs: demo, traffic, stat, capture, status; what the launcher shows of them."""
import json
import os
import pathlib
import signal
import struct
import subprocess
import tempfile
import unittest

import harness
import netns
from test_launcher import ECHO, die_with_test, end

CONTRACT = {"frames_sent", "frames_received", "lost", "corrupted", "duplicated", "rtt_us", "gbps", "rdma_writes_with_idata",
            "topology"}
LAN = """fabric = "t"
[[switch]]
name = "s1"
[[host]]
name = "h1"
unit = "u1"
netns = "h1"
interface = "eth0"
addresses = ["10.9.1.1/24"]
mtu = 9000
[[host]]
name = "h2"
netns = "h2"
encoding = "bytes"
[[host.port]]
unit = "u1"
interface = "eth0"
addresses = ["10.9.1.2/24"]
[[host.port]]
unit = "u2"
interface = "eth1"
addresses = ["10.9.2.2/24"]
[[unit]]
name = "u1"
nic = "tap"
netns = "lan"
interface = "lan1"
addresses = ["10.9.1.254/24"]
mtu = 9000
[[unit]]
name = "u2"
nic = "tap"
netns = "lan"
interface = "lan2"
addresses = ["10.9.2.254/24"]
"""


class ToolsTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="weft-test-")
        self.addCleanup(scratch.cleanup)
        self.path = pathlib.Path(scratch.name)
        self.environment = dict(os.environ, WEFT_STATE_DIR=str(self.path / "state"))
        self.file = self.path / "t.toml"

    def weft(self, *words, seconds=60):
        done = subprocess.run([harness.BIN / "weft", *map(str, words)], capture_output=True, text=True, timeout=seconds,
                              env=self.environment, stdin=subprocess.DEVNULL)
        return done.returncode, done.stdout, done.stderr

    def up(self, text):
        self.file.write_text(text)
        process = subprocess.Popen([harness.BIN / "weft", "up", "--quiet", self.file], env=self.environment,
                                   preexec_fn=die_with_test)
        self.addCleanup(end, process)
        harness.wait_for(lambda: self.weft("status")[0] == 0 or process.poll() is not None, "the fabric is up")
        self.assertIsNone(process.poll(), "weft up ended")
        return process

    def test_demo_keeps_its_contract(self):
        for link in ("auto", "zmq"):
            with self.subTest(link=link):
                code, text, errors = self.weft("demo", "--json", "--frames", 2000, "--round-trips", 50, "--link", link)
                self.assertEqual(code, 0, errors + text)
                report = json.loads(text.splitlines()[-1])
                self.assertLessEqual(CONTRACT, set(report))
                self.assertEqual(report["frames_sent"], 2200)
                self.assertEqual((report["frames_received"], report["lost"], report["corrupted"], report["duplicated"]),
                                 (2200, 0, 0, 0))
                self.assertLessEqual({"p50", "p99"}, set(report["rtt_us"]))
                self.assertGreaterEqual(report["rdma_writes_with_idata"], 4400, "there and back by RDMA write")
                self.assertEqual(list((self.path / "state").iterdir()), [])

    def test_traffic_stat_and_capture(self):
        self.up(ECHO + 'nic = "echo"\n')
        file = self.path / "frames.pcapng"
        capture = subprocess.Popen([harness.BIN / "weft", "capture", "u1", "-o", file, "-c", "200"], env=self.environment,
                                   stderr=subprocess.PIPE, text=True, preexec_fn=die_with_test)
        self.addCleanup(end, capture)
        self.addCleanup(capture.stderr.close)
        harness.wait_for(lambda: file.exists() and file.stat().st_size > 0, "the capture has begun")
        harness.wait_for(lambda: self.weft("traffic", "--json", "-n", 300, "--size", 98, "--size", 1514)[0] == 0
                         and capture.poll() is not None, "200 frames are captured")
        self.assertEqual(capture.returncode, 0)
        frames = [frame for frame in packets(file.read_bytes())]
        self.assertEqual(len(frames), 200)
        self.assertTrue(any(frame[12:14] == b"\x08\x06" for frame in frames), "ARP among them")
        code, text, _ = self.weft("stat", "--json")
        counters = json.loads(text)["counters"]
        self.assertEqual(code, 0)
        self.assertGreaterEqual(sum(v for k, v in counters.items() if k.endswith(".writes_with_idata")), 1400)
        code, _, errors = self.weft("traffic", "u1")
        self.assertEqual(code, 1)
        self.assertIn("generator", errors)
        code, _, errors = self.weft("capture", "s1", "-o", file)
        self.assertEqual(code, 1)
        self.assertIn("no frames pass", errors)

    def test_restart_under_traffic_is_shown(self):
        self.up(ECHO + 'nic = "echo"\n')
        _, text, _ = self.weft("status", "--json")
        unit = next(node for node in json.loads(text)["nodes"] if node["name"] == "u1")
        os.kill(unit["pid"], signal.SIGKILL)

        def back():
            code, text, _ = self.weft("status", "--json")
            node = next(node for node in json.loads(text)["nodes"] if node["name"] == "u1")
            return code == 0 and node["restarts"] == 1
        harness.wait_for(back, "the unit is back and every session open")
        code, text, errors = self.weft("traffic", "-n", 500)
        self.assertEqual(code, 0, text + errors)

    def test_two_hosts_share_a_unit_and_one_uses_two(self):
        netns.require_root()
        self.up(LAN)
        for host, target in (("h1", "10.9.1.254"), ("h2", "10.9.1.254"), ("h2", "10.9.2.254"), ("h1", "10.9.1.2")):
            with self.subTest(host=host, target=target):
                code, text, errors = self.weft("exec", host, "--", "ping", "-n", "-c", 3, "-i", "0.05", "-W", 5, target)
                self.assertEqual(code, 0, text + errors)
        code, text, errors = self.weft("exec", "h1", "--", "ping", "-n", "-c", 2, "-i", "0.05", "-W", 5, "-M", "do", "-s", 8900,
                                       "10.9.1.254")
        self.assertEqual(code, 0, "jumbo frames: " + text + errors)


def packets(data):
    """Frames of the enhanced packet blocks of a pcapng file."""
    at = 0
    while at < len(data):
        kind, size = struct.unpack_from("=II", data, at)
        assert struct.unpack_from("=I", data, at + size - 4)[0] == size
        if kind == 6:
            kept = struct.unpack_from("=I", data, at + 20)[0]
            yield data[at + 28:at + 28 + kept]
        at += size


if __name__ == "__main__":
    unittest.main()
