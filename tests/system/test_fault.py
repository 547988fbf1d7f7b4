"""weft fault: rules in a running switch, by the words people type, seen by counters and by traffic."""
import json
import pathlib
import shutil
import signal
import subprocess
import time
import unittest

import harness
from test_programs import ProgramCase, listens
from weft_case import ECHO, WeftCase


class FaultCommands:
    """What tests of nodes and of programs both do."""

    def fault(self, *words):
        code, text, errors = self.weft("fault", *words)
        self.assertEqual(code, 0, errors)
        return text

    def faults(self):
        return json.loads(self.fault("list", "--json"))["faults"]


class FaultTest(FaultCommands, WeftCase):
    def setUp(self):
        super().setUp()
        self.up(ECHO + 'nic = "echo"\n')

    def traffic(self, round_trips=40, frames=100):
        """Round trips through host and unit; how many were lost."""
        code, text, errors = self.weft("traffic", "h1", "--round-trips", round_trips, "--frames", frames, "--json")
        self.assertIn(code, (0, 1), errors)
        return json.loads(text)["lost"]

    def lost_at_ports(self):
        counters = json.loads(self.weft("stat", "s1", "--json")[1])
        return sum(value for name, value in flat(counters).items() if name.endswith("drop_fault"))

    def test_loss_is_repaired_and_counted(self):
        text = self.fault("h1", "drop", "--every", "3", "--seed", "7")
        self.assertRegex(text, r"fault s1:1 at s1:1 \(h1\): drop, every 3 cells, both ways, seed 7")
        self.assertEqual(self.traffic(15, 50), 0, "the adapters repeat what the switch loses")
        (rule,) = self.faults()
        self.assertGreater(rule["struck"], 10)
        self.assertGreaterEqual(rule["matched"], 3 * rule["struck"])
        # Keep-alives of the session are struck meanwhile, and the page is some time old: both meet when nothing comes between.
        harness.wait_for(lambda: self.lost_at_ports() == self.faults()[0]["struck"], "ports to count what the rule has struck")
        self.fault("clear", "s1:1")
        self.assertEqual(self.faults(), [])

    def test_a_delay_is_felt_and_ends_by_itself(self):
        self.fault("u1", "delay", "5ms", "--for", "30s")
        start = time.monotonic()
        self.traffic()
        self.assertGreater(time.monotonic() - start, 40 * 4 * 2 * 0.005 * 0.9, "each round trip passes the port twice")
        self.fault("clear")
        self.assertEqual(self.faults(), [])

    def test_a_script_sets_each_fault_at_its_time(self):
        script = self.path / "faults.toml"
        script.write_text('[[fault]]\ntarget = "s1:2"\nkind = "corrupt"\nchance = "1%"\n'
                          '[[fault]]\nat = "300ms"\ntarget = "h1"\nkind = "reorder"\nevery = 5\nseed = 9\n')
        start = time.monotonic()
        self.fault("script", script)
        self.assertGreaterEqual(time.monotonic() - start, 0.3)
        self.assertEqual([rule["kind"] for rule in self.faults()], ["corrupt", "reorder"])
        self.assertEqual(self.faults()[1]["seed"], 9)

    def test_each_kind_strikes_its_share(self):
        for kind, value in (("drop", "10%"), ("corrupt", "10%"), ("duplicate", "10%"), ("reorder", "10%")):
            with self.subTest(kind=kind):
                self.fault("s1", kind, value, "--seed", "3")
                self.assertEqual(self.traffic(), 0)
                (rule,) = self.faults()
                self.assertGreater(rule["matched"], 500)
                self.assertTrue(0.05 < rule["struck"] / rule["matched"] < 0.2, rule)
                self.fault("clear")

    def test_a_rule_for_a_switch_is_one_and_is_named_everywhere(self):
        self.assertRegex(self.fault("s1", "rate", "1Gbit"), r"^fault s1:1 at s1: rate 1 Gbit/s, both ways, seed \d+\n$")
        self.assertEqual(len(self.faults()), 1)
        self.assertEqual(self.traffic(), 0)
        self.assertIn("fault s1:1 at s1: rate 1 Gbit/s", self.weft("status")[1])
        self.assertRegex(self.weft("stat")[1], r"what blocks:\n  fault s1:1 at s1: rate 1 Gbit/s, both ways, seed \d+ \(\d+ of \d+ cells\)")
        self.assertEqual(json.loads(self.weft("status", "--json")[1])["faults"][0][:13], "fault s1:1 at")

    def test_what_cannot_be_set_in_whole_is_not_set_at_all(self):
        script = self.path / "faults.toml"
        script.write_text('[[fault]]\ntarget = "h1"\nkind = "drop"\n[[fault]]\ntarget = "nobody"\nkind = "cut"\n')
        code, _, errors = self.weft("fault", "script", script)
        self.assertEqual(code, 1)
        self.assertIn("'nobody' is no node", errors)
        self.assertEqual(self.faults(), [])

    def test_a_frozen_node_goes_on_and_a_killed_one_is_restarted(self):
        self.assertIn("continues", self.fault("h1", "freeze", "--for", "200ms"))
        before = self.pid("u1")
        self.fault("u1", "kill")
        deadline = time.monotonic() + 20
        while self.pid("u1") in (None, before) and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertNotIn(self.pid("u1"), (None, before))

    def test_a_signal_ends_the_wait_of_freeze_and_not_the_node(self):
        pid = self.pid("h1")
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(signal=number):
                command = self.start("fault", "h1", "freeze", "--for", "60s", stdout=subprocess.PIPE)
                self.assertEqual(command.stdout.readline(), "h1: frozen\n")
                harness.wait_for(lambda: self.is_stopped(pid), "h1 to stop")
                command.send_signal(number)
                self.assertEqual(command.communicate(timeout=20)[0], "h1: continues\n")
                self.assertEqual(command.returncode, -number)
                harness.wait_for(lambda: not self.is_stopped(pid), "h1 to continue")

    def test_a_reader_that_has_gone_does_not_keep_the_node_frozen(self):
        pid = self.pid("h1")
        command = self.start("fault", "h1", "freeze", "--for", "200ms", stdout=subprocess.PIPE)
        command.stdout.close()
        command.wait(20)
        harness.wait_for(lambda: not self.is_stopped(pid), "h1 to continue")
        self.assertEqual(self.traffic(), 0)

    @staticmethod
    def is_stopped(pid):
        return pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[0] == "T"

    def test_clear_continues_what_is_frozen(self):
        """Also a switch, which answers no command meanwhile."""
        for name in ("u1", "s1"):
            self.assertIn(f"{name}: frozen; weft fault clear continues it", self.fault(name, "freeze"))
        code, _, errors = self.weft("fault", "list")
        self.assertEqual(code, 1)
        self.assertIn("switch 's1' is frozen and cannot answer; weft fault clear continues it", errors)
        self.assertEqual(sorted(self.fault("clear").splitlines()), ["s1: continues", "u1: continues"])
        self.assertEqual(self.traffic(), 0)

    def pid(self, name):
        nodes = json.loads(self.weft("status", "--json")[1])["nodes"]
        return next((node.get("pid") for node in nodes if node["name"] == name), None)

    def test_wrong_words_say_what_is_right(self):
        for words, wanted, hint in ((("h2", "drop"), 1, "known:"), (("clear", "s9:1"), 1, "no switch"),
                                    (("clear", "s1:99"), 1, "no fault"), (("h1",), 2, "a kind of fault is missing"),
                                    (("h1", "dorp"), 2, "did you mean 'drop'"), (("h1", "delay"), 2, "2ms"),
                                    (("s1", "drop", "--chance", "200%"), 2, "up to 100%"), (("s1", "drop", "--lane", 77), 2, "0..15"),
                                    (("s1", "drop", "--opcode", "x"), 2, "no operation"), (("h1", "freeze", "--for", 1), 2, "like 5s")):
            with self.subTest(words=words):
                code, _, errors = self.weft("fault", *words)
                self.assertEqual(code, wanted)
                self.assertIn(hint, errors)


class TopologyFaultTest(FaultCommands, WeftCase):
    def test_faults_of_the_topology_are_set_and_return_with_their_switch(self):
        self.up(ECHO + 'nic = "echo"\n[[fault]]\ntarget = "u1"\nkind = "delay"\nvalue = "1 ms"\nseed = 5\n'
                '[[fault]]\nat = "100ms"\ntarget = "s1"\nkind = "rate"\nvalue = "10Gbit"\n')
        harness.wait_for(lambda: len(self.faults()) == 2, "the second one's time")
        self.assertEqual([(rule["kind"], rule["at"]) for rule in self.faults()], [("delay", "s1:2 (u1)"), ("rate", "s1")])
        self.fault("s1", "kill")

        def back():
            code, text, _ = self.weft("fault", "list", "--json")
            return code == 0 and len(json.loads(text)["faults"]) == 2
        harness.wait_for(back, "the rules to be set in the new switch")
        self.assertEqual([rule["kind"] for rule in self.faults()], ["delay", "rate"])


class ProgramFaultTest(FaultCommands, ProgramCase):
    def setUp(self):
        super().setUp()
        self.holder = self.start("run", "sleep", "1000")  # the fabric ends with its last program
        self.addCleanup(self.holder.wait)
        self.addCleanup(self.holder.kill)
        harness.wait_for(self.running, "a fabric")

    def end(self, *processes):
        for process in processes:
            process.send_signal(signal.SIGKILL)
            process.wait()

    def test_a_fault_ends_with_its_program(self):
        server, client = self.pair()
        self.assertRegex(self.fault("alice", "drop", "--every", "1000000"), r"^fault s1:1 at s1:\d+ \(alice\): drop")
        self.assertIn("(alice): drop", self.weft("status")[1])
        self.end(server, client)
        harness.wait_for(lambda: not self.faults(), "the fault to end with alice")
        self.pair("carol", "dave")  # on the same ports
        self.assertNotIn("fault s1:", self.weft("status")[1])

    def test_stat_names_the_rule_and_no_false_cause(self):
        server, client = self.pair()
        self.end(server)
        said = self.weft("stat")[1]
        self.assertNotIn("spare", said)
        self.assertNotIn("is down", said, "a port on which nobody is blocks nothing")
        self.end(client)
        server, client = self.pair()
        self.fault("bob", "drop", "--every", "50")
        harness.wait_for(lambda: "(bob): drop" in self.weft("stat")[1].partition("what blocks:")[2],
                         "the rule to have struck, and to be named")
        self.fault("bob", "cut")
        # The side whose message or acknowledgement is lost fails; the other one may wait for ever for the next message.
        harness.wait_for(lambda: {server.poll(), client.poll()} != {None}, "one of them to give up", 60)
        self.assertNotIn(0, {server.poll(), client.poll()})
        self.end(server, client)

    def test_a_fault_waits_for_a_name(self):
        code, _, errors = self.weft("fault", "late", "cut")
        self.assertEqual(code, 1)
        self.assertIn("--prepare", errors)
        self.assertRegex(self.fault("late", "cut", "--prepare"), r"^fault s1:1 at s1 \(late, which has not joined\): cut")
        process = self.start("run", "--node", "late", "ibv_asyncwatch", "-d", "weft0", stdout=subprocess.DEVNULL,
                             stderr=subprocess.PIPE)
        self.assertIn("note: fault s1:1 is in force for this program: cut", process.stderr.readline())
        harness.wait_for(lambda: self.faults()[0]["at"].endswith("(late)") and self.faults()[0]["port"] != 65535,
                         "late to be found")
        self.end(process)
        harness.wait_for(lambda: not self.faults(), "the fault to end")
        self.assertEqual(self.weft("fault", "late", "cut")[0], 1, "it does not run any more")

    @unittest.skipUnless(shutil.which("ib_write_bw"), "perftest is not installed")
    def test_a_slow_link_ends_no_program(self):
        self.fault("s1", "rate", "2000")
        self.write_bw(65536, 100)

    @unittest.skipUnless(shutil.which("ib_write_bw"), "perftest is not installed")
    def test_writes_fill_a_slow_link_and_none_is_lost(self):
        """The rate counts whole cells; of each 4,132 bytes 4,096 are data."""
        for rate, size, count in (("100Mbit", 4096, 800), ("100Mbit", 65536, 50), ("20Mbit", 65536, 20)):
            with self.subTest(rate=rate, size=size):
                self.fault("s1", "rate", rate)
                law = float(rate.removesuffix("Mbit")) / 1000 * 4096 / 4132
                self.assertLess(abs(self.write_bw(size, count) - law), 0.05 * law, "Gbit/s")
                self.fault("clear")
        counters = flat(json.loads(self.weft("stat", "s1", "--json")[1]))
        self.assertEqual({name: value for name, value in counters.items() if ".drop_" in name and value}, {})
        self.assertGreater(sum(value for name, value in counters.items() if name.endswith("cells_paced")), 1500)

    def write_bw(self, size, count):
        """What ib_write_bw measures, in Gbit/s."""
        words = ["ib_write_bw", "-F", "-n", count, "-s", size, "--report_gbits", "-p", 25000 + self.holder.pid % 5000]
        server = self.start("run", *words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        port = words[-1]
        harness.wait_for(lambda: listens(port), "the server to listen")
        code, text, errors = self.weft("run", *words, "127.0.0.1", seconds=100)
        self.assertEqual(code, 0, errors)
        self.assertEqual(server.wait(30), 0)
        (line,) = (line.split() for line in text.splitlines() if line.split()[:2] == [str(size), str(count)])
        return float(line[3])


def flat(tree, prefix=""):
    """Nested counters by their full names."""
    if isinstance(tree, dict):
        return {name: value for key, sub in tree.items() for name, value in flat(sub, f"{prefix}.{key}").items()}
    if isinstance(tree, list):
        return {name: value for i, sub in enumerate(tree) for name, value in flat(sub, f"{prefix}.{i}").items()}
    return {prefix: tree} if isinstance(tree, (int, float)) else {}
