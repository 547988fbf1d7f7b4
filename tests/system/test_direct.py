"""RC and UD through memory windows between programs of one machine (weft run --direct). docs/window.md promises it."""
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import time
import unittest

import harness
from test_programs import ProgramCase
from test_run import listens

DIRECT = ("--direct",)


class DirectTest(ProgramCase):
    def ways(self, *names):
        nodes = self.nodes()
        return [qp["way"] for name in names for qp in nodes[name]["queue_pairs"]]

    def received(self, name):
        """Messages that the QP of a running program has received."""
        counters = json.loads(self.weft("stat", "--json", "--interval", "100", name)[1])["counters"]
        return next(counter for key, counter in counters.items() if key.endswith("qp.0.messages_received"))

    def cells_sent(self, name):
        counters = json.loads(self.weft("stat", "--json", "--all", "--interval", "100", name)[1])["counters"]
        return sum(counter for key, counter in counters.items() if re.search(r"adapter\.port\.\d+\.cells_sent$", key))

    def test_both_sides_choose_the_window(self):
        for server, client in itertools.product((DIRECT, ()), repeat=2):
            with self.subTest(server=server, client=client):
                first, second = self.pair(server_options=server, client_options=client)
                expected = "window" if server and client else "switch"
                harness.wait_for(lambda: self.ways("alice", "bob") == [expected] * 2, f"both to use the {expected}")
                self.assertEqual("through a window" in self.weft("status")[1], expected == "window")
                sent, received = self.cells_sent("bob"), self.received("bob")
                harness.wait_for(lambda: self.received("bob") > received + 1000, "messages to flow")
                self.assertEqual(self.cells_sent("bob") == sent, expected == "window")
                for program in (first, second):
                    program.terminate()
                    program.wait(10)
                harness.wait_for(lambda: not {"alice", "bob"} & set(self.nodes()), "both to be gone")

    def test_datagrams_choose_the_window(self):
        for server, client in itertools.product((DIRECT, ()), repeat=2):
            with self.subTest(server=server, client=client):
                first, second = self.pair(server_options=server, client_options=client, program="ibv_ud_pingpong")
                expected = "window" if server and client else "switch"
                harness.wait_for(lambda: self.ways("alice", "bob") == [expected] * 2, f"both to use the {expected}")
                sent, received = self.cells_sent("bob"), self.received("bob")
                harness.wait_for(lambda: self.received("bob") > received + 1000, "datagrams to flow")
                self.assertEqual(self.cells_sent("bob") == sent, expected == "window")
                for program in (first, second):
                    program.terminate()
                    program.wait(10)
                harness.wait_for(lambda: not {"alice", "bob"} & set(self.nodes()), "both to be gone")

    def test_datagrams_go_on_by_the_switch_when_the_peer_has_ended(self):
        """The sender hears nothing, as with any datagram."""
        self.environment["WEFT_DEBUG"] = "verbs"
        first, second = self.pair(server_options=DIRECT, client_options=DIRECT, program="ibv_ud_pingpong")
        harness.wait_for(lambda: self.ways("alice", "bob") == ["window"] * 2, "the window")
        first.send_signal(signal.SIGKILL)
        first.wait(10)
        harness.wait_for(lambda: "alice" not in self.nodes(), "the peer to be gone")
        harness.wait_for(lambda: self.ways("bob") == ["switch"], "the other one to use the switch")
        self.assertIsNone(second.poll())

    def test_a_fabric_may_say_it_for_all_its_programs(self):
        self.file.write_text('fabric = "t"\ndirect = true\n[[switch]]\nname = "s1"\nspare_ports = 4\n')
        self.up()
        self.pair()
        harness.wait_for(lambda: self.ways("alice", "bob") == ["window"] * 2, "both to use the window")

    @unittest.skipUnless(shutil.which("ib_send_bw"), "perftest is not installed")
    def test_a_dead_peer_is_told_at_once(self):
        """By a client that always has requests under way: one that only waits to receive hears nothing, as with any adapter."""
        port = 24000 + os.getpid() % 8000
        words = ("ib_send_bw", "-p", port, "-D", "60")
        server = self.start("run", "--node", "alice", *DIRECT, *words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        harness.wait_for(lambda: listens(port), "the server to listen")
        client = self.start("run", "--node", "bob", *DIRECT, *words, "127.0.0.1", stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        harness.wait_for(lambda: "alice" in self.nodes() and self.ways("alice") == ["window"], "the window")
        harness.wait_for(lambda: self.received("alice") > 1000, "messages to flow")
        server.send_signal(signal.SIGKILL)
        said = client.communicate(timeout=20)[0]
        self.assertNotEqual(client.returncode, 0, said)
        self.assertIn("Failed status 12", said)

    def test_a_stopped_peer_is_waited_for(self):
        first, _ = self.pair(server_options=DIRECT, client_options=DIRECT)
        harness.wait_for(lambda: self.ways("alice", "bob") == ["window"] * 2, "the window")
        first.send_signal(signal.SIGSTOP)
        time.sleep(3)
        received = self.received("bob")
        first.send_signal(signal.SIGCONT)
        harness.wait_for(lambda: self.received("bob") > received + 1000, "messages to flow again")
        self.assertEqual(self.ways("alice", "bob"), ["window"] * 2)

    def test_a_short_cut_stops_the_window_and_a_long_one_ends_its_queue_pairs(self):
        self.pair(server_options=DIRECT, client_options=DIRECT)
        harness.wait_for(lambda: self.ways("alice", "bob") == ["window"] * 2, "the window")
        code, out, err = self.weft("fault", "alice", "cut", "--for", "300ms")
        self.assertEqual(code, 0, out + err)
        self.assertRegex(out, r"fault s1:\d+ at s1:\d+ \(alice\): cut")
        self.assertIn("fault alice:1 at the memory windows of alice: cut", out)
        received = self.received("bob")
        harness.wait_for(lambda: self.received("bob") > received + 1000, "messages to flow again")
        self.assertEqual(self.ways("alice", "bob"), ["window"] * 2)
        faults = {one["id"]: one for one in json.loads(self.weft("fault", "list", "--json")[1])["faults"]}
        self.assertEqual((faults["alice:1"]["kind"], faults["alice:1"]["at"]), ("cut", "the memory windows of alice"))
        self.assertIn("fault alice:1", self.weft("status")[1])
        self.assertEqual(self.weft("fault", "clear", "alice:1")[0], 0)
        self.assertEqual(self.weft("fault", "alice", "cut")[0], 0)
        # The other one only waits to receive: it has nothing outstanding, and hears nothing.
        harness.wait_for(lambda: len({"alice", "bob"} & set(self.nodes())) < 2, "one to give up")

    def test_a_delay_slows_the_window_and_failed_dma_ends_its_queue_pair(self):
        self.environment["WEFT_DEBUG"] = "verbs"
        port = 24000 + os.getpid() % 8000
        words = ("ibv_rc_pingpong", "-p", port, "-n", 100_000_000)
        server = self.start("run", "--node", "alice", *DIRECT, *words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        harness.wait_for(lambda: listens(port), "the server to listen")
        self.start("run", "--node", "bob", *DIRECT, *words, "127.0.0.1", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        harness.wait_for(lambda: {"alice", "bob"} <= set(self.nodes()) and self.ways("alice", "bob") == ["window"] * 2, "the window")
        self.assertEqual(self.weft("fault", "bob", "delay", "20ms")[0], 0)
        time.sleep(1)  # the page shows counters of queue pairs twice a second
        received = self.received("alice")
        time.sleep(1)
        self.assertLess(self.received("alice") - received, 200)
        self.assertEqual(self.weft("fault", "clear")[0], 0)
        harness.wait_for(lambda: self.received("alice") > received + 1000, "messages to flow again")
        code, out, err = self.weft("fault", "alice", "fail-dma")
        self.assertEqual(code, 0, out + err)
        self.assertNotIn("at s1", out)
        said = server.communicate(timeout=20)[0]
        self.assertNotEqual(server.returncode, 0, said)
        self.assertRegex(said, r"fault \d+ is in force for the memory windows of this program and has struck")
        # The client may only wait to receive, and then hears nothing of the end.

    def dropped(self, name, counter):
        counters = json.loads(self.weft("stat", "--json", "--all", "--interval", "100", name)[1])["counters"]
        return sum(count for key, count in counters.items() if key.endswith(f"adapter.{counter}"))

    @unittest.skipUnless(shutil.which("ib_send_bw"), "perftest is not installed")
    def test_faults_of_the_window_cost_datagrams_and_nothing_else(self):
        port = 24000 + os.getpid() % 8000
        words = ("ib_send_bw", "-c", "UD", "-p", port, "-D", "60")
        server = self.start("run", "--node", "alice", *DIRECT, *words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        harness.wait_for(lambda: listens(port), "the server to listen")
        client = self.start("run", "--node", "bob", *DIRECT, *words, "127.0.0.1", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        harness.wait_for(lambda: {"alice", "bob"} <= set(self.nodes()) and self.ways("bob") == ["window"], "the window")
        for words, counter in ((("fail-dma", "--every", "10", "--limit", "5"), "drop_dma"), (("cut", "--for", "300ms"), "drop_fifo_full")):
            with self.subTest(fault=words[0]):
                received = self.received("alice")
                harness.wait_for(lambda: self.received("alice") > received + 1000, "datagrams to flow")
                before = self.dropped("bob", counter)
                code, out, err = self.weft("fault", "bob", *words)
                self.assertEqual(code, 0, out + err)
                self.assertIn(f"at the memory windows of bob: {words[0]}", out)
                harness.wait_for(lambda: self.dropped("bob", counter) > before, "datagrams to be lost")
                received = self.received("alice")
                harness.wait_for(lambda: self.received("alice") > received + 1000, "datagrams to flow again")
                self.assertEqual(self.ways("bob"), ["window"])
                self.assertLessEqual(self.dropped("bob", "drop_dma"), 5)
                self.assertEqual((server.poll(), client.poll()), (None, None))

    def test_what_means_nothing_for_windows_is_said(self):
        self.pair(server_options=DIRECT, client_options=DIRECT)
        harness.wait_for(lambda: self.ways("alice", "bob") == ["window"] * 2, "the window")
        for words, why in ((("corrupt", "1%"), "no cell passes a window"), (("cut", "--lane", "3"), "no lanes"),
                           (("delay", "1ms", "--direction", "to"), "the device of a peer")):
            code, out, err = self.weft("fault", "alice", *words)
            self.assertEqual(code, 0, out + err)
            self.assertIn("the memory windows of alice are not struck", out)
            self.assertIn(why, out)
        for target in ("s1", "s1:1"):
            code, out, err = self.weft("fault", target, "fail-dma")
            self.assertNotEqual(code, 0)
            self.assertIn("memory windows of a running program", out + err)

    @unittest.skipUnless(os.geteuid() == 0 and shutil.which("unshare"), "a PID namespace needs root")
    def test_a_fabric_of_another_launcher_has_no_windows_and_that_is_said(self):
        code, _, errors = self.weft("run", "--direct", "--fabric", "tcp://127.0.0.1:1", "true")
        self.assertEqual(code, 0, errors)
        self.assertIn("--direct has no effect with tcp://127.0.0.1:1", errors)

    def test_where_the_kernel_does_not_copy_it_goes_as_records(self):
        port = 24000 + os.getpid() % 8000
        words = ("-p", port, "-s", "65536", "-n", "300")
        self.environment["WEFT_DEBUG"] = "verbs"
        server = self.start("run", "--node", "alice", *DIRECT, "unshare", "--pid", "--fork", "--kill-child", "ib_write_bw", *words,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        harness.wait_for(lambda: listens(port), "the server to listen")
        code, out, err = self.weft("run", "--node", "bob", *DIRECT, "ib_write_bw", *words, "127.0.0.1")
        self.assertEqual(code, 0, out + err)
        served = server.communicate(timeout=30)[0]
        self.assertEqual(server.returncode, 0, served)
        self.assertIn("as records through shared memory", out + err + served)

    def test_two_programs_share_a_file_and_the_next_pair_takes_its_place(self):
        file = self.path / "window"
        for _ in range(2):
            first, second = self.pair(server_options=("--direct-file", f"{file}:0"), client_options=("--direct-file", f"{file}:1"))
            harness.wait_for(lambda: self.ways("alice", "bob") == ["window"] * 2, "both to use the file")
            received = self.received("bob")
            harness.wait_for(lambda: self.received("bob") > received + 1000, "messages to flow")
            for program in (first, second):
                program.terminate()
                program.wait(10)
            harness.wait_for(lambda: not {"alice", "bob"} & set(self.nodes()), "both to be gone")

    def test_datagrams_go_through_a_shared_file(self):
        file = self.path / "window"
        self.pair(server_options=("--direct-file", f"{file}:0"), client_options=("--direct-file", f"{file}:1"), program="ibv_ud_pingpong")
        harness.wait_for(lambda: self.ways("alice", "bob") == ["window"] * 2, "both to use the file")
        sent, received = self.cells_sent("bob"), self.received("bob")
        harness.wait_for(lambda: self.received("bob") > received + 1000, "datagrams to flow")
        self.assertEqual(self.cells_sent("bob"), sent)

    def test_without_its_peer_in_the_file_a_program_uses_the_switch(self):
        file = self.path / "window"
        self.pair(server_options=("--direct-file", f"{file}:0"))
        harness.wait_for(lambda: self.ways("alice", "bob") == ["switch"] * 2, "both to use the switch")
        self.environment["WEFT_DEBUG"] = "verbs"
        code, out, err = self.weft("run", "--direct-file", file, "--", "ibv_devinfo")
        self.assertEqual(code, 2, out)
        self.assertIn("must be PATH:SIDE", err)

    def test_a_file_that_cannot_be_used_is_refused_before_the_program_starts(self):
        for form in (f"{self.path}/w:7", f"{self.path}/w", ":0", f"{self.path}/w:"):
            with self.subTest(form=form):
                code, out, err = self.weft("run", "--direct-file", form, "--", "echo", "started")
                self.assertEqual((code, out), (2, ""))
                self.assertIn("must be PATH:SIDE, and the side is 0 or 1", err)
        (self.path / "shared").touch()
        (self.path / "shared").chmod(0o644)
        for file, why in (("nosuch/x", "cannot open"), (".", "cannot open"), ("shared", "may be used by others: chmod 0600")):
            with self.subTest(file=file):
                code, out, err = self.weft("run", "--direct-file", f"{self.path}/{file}:0", "--", "echo", "started")
                self.assertEqual((code, out), (125, ""))
                self.assertRegex(err, f"^weft run: --direct-file: .*{why}.*\n$")

    def test_programs_of_perftest_move_their_data_through_windows(self):
        for program, *words in (("ib_write_lat", "-n", "500"), ("ib_write_bw", "-n", "500", "-q", "4"), ("ib_read_lat", "-n", "500"),
                                ("ib_read_bw", "-n", "500"), ("ib_send_bw", "-n", "500", "-s", "100000"),
                                ("ib_atomic_lat", "-n", "500"), ("ib_send_lat", "-n", "500", "-e"),
                                ("ib_send_lat", "-n", "500", "-c", "UD"), ("ib_send_bw", "-n", "500", "-c", "UD")):
            if shutil.which(program) is None:
                continue
            with self.subTest(program=program):
                port = 24000 + os.getpid() % 8000
                server = self.start("run", "--node", "alice", *DIRECT, program, "-p", port, *words, stdout=subprocess.PIPE,
                                    stderr=subprocess.STDOUT)
                harness.wait_for(lambda: listens(port), "the server to listen")
                code, out, err = self.weft("run", "--node", "bob", *DIRECT, program, "-p", port, *words, "127.0.0.1")
                self.assertEqual(code, 0, out + err)
                self.assertEqual(server.wait(30), 0, server.stdout.read())
                harness.wait_for(lambda: not self.running(), "the fabric to end")


del ProgramCase
if __name__ == "__main__":
    unittest.main()
