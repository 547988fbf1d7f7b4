"""Programs of weft run as nodes of their fabric: weft status, stat, devices, capture and fault know them by name, and forget
them when they end, however that is."""
import json
import os
import shutil
import signal
import struct
import subprocess
import unittest

import harness
from test_run import has_library, listens
from weft_case import WeftCase

DLT_USER0 = 147
FOREVER = "100000000"


def read_cells(data):
    """Link type, names of the interfaces, and (direction, cell) of each packet block."""
    kinds, names, cells, at = set(), [], [], 0
    while at < len(data):
        kind, size = struct.unpack_from("=II", data, at)
        if kind == 1:
            kinds.add(struct.unpack_from("=H", data, at + 8)[0])
            length = struct.unpack_from("=H", data, at + 18)[0]
            names.append(data[at + 20:at + 20 + length].decode())
        if kind == 6:
            kept = struct.unpack_from("=I", data, at + 20)[0]
            flags = struct.unpack_from("=I", data, at + 28 + (kept + 3) // 4 * 4 + 4)[0]
            cells.append(({1: "in", 2: "out"}[flags], data[at + 28:at + 28 + kept]))
        at += size
    return kinds, names, cells


@unittest.skipUnless(has_library(), "the drop-in libibverbs is not built")
@unittest.skipUnless(shutil.which("ibv_rc_pingpong"), "ibverbs-utils is not installed")
class ProgramCase(WeftCase):
    options = ()

    def setUp(self):
        super().setUp()
        self.addCleanup(harness.wait_for, lambda: not self.running(), "the fabric to end with its last program")

    def running(self):
        return self.weft("status", *self.options)[0] == 0

    def nodes(self):
        """By name; none while there is no fabric."""
        said = self.weft("status", *self.options, "--json")[1]
        return {node["name"]: node for node in json.loads(said)["nodes"]} if said else {}

    def pair(self, server="alice", client="bob", server_options=(), client_options=(), rounds=FOREVER, program="ibv_rc_pingpong"):
        """Two programs that talk until they are ended."""
        port = 24000 + os.getpid() % 8000
        words = [program, "-p", port, "-n", rounds]
        first = self.start("run", *self.options, "--node", server, *server_options, *words, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL)
        harness.wait_for(lambda: listens(port), "the server to listen")
        second = self.start("run", *self.options, "--node", client, *client_options, *words, "127.0.0.1",
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        harness.wait_for(lambda: self.states(server, client) == {"RTS"}, "both QPs to be ready")
        return first, second

    def states(self, *names):
        nodes = self.nodes()
        return {qp["state"] for name in names for qp in nodes.get(name, {}).get("queue_pairs", [{"state": None}])}


class ProgramsTest(ProgramCase):
    def test_status_names_programs_with_their_queue_pairs(self):
        server, client = self.pair()
        nodes = self.nodes()
        alice, bob = nodes["alice"], nodes["bob"]
        self.assertEqual([(node["program"], node["pid"], node["ready"]) for node in (alice, bob)],
                         [("ibv_rc_pingpong", server.pid, True), ("ibv_rc_pingpong", client.pid, True)])
        mine, other = alice["queue_pairs"][0], bob["queue_pairs"][0]
        self.assertEqual((mine["service"], mine["peer_lid"], mine["peer_number"]), ("RC", bob["lid"], other["number"]))
        self.assertEqual((other["peer_lid"], other["peer_number"]), (alice["lid"], mine["number"]))
        text = self.weft("status")[1]
        self.assertIn(f"qp 0x{mine['number']:06x}: RC, RTS, with lid {bob['lid']} qp 0x{other['number']:06x}", text)
        self.assertRegex(text, r"port \d+: up, alice \(lid")
        self.assertRegex(self.weft("devices")[1], rf"alice  ibv_rc_pingpong, pid {server.pid}\n")
        devices = json.loads(self.weft("devices", "--json")[1])["switches"][0]["devices"]
        self.assertEqual({(one["name"], one["pid"]) for one in devices}, {("alice", server.pid), ("bob", client.pid)})

    def test_stat_has_their_counters_also_while_they_stand_still(self):
        server, _ = self.pair()
        code, out, errors = self.weft("stat", "alice", "--json", "--interval", "1200")
        self.assertEqual(code, 0, errors)
        counters = json.loads(out)["counters"]
        self.assertTrue(all(name.startswith("alice.") for name in counters))
        for name in ("alice.adapter.port.1.cells_sent", "alice.qp.0.messages_sent", "alice.qp.0.messages_received", "alice.qps"):
            self.assertGreater(counters[name], 0, name)
        os.kill(server.pid, signal.SIGSTOP)
        try:
            self.assertIn("alice is frozen", self.weft("stat")[1])
            self.assertIn("stopped by a signal", self.nodes()["alice"]["state"])
        finally:
            os.kill(server.pid, signal.SIGCONT)
        self.assertIn("did you mean 'alice'", self.weft("stat", "alcie")[2])

    def test_they_are_gone_with_their_process(self):
        server, client = self.pair()
        os.kill(server.pid, signal.SIGKILL)
        server.wait()
        self.assertNotIn("alice", self.nodes(), "nobody holds its page any more")
        self.assertIn("bob", self.nodes())
        client.terminate()
        client.wait()
        self.assertEqual(set(self.nodes()), {"s1"})
        self.assertNotIn("alice.qps", self.weft("stat", "--all", "--json")[1])

    def test_two_programs_may_call_themselves_the_same(self):
        """Without an identity: by the environment alone."""
        holder = self.start("run", "sleep", "100")
        harness.wait_for(self.running, "a fabric")
        both = [self.start("run", "env", "WEFT_NODE=twin", "ibv_asyncwatch", "-d", "weft0", stdout=subprocess.DEVNULL)
                for _ in range(2)]
        harness.wait_for(lambda: {"twin", "twin-2"} <= set(self.nodes()), "both to be there")
        nodes = self.nodes()
        self.assertEqual({nodes["twin"]["pid"], nodes["twin-2"]["pid"]}, {process.pid for process in both})
        holder.kill()

    def test_capture_writes_the_cells_of_a_program(self):
        self.pair()
        file = self.path / "cells.pcapng"
        code, _, errors = self.weft("capture", "alice", "--cells", "-o", file, "-c", "40", "-t", "20")
        self.assertEqual((code, errors), (0, "40 cells captured\n"))
        kinds, names, cells = read_cells(file.read_bytes())
        self.assertEqual((kinds, names, len(cells)), ({DLT_USER0}, ["alice"], 40))
        lids = {name: node["lid"] for name, node in self.nodes().items()}
        ways = set()
        for direction, cell in cells:
            self.assertEqual((cell[:2], cell[12]), (b"\x02\x00", 1), "prefix of an address, version")
            to, source = int.from_bytes(cell[4:6], "big"), int.from_bytes(cell[10:12], "big")
            ways.add((direction, source, to))
        self.assertEqual(ways, {("out", lids["alice"], lids["bob"]), ("in", lids["bob"], lids["alice"])})
        code, _, errors = self.weft("capture", "s1:1", "--cells", "-o", file, "-c", "5", "-t", "20")
        self.assertEqual((code, errors), (0, "5 cells captured\n"))
        self.assertIn("no port", self.weft("capture", "s1:x", "-o", file)[2])

    def test_capture_ends_with_the_program(self):
        server, _ = self.pair()
        capture = self.start("capture", "alice", "-o", self.path / "cells.pcapng", stderr=subprocess.PIPE)
        harness.wait_for(lambda: (self.path / "cells.pcapng").exists(), "the capture to begin")
        os.kill(server.pid, signal.SIGKILL)
        self.assertIn("'alice' has ended", capture.communicate(timeout=20)[1])
        self.assertEqual(capture.returncode, 0, "what was captured is whole")

    def test_faults_strike_programs_by_name(self):
        server, client = self.pair()
        code, out, errors = self.weft("fault", "alice", "drop", "--every", "50", "--seed", "7")
        self.assertEqual(code, 0, errors)
        self.assertRegex(out, r"fault s1:1 at s1:\d+ \(alice\): drop, every 50 cells")
        harness.wait_for(lambda: json.loads(self.weft("fault", "list", "--json")[1])["faults"][0]["struck"] > 3,
                         "cells of alice to be struck")
        self.assertEqual(self.states("alice", "bob"), {"RTS"}, "and repeated")
        self.assertEqual(self.weft("fault", "clear")[0], 0)
        self.assertIn("continues", self.weft("fault", "alice", "freeze", "--for", "200ms")[1])
        self.assertIn("killed", self.weft("fault", "bob", "kill")[1])
        self.assertEqual(client.wait(timeout=10), -signal.SIGKILL)
        code, _, errors = self.weft("fault", "bob", "drop")
        self.assertEqual(code, 1)
        self.assertIn("'bob' is no node", errors)
        self.assertIn("alice", errors, "which are there")


THREE = """fabric = "three"
[[switch]]
name = "s1"
spare_ports = 3
[[switch]]
name = "s2"
spare_ports = 3
[[switch]]
name = "s3"
spare_ports = 3
[[link]]
switches = ["s1", "s2"]
[[link]]
switches = ["s3", "s2"]
"""


class ThreeSwitchesTest(ProgramCase):
    """Three switches in a row, from a topology file; programs join at the ends."""

    def setUp(self):
        super().setUp()
        self.file.write_text(THREE)
        self.options = ("--fabric", self.file)

    def weft(self, *words, **extra):
        """A file starts a fabric; commands that look at one want its name."""
        words = ["three" if word == self.file and words[0] != "run" else word for word in words]
        return super().weft(*words, **extra)

    def crossed(self):
        """Cells that the switch in the middle passed on."""
        stats = harness.StatsPage(self.state / "three" / "s2.stats")
        return stats.total(r"port\.\d+\.cells_out")

    def end_to_end(self, program, *words):
        port = 24000 + os.getpid() % 8000
        argv = [program, "-p", port, *words]
        server = self.start("run", *self.options, "--switch", "s1", *argv, stdout=subprocess.DEVNULL)
        harness.wait_for(lambda: listens(port), f"{program} to listen")
        before = self.crossed()
        code, out, errors = self.weft("run", *self.options, "--switch", "s3", *argv, "127.0.0.1")
        self.assertEqual((code, server.wait(timeout=30)), (0, 0), out + errors)
        return self.crossed() - before

    def test_programs_at_both_ends_talk(self):
        holder = self.start("run", *self.options, "sleep", "100")
        harness.wait_for(self.running, "a fabric")
        self.assertGreaterEqual(self.end_to_end("ibv_rc_pingpong", "-n", "200"), 400)
        if shutil.which("ib_send_lat"):
            self.assertGreaterEqual(self.end_to_end("ib_send_lat", "-n", "200"), 400)
        holder.kill()

    def test_who_names_no_switch_joins_the_emptiest(self):
        joined = []
        for _ in range(6):
            self.start("run", *self.options, "ibv_asyncwatch", "-d", "weft0", stdout=subprocess.DEVNULL)
            known = len(joined)
            joined = harness.wait_for(lambda wanted=known + 1: self.at_switches(wanted), "the program to join")[0]
        self.assertEqual(sorted(joined), ["s1", "s1", "s2", "s2", "s3", "s3"])

    def at_switches(self, wanted):
        """The switches of all programs, once there are so many."""
        code, out, _ = self.weft("devices", *self.options, "--json")
        if code != 0:
            return None
        found = [one["switch"] for one in json.loads(out)["switches"] for _ in one["devices"]]
        return found if len(found) == wanted else None

    def test_a_name_stays_at_its_switch(self):
        show = ["sh", "-c", "echo $WEFT_LID $WEFT_FABRIC"]
        holder = self.start("run", *self.options, "sleep", "100")
        first = self.weft("run", *self.options, "--switch", "s2", "--node", "alice", *show)[1].split()
        self.assertTrue(first[1].endswith("/s2.sock"), first)
        self.start("run", *self.options, "--switch", "s2", "ibv_asyncwatch", "-d", "weft0", stdout=subprocess.DEVNULL)
        harness.wait_for(lambda: self.at_switches(1), "s2 to be the fullest")
        self.assertEqual(self.weft("run", *self.options, "--node", "alice", *show)[1].split(), first)
        moved = self.weft("run", *self.options, "--switch", "s3", "--node", "alice", *show)[1].split()
        self.assertTrue(moved[1].endswith("/s3.sock"), moved)
        self.assertNotEqual(moved[0], first[0], "LIDs belong to switches")
        inner = [self.bin / "weft", "run", *show]
        self.assertTrue(self.weft("run", *self.options, "--switch", "s3", *inner)[1].endswith("/s3.sock\n"))
        code, _, errors = self.weft("run", *self.options, "--switch", "s4", "true")
        self.assertEqual(code, 125)
        self.assertRegex(errors, "no switch with spare_ports is called 's4'.*s1, s2, s3")
        holder.kill()


if __name__ == "__main__":
    unittest.main()
