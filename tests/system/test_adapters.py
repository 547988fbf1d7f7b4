"""Programs of weft run --adapters 2: a stock program goes on by its second adapter when the link of the first one is cut, and back.
docs/key_migration.md promises it."""
import os
import re
import shutil
import subprocess
import time
import unittest

import harness
from test_programs import ProgramCase
from test_run import listens

TWO = ("--adapters", "2")


class AdaptersTest(ProgramCase):
    def counter(self, name, counter):
        return harness.StatsPage(self.state_file(f"programs/{name}.stats")).read().get(counter, 0)

    def state_file(self, name):
        return next(self.state.glob(f"*/{name}"))

    def messages(self, name):
        return sum(value for key, value in harness.StatsPage(self.state_file(f"programs/{name}.stats")).read().items()
                   if re.fullmatch(r"qp\.\d+\.(messages_sent|messages_received)", key))

    def programs(self, *words, server=(), client=(), options=(), by_tcp=True):
        """A server alice and a client bob of a stock program, with two adapters each."""
        port = 24000 + os.getpid() % 8000
        first = self.start("run", "--node", "alice", *TWO, *options, "--", *words, "-p", port, *server, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT)
        if by_tcp:
            harness.wait_for(lambda: listens(port), "the server to listen")
        else:
            harness.wait_for(lambda: "alice" in self.nodes(), "the server to join")
            time.sleep(1.0)  # and to listen, which nobody outside sees
        second = self.start("run", "--node", "bob", *TWO, *options, "--", *words, "-p", port, *client, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT)
        return first, second

    def flows(self):
        """Messages complete."""
        before = self.messages("bob")
        harness.wait_for(lambda: self.messages("bob") > before + 20, "messages to flow")

    def cut_in_turn(self, *names):
        """Cuts one link after the other, each once the one before is healed; messages flow throughout."""
        harness.wait_for(lambda: {"alice", "bob"} <= set(self.nodes()), "both to join")
        for name in names:
            self.flows()
            self.assertEqual(self.weft("fault", name, "cut")[0], 0)
            self.flows()
            self.assertEqual(self.weft("fault", "clear")[0], 0)

    def end(self, *programs, patience=60):
        for program in programs:
            said = program.communicate(timeout=patience)[0]
            self.assertEqual(program.returncode, 0, said)
            self.assertNotRegex(said, r"(?i)fail|error")

    def moves(self):
        return sum(self.counter(name, f"adapter.{counter}") for name in ("alice", "bob")
                   for counter in ("ways_taken", "ways_followed"))

    def expect_port(self, used, other):
        """Messages leave bob by one port, and its counters alone tell so."""
        before = [self.counter("bob", f"adapter.port.{port}.cells_sent") for port in (used, other)]
        self.flows()
        after = [self.counter("bob", f"adapter.port.{port}.cells_sent") for port in (used, other)]
        sent = [now - then for now, then in zip(after, before)]
        self.assertGreater(sent[0], 10)
        self.assertLess(sent[1], max(10, sent[0] / 10))  # a starved peer is looked for over every port

    def through_cuts(self, first, second, patience=60):
        """Both ends leave their first adapter, then their second."""
        harness.wait_for(lambda: {"alice", "bob"} <= set(self.nodes()), "both to join")
        self.flows()
        self.expect_port(used=1, other=2)
        self.cut_in_turn("bob", "bob.2", "alice", "alice.2")
        self.assertGreaterEqual(self.moves(), 6)
        self.assertGreaterEqual(self.counter("alice", "keys.handed_over"), 1)
        self.end(first, second, patience=patience)

    @unittest.skipUnless(shutil.which("ib_write_bw"), "perftest is not installed")
    def test_writes_and_reads_go_on(self):
        for program in ("ib_write_bw", "ib_read_bw"):
            with self.subTest(program):
                self.through_cuts(*self.programs(program, "-s", "4096", "-D", "10", client=("127.0.0.1",)))
                harness.wait_for(lambda: not self.nodes(), "both to be gone")

    @unittest.skipUnless(shutil.which("rping"), "rdmacm-utils is not installed")
    def test_rping_finds_every_byte(self):
        """rping -V compares what comes back with what it has sent. A ping takes 0.3 ms on an idle machine and 5 ms on a busy one."""
        self.through_cuts(*self.programs("rping", "-V", "-C", "30000", "-S", "1000", server=("-s",), client=("-c", "-a", "127.0.0.1"),
                                         by_tcp=False), patience=150)

    @unittest.skipUnless(shutil.which("ib_write_bw"), "perftest is not installed")
    def test_a_switch_is_left(self):
        self.up('fabric = "t"\n[[switch]]\nname = "s1"\nspare_ports = 8\n[[switch]]\nname = "s2"\nspare_ports = 8\n'
                '[[link]]\nswitches = ["s1", "s2"]\n')
        programs = self.programs("ib_write_bw", "-s", "4096", "-D", "8", client=("127.0.0.1",), options=("--switch", "s1,s2"))
        self.cut_in_turn("s1", "s2")
        self.assertEqual(self.counter("bob", "adapter.ways_taken") + self.counter("alice", "adapter.ways_taken"), 2)
        self.end(*programs)

    def test_a_program_sees_one_device_with_two_ports(self):
        said = self.weft("run", *TWO, "--", "ibv_devinfo")[1]
        self.assertRegex(said, r"phys_port_cnt:\s+2")
        lids = re.findall(r"port_lid:\s+(\d+)", said)
        self.assertEqual(len(set(lids)), 2, said)

    def test_a_wrong_number_is_told(self):
        for wrong, why in (("5", "not a number from 1 to 4"), (",".join(["shm:/a"] * 4), "at most 4 adapters")):
            said = self.weft("run", "--", "ibv_devinfo", WEFT_ADAPTERS=wrong, WEFT_DEBUG="verbs")[2]
            self.assertIn(f"WEFT_ADAPTERS={wrong}: {why}", said)
        self.assertEqual(self.weft("run", "--adapters", "5", "--", "true")[0], 2)

    def test_a_peer_with_one_adapter_is_served(self):
        self.pair(client_options=TWO)
        self.flows()
