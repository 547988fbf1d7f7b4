"""The tools on a fabric of real programs: demo, traffic, stat, capture, status; what the launcher shows of them."""
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import unittest

import harness
from weft_case import ECHO, WeftCase

CONTRACT = {"frames_sent", "frames_received", "lost", "corrupted", "duplicated", "rtt_us", "gbps", "rdma_writes_with_idata",
            "topology"}
TWO_PORTS = """fabric = "t"
[[switch]]
name = "s1"
[[host]]
name = "h1"
[[host.port]]
unit = "u1"
os = "gen"
[[host.port]]
unit = "u2"
os = "gen"
[[unit]]
name = "u1"
[[unit]]
name = "u2"
"""


class ToolsTest(WeftCase):
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

    def test_a_demo_that_fails_leaves_nothing_but_its_words(self):
        programs = self.path / "bin"
        programs.mkdir()
        for program in ("weft", "weft-switch", "weft-iou"):
            shutil.copy(harness.BIN / program, programs)
        (programs / "weft-host").symlink_to("/bin/false")
        self.bin = programs
        code, _, errors = self.weft("demo", "--json", "--frames", 10)
        self.assertEqual(code, 1)
        self.assertIn("weft demo: node 'h1' ended with code 1", errors)
        self.assertIn("s1 ", errors, "what the others said")
        self.assertEqual(list((self.path / "state").iterdir()), [])

    def test_a_capture_without_frames_says_that_it_waits(self):
        self.up()
        capture = self.start("capture", "h1", "-o", self.path / "none.pcapng", "-c", "1", stderr=subprocess.PIPE)
        self.assertEqual(capture.stderr.readline(),
                         "weft capture: no frames yet at node 'h1'; waiting, Ctrl-C ends the capture\n")
        capture.send_signal(signal.SIGINT)
        self.assertEqual(capture.wait(10), 0)
        self.assertEqual(capture.stderr.read(), "0 frames captured\n")

    def test_a_capture_on_a_full_disk_says_so(self):
        self.up(ECHO + 'nic = "echo"\n')
        capture = self.start("capture", "u1", "-o", "/dev/full", "-c", "200", stderr=subprocess.PIPE)
        harness.wait_for(lambda: self.weft("traffic", "--bulk-only", "-n", 100)[0] == 0 and capture.poll() is not None,
                         "the capture has ended")
        self.assertEqual(capture.returncode, 1)
        self.assertIn("cannot write the capture: No space left on device", capture.stderr.read())

    def test_status_names_peers(self):
        self.up()
        nodes = {node["name"]: node for node in json.loads(self.weft("status", "--json")[1])["nodes"]}
        self.assertEqual((nodes["h1"]["sessions"][0]["peer"], nodes["u1"]["sessions"][0]["peer"]), ("u1", "h1"))
        self.assertRegex(self.weft("status")[1], r"session with u1 \(lid \d+\): open")

    def test_traffic_stat_and_capture(self):
        self.up(ECHO + 'nic = "echo"\n')
        file = self.path / "frames.pcapng"
        capture = self.start("capture", "u1", "-o", file, "-c", "200", stderr=subprocess.PIPE)
        harness.wait_for(lambda: file.exists() and file.stat().st_size > 0, "the capture has begun")
        harness.wait_for(lambda: self.weft("traffic", "--json", "-n", 300, "--size", 98, "--size", 1514)[0] == 0
                         and capture.poll() is not None, "200 frames are captured")
        self.assertEqual(capture.returncode, 0)
        names, frames = read_pcapng(file.read_bytes())
        self.assertEqual(names, ["u1:echo"])
        self.assertEqual(len(frames), 200)
        self.assertTrue(any(frame[12:14] == b"\x08\x06" for _, frame in frames), "ARP among them")
        code, text, _ = self.weft("stat", "--json")
        counters = json.loads(text)["counters"]
        self.assertEqual(code, 0)
        self.assertGreaterEqual(sum(v for k, v in counters.items() if k.endswith(".writes_with_idata")), 1400)
        for words, says in ((["traffic", "u1"], "node 'u1' is no host"),
                            (["traffic", "--port", 3], "this host has no generator 3, its last one is 0"),
                            (["traffic", "--target", "10.0.0.9"], "answered ARP for 10.0.0.9"),
                            (["capture", "s1", "-o", self.path / "none"], "no frames pass through node 's1'"),
                            (["capture", "h1", "-i", "eth0", "-o", self.path / "none"], "no interface 'eth0'; known: gen0"),
                            (["capture", "h1", "-o", self.path / "no" / "where"], "cannot create")):
            with self.subTest(words=words):
                code, text, errors = self.weft(*words)
                self.assertEqual((code, text, len(errors.splitlines())), (1, "", 1), errors)
                self.assertIn(says, errors)
        self.assertFalse((self.path / "none").exists(), "a capture that does not start leaves no file")

    def test_traffic_that_is_interrupted_waits_for_its_frames(self):
        self.up(ECHO + 'nic = "echo"\n')
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(number=number):
                before = self.frames_to_os()
                traffic = self.start("traffic", "--json", "--duration", "60", stdout=subprocess.PIPE,
                                     stderr=subprocess.PIPE)
                harness.wait_for(lambda: self.frames_to_os() > before + 1000, "frames pass")
                traffic.send_signal(number)
                text, errors = traffic.communicate(timeout=10)
                report = json.loads(text)
                self.assertEqual((traffic.returncode, report["good"]), (0, True), errors)
                self.assertEqual(report["frames_sent"], report["frames_received"])

    def test_traffic_whose_asker_was_killed_ends(self):
        self.up(ECHO + 'nic = "echo"\n')
        before = self.frames_to_os()
        traffic = self.start("traffic", "--duration", "600")
        harness.wait_for(lambda: self.frames_to_os() > before + 1000, "frames pass")
        traffic.kill()
        traffic.wait()
        code, _, errors = self.weft("traffic")
        self.assertEqual((code, errors), (1, "weft traffic: a run is on already; wait for its end\n"))
        harness.wait_for(lambda: self.weft("traffic", "-n", 100)[0] == 0, "the next run is let in", 30)

    def frames_to_os(self):
        return json.loads(self.weft("stat", "--json")[1])["counters"]["h1.unit.2.driver.frames_to_os"]

    def test_capture_takes_all_interfaces_of_a_host_or_the_one_named(self):
        self.up(TWO_PORTS)
        files = {}
        for name, options in (("all", []), ("one", ["--interface", "gen1"])):
            file = files[name] = self.path / f"{name}.pcapng"
            capture = self.start("capture", "h1", "-o", file, "-c", "350" if name == "all" else "200", *options,
                                 stderr=subprocess.PIPE)
            harness.wait_for(file.exists, "the capture has begun")
            for port in (0, 1):
                self.assertEqual(self.weft("traffic", "--port", port, "--bulk-only", "-n", 100)[0], 0)
            self.assertEqual(capture.wait(10), 0, capture.stderr.read())
        names, frames = read_pcapng(files["all"].read_bytes())
        self.assertEqual(names, ["h1:gen0", "h1:gen1"])
        self.assertEqual({port for port, _ in frames}, {0, 1})
        names, frames = read_pcapng(files["one"].read_bytes())
        self.assertEqual(names, ["h1:gen0", "h1:gen1"])
        self.assertEqual({port for port, _ in frames}, {1})
        if shutil.which("capinfos"):
            done = subprocess.run(["capinfos", "-T", "-c", "-I", files["all"]], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("350", done.stdout)

    def test_captures_of_a_node_run_side_by_side(self):
        self.up(ECHO + 'nic = "echo"\n')
        files = [self.path / f"{name}.pcapng" for name in ("first", "second")]
        captures = []
        for file in files:
            captures.append(self.start("capture", "h1", "-o", file, "-c", "200", stderr=subprocess.PIPE))
            harness.wait_for(file.exists, "the capture has begun")
        self.assertEqual(self.weft("traffic", "--bulk-only", "-n", 100)[0], 0)
        for capture, file in zip(captures, files):
            self.assertEqual(capture.wait(10), 0, capture.stderr.read())
            self.assertEqual(len(read_pcapng(file.read_bytes())[1]), 200)
        self.assertEqual(list((self.state / "t").glob("*.capture*")), [], "rings are removed")

    def test_capture_ends_with_its_node(self):
        self.up(ECHO)
        file = self.path / "frames.pcapng"
        capture = self.start("capture", "h1", "-o", file, stderr=subprocess.PIPE)
        harness.wait_for(file.exists, "the capture has begun")
        os.kill(self.pid_of("h1"), signal.SIGKILL)
        self.assertEqual(capture.wait(10), 0, "what was captured is whole")
        self.assertIn("0 frames captured; 'h1' has ended\n", capture.stderr.read())
        self.assertEqual(read_pcapng(file.read_bytes()), (["h1:gen0"], []))

    def test_what_is_not_ready_says_why(self):
        """A host whose key is not the one that its switch knows; then one whose switch is frozen when it starts."""
        link = 'link = "zmq"\nendpoint = "tcp://127.0.0.1:17719"\n'
        topology = ECHO.replace('os = "gen"\n', 'os = "gen"\n' + link) + link
        self.file.write_text(topology.replace("[[switch]]", '[curve]\nkeys = "keys"\n[[switch]]'))
        for keys in ("keys", "other"):
            self.assertEqual(self.weft("keygen", "--dir", self.path / keys, "s1", "h1", "u1")[0], 0)
        shutil.copy(self.path / "other" / "h1.secret", self.path / "keys" / "h1.secret")
        code, _, errors = self.weft("up", "--timeout", 3, self.file)
        self.assertEqual(code, 1)
        self.assertIn("not ready in time: h1: no link to the switch: the switch does not know our key; see weft logs", errors)
        key = (self.path / "other" / "h1.public").read_text().strip()
        # The launcher's h1 shows the public key of its secret; where it came from stands before it.
        self.assertRegex(self.weft("logs", "s1")[1], r"refused a connection from \S*127\.0\.0\.1: no node has its public key '"
                         + re.escape(key) + "'")
        self.up(ECHO)
        switch = self.pid_of("s1")
        os.kill(switch, signal.SIGSTOP)
        os.kill(self.pid_of("h1"), signal.SIGKILL)
        try:
            harness.wait_for(lambda: "no link to the switch: the switch does not answer" in self.weft("status")[1],
                             "the host says what it waits for", 10.0)
        finally:
            os.kill(switch, signal.SIGCONT)
        harness.wait_for(lambda: self.weft("status")[0] == 0, "all are ready again")

    def test_traffic_to_a_frozen_unit_ends_and_says_so(self):
        self.up(ECHO + 'nic = "echo"\n')
        self.assertEqual(self.weft("traffic", "-n", 100)[0], 0)
        self.assertEqual(self.weft("fault", "u1", "freeze")[0], 0)
        code, text, errors = self.weft("traffic", "-n", 100, seconds=40)
        self.assertEqual((code, text), (1, ""))
        self.assertRegex(errors, r"^weft traffic: no frame has come back for 10 s, after 0 of \d+; weft stat says what blocks")
        self.assertEqual(self.weft("fault", "clear")[0], 0)
        self.assertEqual(self.weft("traffic", "-n", 0)[0], 2, "the form of the number")

    def pid_of(self, node):
        _, text, _ = self.weft("status", "--json")
        return next(entry["pid"] for entry in json.loads(text)["nodes"] if entry["name"] == node)

    def test_restart_under_traffic_is_shown(self):
        self.up(ECHO + 'nic = "echo"\n')
        os.kill(self.pid_of("u1"), signal.SIGKILL)

        def back():
            code, text, _ = self.weft("status", "--json")
            node = next(node for node in json.loads(text)["nodes"] if node["name"] == "u1")
            return code == 0 and node["restarts"] == 1
        harness.wait_for(back, "the unit is back and every session open")
        code, text, errors = self.weft("traffic", "-n", 500)
        self.assertEqual(code, 0, text + errors)


def read_pcapng(data):
    """Names of the interface blocks, and (interface, frame) of the enhanced packet blocks."""
    names, frames, at = [], [], 0
    while at < len(data):
        kind, size = struct.unpack_from("=II", data, at)
        assert struct.unpack_from("=I", data, at + size - 4)[0] == size
        if kind == 1:
            option, length = struct.unpack_from("=HH", data, at + 16)
            assert option == 2, "the name comes first"
            names.append(data[at + 20:at + 20 + length].decode())
        if kind == 6:
            interface, _, _, kept = struct.unpack_from("=IIII", data, at + 8)
            assert interface < len(names)
            frames.append((interface, data[at + 28:at + 28 + kept]))
        at += size
    return names, frames


if __name__ == "__main__":
    unittest.main()
