"""The harness itself: what it reads and what it leaves behind."""
import argparse
import contextlib
import importlib
import importlib.machinery
import importlib.util
import io
import json
import os
import pathlib
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import unittest
import unittest.mock

import frames
import harness

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"
SLEEPER = "import os, signal, sys, time\nprint(os.getpid(), flush=True)\ntime.sleep(600)\n"


# Leaves behind what stock programs may: one in a group of its own, and one in a session whose leader has ended.
WORK = """
import os, pathlib, subprocess, sys, time
sys.path.insert(0, {stock!r})
import warden
warden.GRACE_SECONDS = 0.2

def work():
    spinner = [sys.executable, "-c", "while True: pass"]
    near = subprocess.Popen(spinner, process_group=0)
    far = subprocess.run([sys.executable, "-c", f"import subprocess; print(subprocess.Popen({{spinner!r}}, stdout=2).pid)"],
                         start_new_session=True, text=True, stdout=subprocess.PIPE, check=True).stdout
    try:
        print(os.getpid(), near.pid, int(far), flush=True)
        if {ends!r}:
            return 3
        time.sleep(600)
    finally:
        pathlib.Path("cleared up").touch()

sys.exit(warden.supervise(work))
"""


def gone(number):
    """Has the process ended? Somebody may still have to take its status."""
    try:
        return pathlib.Path(f"/proc/{number}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except FileNotFoundError:
        return True


class WardenTest(unittest.TestCase):
    """What scripts/stock starts ends with it, however that ends."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="weft-test-")
        self.addCleanup(scratch.cleanup)
        self.path = pathlib.Path(scratch.name)

    def start(self, ends=False):
        """The script, and the numbers of its worker and of what that has started."""
        stock = str(pathlib.Path(harness.__file__).parent.parent / "stock")
        script = subprocess.Popen([sys.executable, "-B", "-c", WORK.format(stock=stock, ends=ends)], stdout=subprocess.PIPE, text=True,
                                  cwd=self.path)
        self.addCleanup(script.stdout.close)
        numbers = [int(word) for word in script.stdout.readline().split()]
        self.assertEqual(len(numbers), 3)
        for number in numbers:
            self.addCleanup(lambda number=number: gone(number) or os.kill(number, signal.SIGKILL))
        return script, numbers

    def test_a_signal_ends_all(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            with self.subTest(signal=number):
                script, started = self.start()
                script.send_signal(number)
                self.assertEqual(script.wait(harness.WAIT_SECONDS), 128 + number)
                self.assertEqual([gone(one) for one in started], [True] * 3)
                self.assertTrue((self.path / "cleared up").exists())
                (self.path / "cleared up").unlink()

    def test_nothing_outlives_a_worker_that_is_killed(self):
        script, started = self.start()
        os.kill(started[0], signal.SIGKILL)
        self.assertEqual(script.wait(harness.WAIT_SECONDS), 128 + signal.SIGKILL)
        self.assertEqual([gone(one) for one in started], [True] * 3)

    def test_a_worker_clears_up_when_its_warden_is_killed(self):
        script, started = self.start()
        script.kill()
        script.wait(harness.WAIT_SECONDS)
        harness.wait_for(lambda: gone(started[0]) and (self.path / "cleared up").exists(), "the worker to clear up")

    def test_what_is_left_when_all_is_done_ends_too(self):
        script, started = self.start(ends=True)
        self.assertEqual(script.wait(harness.WAIT_SECONDS), 3)
        self.assertEqual([gone(one) for one in started], [True] * 3)


class HarnessTest(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory(prefix="weft-test-")
        self.addCleanup(self.scratch.cleanup)
        self.path = pathlib.Path(self.scratch.name)

    def test_stats_page_of_version_1(self):
        capacity = 4
        names = [b"port.1.up", b"port.1.vl.0.credit_stalls"]
        page = struct.pack("=8sIIII40x", b"WEFTSTAT", 1, len(names), capacity, 77)
        page += b"".join(name.ljust(56, b"\0") for name in names).ljust(capacity * 56, b"\0")
        page += struct.pack(f"={capacity}Q", 1, 42, 0, 0)
        (self.path / "a.stats").write_bytes(page)
        stats = harness.StatsPage(self.path / "a.stats")
        self.assertEqual(stats.read(), {"port.1.up": 1, "port.1.vl.0.credit_stalls": 42})
        self.assertEqual(stats.total(r"port\.\d+\.vl\.\d+\.credit_stalls"), 42)
        self.assertEqual(stats.pid(), 77)
        self.assertEqual(harness.StatsPage(self.path / "none").read(), {})

    def test_wait_says_what_did_not_happen(self):
        with self.assertRaisesRegex(harness.WaitFailed, "the sun rises"):
            harness.wait_for(lambda: False, "the sun rises", seconds=0.02)

    def test_children_die_with_the_test(self):
        inner = (f"import sys, time; sys.path.insert(0, {str(pathlib.Path(harness.__file__).parent)!r})\n"
                 "import harness\n"
                 f"p = harness.Process({self.scratch.name!r}, 'sleeper', [sys.executable, '-c', {SLEEPER!r}]).start()\n"
                 "print(p.pid, flush=True)\ntime.sleep(600)\n")
        test = subprocess.Popen([sys.executable, "-c", inner], stdout=subprocess.PIPE, text=True)
        child = int(test.stdout.readline())
        test.stdout.close()
        os.kill(child, 0)
        test.send_signal(signal.SIGKILL)
        test.wait(10)

        harness.wait_for(lambda: gone(child), "the child dies with the test")

    def test_echo_frames_are_judged(self):
        """A stream that repeats, drops, damages and swaps frames is found out."""
        server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.addCleanup(server.close)
        server.bind(str(self.path / "s"))
        server.listen(1)

        def exchange():
            peer, _ = server.accept()
            with peer, peer.makefile("rwb") as file:
                kept = None
                for number in range(40):
                    size, = frames.LENGTH.unpack(file.read(4))
                    frame = bytearray(file.read(size))
                    frame[0:6], frame[6:12] = frame[6:12], frame[0:6]
                    copies = [frame]
                    if number == 5:
                        copies = [frame, frame]
                    elif number == 7:
                        copies = []
                    elif number == 9:
                        frame[-1] ^= 1
                    elif number == 11:
                        kept, copies = frame, []
                    elif number == 12:
                        copies = [frame, kept]
                    for copy in copies:
                        file.write(frames.LENGTH.pack(len(copy)) + copy)
                    file.flush()

        thread = threading.Thread(target=exchange, daemon=True)
        thread.start()
        stream = frames.FrameStream(self.path / "s")
        self.addCleanup(stream.close)
        traffic = frames.EchoTraffic(stream, sizes=(98, 1514), window=4, give_up_seconds=0.5, limit=40)
        while traffic.sequence < 40:
            traffic.step()
        thread.join(10)
        traffic.drain(2)
        self.assertEqual((traffic.corrupted, traffic.duplicated, traffic.reordered, traffic.lost), (1, 1, 1, 2))

    def test_frame_has_right_checksums(self):
        frame = frames.echo_request(3, 101, b"\x02\0\0\0\0\1")
        self.assertEqual(len(frame), 101)
        ip, udp = frame[14:34], frame[34:]
        self.assertEqual(frames.internet_checksum(ip), b"\0\0")
        pseudo = ip[12:20] + struct.pack("!BBH", 0, 17, len(udp))
        self.assertEqual(frames.internet_checksum(pseudo + udp), b"\0\0")


MODULE = """
import unittest
import unittest.mock
from run import covers as cites

class Some(unittest.TestCase):
    def setUp(self):
        self.assertTrue(True)
    @cites("SAN-QP-01")
    def test_shows(self):
        self.assertTrue(True)
    @cites("SAN-QP-02")
    def test_shows_nothing(self):
        pass
    @cites("SAN-QP-01 SAN-QP-02 SAN-QP-03")
    def test_shows_two(self):
        for _ in range(3):
            self.assertEqual("a\\n", "a\\n")
        self.assertTrue(True)
"""


class RecordsTest(unittest.TestCase):
    """What a record of a module says, for scripts/clauses."""

    def run_module(self, text):
        with tempfile.TemporaryDirectory(prefix="weft-test-") as scratch:
            (pathlib.Path(scratch) / "made_up.py").write_text(text)
            runner = pathlib.Path(__file__).resolve().parent / "run.py"
            done = subprocess.run([sys.executable, "-B", runner, "--records", scratch, "made_up"], capture_output=True, text=True,
                                  env=dict(os.environ, PYTHONPATH=scratch), check=False)
            suites = json.loads((pathlib.Path(scratch) / "test_system_made_up.json").read_text())["testsuites"]
        return done.returncode, {test["name"]: test for suite in suites for test in suite["testsuite"]}

    def test_an_assertion_of_set_up_shows_no_row(self):
        code, records = self.run_module(MODULE)
        self.assertEqual(code, 0)
        self.assertEqual(records["test_shows"].get("asserted"), "SAN-QP-01")
        self.assertNotIn("asserted", records["test_shows_nothing"])

    def test_each_row_has_an_assertion_of_its_own(self):
        """The loop is one assertion, and so is one that unittest evaluates by means of another."""
        _, records = self.run_module(MODULE)
        self.assertEqual(records["test_shows_two"]["asserted"], "SAN-QP-01 SAN-QP-02")

    def test_a_budget_does_not_hide_that_a_path_grows_with_what_is_there(self):
        sys.path.insert(0, str(SCRIPTS.parent / "bench"))
        self.addCleanup(sys.path.pop, 0)
        budget = importlib.import_module("budget")
        good = {path: 100.0 for path, *_ in budget.RELATIONS} | {other: 100.0 for _, other, _ in budget.RELATIONS}
        self.assertEqual(list(budget.broken_relations(good)), [])
        for path, other, factor in budget.RELATIONS:
            told = list(budget.broken_relations(dict(good, **{path: 100.0 * factor + 1})))
            self.assertEqual(len(told), 1, path)
            self.assertIn(f"{path} takes", told[0])

    def test_a_budget_that_nothing_here_can_count_is_a_failure(self):
        sys.path.insert(0, str(SCRIPTS.parent / "bench"))
        self.addCleanup(sys.path.pop, 0)
        budget = importlib.import_module("budget")
        with contextlib.redirect_stdout(io.StringIO()) as said, \
                unittest.mock.patch.multiple(budget, COUNTERS={"callgrind": lambda _: None}):
            self.assertEqual(budget.check("program"), 1)
        self.assertIn("install valgrind", said.getvalue())

    def test_a_renewal_leaves_no_table_of_the_budget_behind(self):
        sys.path.insert(0, str(SCRIPTS.parent / "bench"))
        self.addCleanup(sys.path.pop, 0)
        budget = importlib.import_module("budget")
        figures = {path: 100.0 for path, *_ in budget.RELATIONS} | {other: 100.0 for _, other, _ in budget.RELATIONS}
        counters = {"processor": lambda _: figures, "callgrind": lambda _: figures}
        scratch = tempfile.TemporaryDirectory(prefix="weft-test-")
        self.addCleanup(scratch.cleanup)
        file = pathlib.Path(scratch.name) / "budget.toml"
        for budgets, works, wanted in (("callgrind",), ("processor", "callgrind"), {"callgrind"}), \
                                      (("processor", "callgrind"), ("processor", "callgrind"), {"processor", "callgrind"}), \
                                      ((), ("callgrind",), {"callgrind"}), (("callgrind",), ("processor",), None):
            with self.subTest(budgets=budgets, works=works), contextlib.redirect_stdout(io.StringIO()) as said, \
                    unittest.mock.patch.multiple(budget, BUDGET=file, COUNTERS={
                        name: count if name in works else lambda _: None for name, count in counters.items()}):
                before = "".join(f"[{name}]\nLateCell = 1.0\n" for name in budgets)
                file.write_text(before)
                self.assertEqual(budget.renew("program"), 0 if wanted else 1)
                if wanted:
                    self.assertEqual({name: table["LateCell"] for name, table in budget.read().items()}, dict.fromkeys(wanted, 100.0))
                else:
                    self.assertEqual(file.read_text(), before)
                    self.assertIn("callgrind cannot count", said.getvalue())

    def test_figures_before_a_disturbance_are_written(self):
        loader = importlib.machinery.SourceFileLoader("bench_program", str(SCRIPTS / "bench"))
        bench = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
        loader.exec_module(bench)
        scratch = tempfile.TemporaryDirectory(prefix="weft-test-")
        self.addCleanup(scratch.cleanup)
        file = pathlib.Path(scratch.name) / "out.json"
        figures = [bench.Figure(name, "us", None, None, "nothing", None) for name in ("first", "second")]

        def measure(figure, *_):
            if figure.name == "second":
                sys.exit(1)  # as noise_guard() does
            return {"name": figure.name}

        options = argparse.Namespace(list=False, names=[], quick=False, pairs=1, json=file, allow_noise=False)
        with unittest.mock.patch.object(bench, "measure", measure), contextlib.redirect_stdout(io.StringIO()), self.assertRaises(SystemExit):
            bench.work(options, figures)
        self.assertEqual([one["name"] for one in json.loads(file.read_text())], ["first"])

    def test_an_expected_failure_fails(self):
        for body in ("self.assertTrue(False)", "pass"):
            code, records = self.run_module(MODULE + f"    @unittest.expectedFailure\n    def test_odd(self):\n        {body}\n")
            self.assertEqual(code, 1, body)
            self.assertIn("failures", records["test_odd"], body)


if __name__ == "__main__":
    unittest.main()
