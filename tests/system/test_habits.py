"""What programs do to us besides using the verbs: they unload libraries, close descriptors, fork, wait for all children, run
under limits of every kind."""
import json
import os
import re
import shutil
import signal
import subprocess
import time
import unittest

import harness
from weft_case import WeftCase

PROBE = harness.BIN.parent / "tests" / "habits_probe"
MOVED, REFUSED = 0, 3


@unittest.skipUnless(PROBE.exists(), "the drop-in libibverbs is not built")
class HabitsTest(WeftCase):
    """Each habit of the probe with the preloaded object and without."""

    def setUp(self):
        super().setUp()
        self.addCleanup(lambda: self.weft("down"))
        self.holder = self.start("run", "sleep", "600")
        harness.wait_for(lambda: self.weft("status")[0] == 0, "a fabric")
        shown = self.weft("run", "env")[1].splitlines()
        self.under_weft = dict(line.split("=", 1) for line in shown if "=" in line)

    def tearDown(self):
        self.holder.kill()
        super().tearDown()

    def probe(self, habit, before=(), preload=True, **extra):
        environment = dict(self.under_weft, **extra)
        if not preload:
            environment.pop("LD_PRELOAD")
        done = subprocess.run([*before, PROBE, habit], capture_output=True, text=True, timeout=90, env=environment,
                              stdin=subprocess.DEVNULL)
        return done.returncode, done.stdout + done.stderr

    def goes_well(self, habit, **how):
        code, text = self.probe(habit, **how)
        self.assertEqual(code, MOVED, f"{habit} {how}: {text}")
        return text

    def test_the_library_may_be_unloaded(self):
        for preload in (True, False):
            self.assertIn("alive", self.goes_well("unload", preload=preload))

    def test_what_the_program_opens_after_closing_everything_is_its_own(self):
        for habit in ("closefrom", "close_range", "close"):
            self.assertIn("untouched", self.goes_well(habit))

    def test_a_number_that_the_program_gives_to_its_own_file_gets_no_wake_up(self):
        """dup2() onto descriptors of the library, which the preloaded object sees and without it the check of each use finds."""
        for preload in (True, False):
            self.assertIn("untouched", self.goes_well("dup2", preload=preload))

    def test_and_so_it_is_where_nothing_sees_the_closing(self):
        """Without the preloaded object, by functions of libc and by bare system calls."""
        for habit in ("closefrom", "unseen"):
            self.assertIn("untouched", self.goes_well(habit, preload=False))

    def test_each_process_reads_its_own_system_files(self):
        both = ["sh", "-c", '"$0" "$@" & one=$!; "$0" "$@"; code=$?; wait $one && exit $code', PROBE, "files"]
        code, out, err = self.weft("run", *both)
        self.assertEqual(code, 0, out + err)
        left = list((self.state / "default" / "programs").glob("sys-*/*"))
        self.assertEqual([tree.name for tree in left if not tree.name.startswith(".")], [], "they take them along")

    def test_children_have_a_device_of_their_own_at_any_moment(self):
        self.goes_well("fork")
        self.goes_well("children")

    def test_threads_may_be_cancelled(self):
        for preload in (True, False):
            self.goes_well("cancelled", preload=preload)

    def test_threads_may_be_cancelled_over_zeromq(self):
        """Whose functions are cancellation points."""
        endpoint = f"tcp://127.0.0.1:{20000 + os.getpid() % 20000}"
        self.up(f'fabric = "far"\n[[switch]]\nname = "s1"\nspare_ports = 4\nlisten = ["{endpoint}"]\n')
        code, out, err = self.weft("run", "--fabric", endpoint, PROBE, "cancelled")
        self.assertEqual(code, MOVED, out + err)

    def test_signal_handlers_may_poll_and_post(self):
        for preload in (True, False):
            self.goes_well("handlers", preload=preload)

    def test_limits_cost_a_reason_at_most(self):
        """Under each limit the program moves its message, or is told by an error why it has no device."""
        limits = {"16 descriptors": {"nofile": 16}, "8 descriptors": {"nofile": 8}, "64 MiB": {"as": 64 << 20},
                  "300 MiB": {"as": 300 << 20}, "no locked memory": {"memlock": 0}, "no core": {"core": 0},
                  "a stack of 256 KiB": {"stack": 256 << 10}, "no files": {"fsize": 0}, "no queued signal": {"sigpending": 0},
                  "no data": {"data": 8 << 20}}
        if harness.IS_ROOT and shutil.which("setpriv"):
            limits["no threads"] = {"nproc": 1}
        for what, limit in limits.items():
            words = ["prlimit", *(f"--{name}={value}" for name, value in limit.items())]
            with self.subTest(limit=what):
                code, text = self.probe("plain", before=words, WEFT_DEBUG="verbs")
                self.assertIn(code, (MOVED, REFUSED), text)
                if code == REFUSED:
                    self.assertRegex(text, r"weft verbs\[\d+\]: |Cannot allocate memory", "a reason")

    def test_no_file_may_be_written(self):
        """The program is not ended by SIGXFSZ."""
        self.assertIn("moved", self.goes_well("plain", before=["prlimit", "--fsize=0"]))

    def test_a_directory_that_cannot_be_written_costs_the_tools_their_page(self):
        if not harness.IS_ROOT:
            self.skipTest("needs root: a mount namespace")
        programs = self.state / "default" / "programs"
        for how in (f"mount --bind {self.state} {self.state} && mount -o remount,bind,ro {self.state}",
                    f"mount -t tmpfs -o size=4k,mode=0700 none {programs} && (cat /dev/zero >{programs}/full; true)"):
            with self.subTest(how=how):
                inside = ["unshare", "-m", "sh", "-c", f'{how} 2>/dev/null; exec "$0" "$@"']
                text = self.goes_well("plain", before=inside, WEFT_DEBUG="verbs")
                self.assertIn("the tools will not see this program", text)

    def test_an_unknown_word_of_weft_debug_is_named_in_one_line(self):
        unknown = r"weft verbs\[\d+\]: WEFT_DEBUG: unknown (.*); known are verbs, cm and all"
        for value, named in (("verb", "'verb'"), ("cm,VERBS", "'VERBS'"), ("x, cm", "'x', ' cm'"), ("0", "'0'"),
                             ("\x1b[2J", r"'\x1b[2J'")):
            with self.subTest(value=value):
                lines = [line for line in self.goes_well("plain", WEFT_DEBUG=value).splitlines() if "unknown" in line]
                self.assertEqual(len(lines), 1, lines)
                self.assertRegex(lines[0], f"^{unknown}$")
                self.assertEqual(re.match(unknown, lines[0]).group(1), named)
        for value in ("", "verbs", "cm", "verbs,cm", "all", "1", ",cm,"):
            self.assertNotIn("unknown", self.goes_well("plain", WEFT_DEBUG=value), value)
        said = self.probe("plain", WEFT_DEBUG="verb", WEFT_FABRIC="/no/such/directory")[1]
        self.assertEqual(said.count("unknown 'verb'"), 1, said)

    def test_a_silence_limit_is_checked(self):
        for value in ("0.5s", "61s", "5", "soon"):
            code, text = self.probe("plain", WEFT_SILENCE=value)
            self.assertEqual(code, REFUSED, text)
            self.assertIn(f"no device: WEFT_SILENCE: '{value}' is not a time from 1s to 1m", text)
        self.goes_well("plain", WEFT_SILENCE="1s")

    @unittest.skipUnless(shutil.which("ibv_asyncwatch"), "ibverbs-utils is not installed")
    def test_a_program_over_tcp_applies_its_own_silence_limit(self):
        """The switch stands still for 2.5 s: longer than the limit of one program, shorter than that of the other."""
        endpoint = f"tcp://127.0.0.1:{20000 + os.getpid() % 20000}"
        self.up(f'fabric = "far"\n[[switch]]\nname = "s1"\nspare_ports = 4\nlisten = ["{endpoint}"]\n')
        programs = {limit: self.start("run", "--fabric", endpoint, "env", "WEFT_DEBUG=verbs", f"WEFT_SILENCE={limit}", "ibv_asyncwatch",
                                      "-d", "weft0", stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) for limit in ("1s", "20s")}

        def nodes():
            return json.loads(self.weft("status", "--fabric", "far", "--json")[1])["nodes"]
        harness.wait_for(lambda: sum(port["state"] == "up" for port in nodes()[0]["ports"]) == 2, "both programs to join", interval=0.1)
        switch = nodes()[0]["pid"]
        os.kill(switch, signal.SIGSTOP)
        time.sleep(2.5)
        os.kill(switch, signal.SIGCONT)
        said = {}
        for limit, program in programs.items():
            program.kill()
            said[limit] = program.communicate(timeout=10)[1].count("lost")
        self.assertEqual((said["1s"] > 0, said["20s"]), (True, 0), said)

    def test_names_are_checked(self):
        for name in ("a b", "x\x1b[31m", "new\nline", "-x", "n" * 65, "../up", "ü"):
            code, text = self.probe("plain", WEFT_NODE=name, WEFT_DEBUG="verbs")
            self.assertEqual(code, REFUSED, name)
            self.assertIn("WEFT_NODE", text)
            self.assertNotIn("\x1b", text)
        code, text = self.probe("plain", WEFT_NODE="s1", WEFT_DEBUG="verbs")
        self.assertEqual(code, REFUSED, text)
        self.assertIn("a node of the fabric's topology has this name", text)


if __name__ == "__main__":
    unittest.main()
