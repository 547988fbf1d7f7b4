"""Many programs on the fabric that everybody gets: in a row, at once, over tcp; and what one is told that gets no device."""
import json
import os
import shutil
import signal
import subprocess
import time
import unittest

import harness
from weft_case import WeftCase
from test_run import has_library

WAITS = "ibv_asyncwatch"  # joins, and stays
LOOKS = "ibv_devices"     # joins, and goes


@unittest.skipUnless(has_library(), "the drop-in libibverbs is not built")
@unittest.skipUnless(shutil.which(WAITS) and shutil.which(LOOKS), "ibverbs-utils is not installed")
class CrowdsTest(WeftCase):
    def devices(self, *options):
        code, out, _ = self.weft("devices", "--json", *options)
        return [device for switch in json.loads(out)["switches"] for device in switch["devices"]] if code == 0 else []

    def setUp(self):
        super().setUp()
        self.addCleanup(harness.wait_for, lambda: self.weft("status", "--fabric", "default", "--json")[0] != 0,
                        "the default fabric to end with its last program")

    def crowd(self, count, *options):
        """So many programs that join and stay; they end with the test."""
        line = f"for i in $(seq {count}); do {WAITS} >/dev/null & done; wait"
        shell = self.start("run", *options, "--", "sh", "-c", line, stderr=subprocess.PIPE, start_new_session=True)
        self.addCleanup(self.end_session, shell)
        return shell

    @staticmethod
    def end_session(shell):
        try:
            os.killpg(shell.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        shell.wait()

    def test_programs_in_a_row(self):
        """More than there were LIDs for in a minute."""
        line = f"i=0; while [ $i -lt 900 ]; do {LOOKS} | grep -q weft0 || exit 1; i=$((i+1)); done"
        code, _, err = self.weft("run", "--", "sh", "-c", line, seconds=90)
        self.assertEqual((code, err), (0, ""))

    def test_two_hundred_at_once(self):
        shell = self.crowd(200)
        harness.wait_for(lambda: len(self.devices()) == 200, "200 programs to be endnodes", seconds=60)
        lids = {device["lid"] for device in self.devices()}
        self.assertEqual(len(lids), 200)
        self.end_session(shell)
        self.assertEqual(shell.stderr.read(), "")

    def test_one_too_many_is_told_the_limit(self):
        self.up('fabric = "t"\n[[switch]]\nname = "s1"\nspare_ports = 2\n')
        self.crowd(2, "--fabric", "t")
        harness.wait_for(lambda: len(self.devices("--fabric", "t")) == 2, "two programs")
        code, out, err = self.weft("run", "--fabric", "t", LOOKS)
        self.assertNotIn("weft0", out)
        self.assertEqual(len(err.splitlines()), 1, err)
        self.assertIn("all 2 spare ports of the switch are in use", err)
        self.assertIn("spare_ports", err)

    def test_sixty_over_tcp(self):
        endpoint = f"tcp://127.0.0.1:{20000 + os.getpid() % 20000}"
        self.up(f'fabric = "t"\n[[switch]]\nname = "s1"\nspare_ports = 128\nlisten = ["{endpoint}"]\n')
        shell = self.crowd(60, "--fabric", endpoint)
        harness.wait_for(lambda: len(self.devices("--fabric", "t")) == 60, "60 programs over tcp", seconds=60)
        self.end_session(shell)
        self.assertEqual(shell.stderr.read(), "")

    def test_a_switch_over_tcp_that_stands_still_is_waited_for(self):
        """As one that has no core while many programs start."""
        endpoint = f"tcp://127.0.0.1:{20000 + os.getpid() % 20000}"
        self.up(f'fabric = "t"\n[[switch]]\nname = "s1"\nspare_ports = 4\nlisten = ["{endpoint}"]\n')
        switch = json.loads(self.weft("status", "--json")[1])["nodes"][0]["pid"]
        os.kill(switch, signal.SIGSTOP)
        self.addCleanup(os.kill, switch, signal.SIGCONT)
        program = self.start("run", "--fabric", endpoint, "--", LOOKS, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        time.sleep(3)  # longer than a program waits for a switch that is not there
        self.assertIsNone(program.poll(), "it waits")
        os.kill(switch, signal.SIGCONT)
        out, err = program.communicate(timeout=60)
        self.assertIn("weft0", out)
        self.assertEqual(err, "")

    def test_a_name_in_use_is_told_with_its_pid(self):
        first = self.start("run", "--node", "x", WAITS, stdout=subprocess.DEVNULL)
        harness.wait_for(lambda: len(self.devices()) == 1, "the first to join")
        code, out, err = self.weft("run", "--node", "x", LOOKS)
        self.assertNotIn("weft0", out)
        self.assertEqual(len(err.splitlines()), 1, err)
        self.assertIn(f"name 'x' is in use by pid {first.pid}", err)

    def test_tcp_that_leads_nowhere_is_told(self):
        code, out, err = self.weft("run", "--fabric", "tcp://127.0.0.1:1", LOOKS)
        self.assertNotIn("weft0", out)
        self.assertEqual(len(err.splitlines()), 1, err)
        self.assertIn("no switch listens there", err)

    def test_keys_that_do_not_fit_are_told(self):
        keys = self.path / "keys"
        self.assertEqual(self.weft("keygen", "--dir", keys, "s1", "alice", "mallory", "s2")[0], 0)
        endpoint = f"tcp://127.0.0.1:{20000 + os.getpid() % 20000}"
        self.up(f'fabric = "t"\n[curve]\nkeys = "{keys}"\n[[switch]]\nname = "s1"\nlisten = ["{endpoint}"]\n'
                'spare_ports = 4\nspare_keys = ["alice"]\n')

        def told(*options):
            code, out, err = self.weft("run", "--fabric", endpoint, *options, LOOKS)
            self.assertNotIn("weft0", out)
            self.assertEqual(len(err.splitlines()), 1, err)
            return err

        good = ("--key", keys / "alice.secret", "--switch-key", keys / "s1.public")
        self.assertIn("weft0", self.weft("run", "--fabric", endpoint, *good, LOOKS)[1])
        self.assertIn("does not know our key", told("--key", keys / "mallory.secret", "--switch-key", keys / "s1.public"))
        self.assertIn("the switch wants keys and we have none", told())
        self.assertIn("the keys do not fit", told("--key", keys / "alice.secret", "--switch-key", keys / "s2.public"))

    def test_a_program_that_wants_no_device_is_told_nothing(self):
        self.assertEqual(self.weft("run", "--fabric", "tcp://127.0.0.1:1", "true"), (0, "", ""))


if __name__ == "__main__":
    unittest.main()
