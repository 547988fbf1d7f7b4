"""What is exhausted -- descriptors, processes, the disk -- ends in one clear line, and the next start works."""
import json
import os
import pathlib
import re
import resource
import subprocess
import unittest

import harness
from weft_case import WeftCase

# The kernel counts processes by user, so this user has none but those of this test.
LONELY = 1_000_000 + os.getpid()


class LimitsTest(WeftCase):
    def limited(self, number, value, user=None):
        """weft up under a limit, as a user without rights: exit code, standard error."""
        def before_exec():
            resource.setrlimit(number, (value, value))
        command = [self.bin / "weft", "up", "--detach", self.file]
        done = subprocess.run((harness.as_user(user) if user else []) + command, capture_output=True, text=True, timeout=60,
                              env=self.environment, stdin=subprocess.DEVNULL, preexec_fn=before_exec)
        return done.returncode, done.stderr

    def assert_one_line(self, errors):
        self.assertEqual(len(errors.strip().splitlines()), 1, errors)
        self.assertTrue(errors.startswith("weft up: "), errors)
        for riddle in ("Invalid argument", "Bus error", "Assertion", "signal"):
            self.assertNotIn(riddle, errors)

    def assert_starts(self):
        self.assertEqual(self.weft("up", "--detach", self.file)[0], 0)
        self.assertEqual(self.weft("status")[0], 0)
        self.assertEqual(self.weft("down")[0], 0)

    def test_few_descriptors(self):
        for count in (20, 30, 50, 64):
            code, errors = self.limited(resource.RLIMIT_NOFILE, count)
            self.assertEqual(code, 1, count)
            self.assert_one_line(errors)
            self.assertIn("open files", errors)
        for count in (100, 200):
            code, errors = self.limited(resource.RLIMIT_NOFILE, count)
            self.assertEqual((code, errors), (0, ""), count)
            self.assertEqual(self.weft("down")[0], 0)
        self.assert_starts()

    def test_few_processes(self):
        if not harness.IS_ROOT:
            self.skipTest("needs root, to give rights up")
        self.path.chmod(0o755)
        self.state.mkdir(mode=0o700)
        os.chown(self.state, LONELY, LONELY)
        self.addCleanup(os.chown, self.state, 0, 0)
        for count in (1, 3, 6):
            code, errors = self.limited(resource.RLIMIT_NPROC, count, user=LONELY)
            self.assertEqual(code, 1, f"{count}: {errors}")
            self.assert_one_line(errors)
            self.assertIn("raise ulimit -u", errors)

    def test_little_memory(self):
        """A unit and a switch under ulimit -v, from too little for anything to enough: one line each time, no signal."""
        self.state.mkdir(mode=0o700)
        node = ["--name", "n", "--dir", self.state, "--guid", "0200000000000001"]
        commands = {"weft-switch": node + ["--node", "h=0200000000000002:1"],
                    "weft-iou": node + ["--lid", "1", "--switch", f"shm:{self.state}/s.sock", "--nic", "echo"]}
        for program, options in commands.items():
            refused = 0
            for mib in range(24, 600, 8):
                def before_exec():
                    resource.setrlimit(resource.RLIMIT_AS, (mib << 20, mib << 20))
                    harness.LIBC.prctl(harness.PR_SET_PDEATHSIG, 9)
                process = subprocess.Popen([self.bin / program, *map(str, options)], stdout=subprocess.PIPE,
                                           stderr=subprocess.PIPE, text=True, preexec_fn=before_exec)
                try:
                    _, errors = process.communicate(timeout=1.5)
                except subprocess.TimeoutExpired:
                    process.terminate()
                    process.communicate(timeout=10)
                    break  # enough
                if process.returncode == 127:
                    continue  # not even the libraries fit
                refused += 1
                self.assertEqual(process.returncode, 1, f"{program} with {mib} MiB: {errors}")
                self.assertNotIn("terminate called", errors)
                self.assertRegex(errors, "memory|threads", f"{program} with {mib} MiB")
            else:
                self.fail(f"{program} never started")
            self.assertGreater(refused, 0, program)

    def mount(self, kib):
        """A state directory on a file system of its own that small."""
        if not harness.IS_ROOT:
            self.skipTest("needs root, to mount a file system")
        self.state.mkdir(mode=0o700, exist_ok=True)
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kib}k,mode=700", "none", self.state], capture_output=True)
        if done.returncode != 0:
            self.skipTest("mounts are not allowed here; needs CAP_SYS_ADMIN")
        self.addCleanup(subprocess.run, ["umount", "-l", self.state])

    def test_a_state_directory_that_is_too_small(self):
        self.mount(600)
        code, _, errors = self.weft("up", "--detach", self.file)
        self.assertEqual(code, 1)
        self.assert_one_line(errors)
        self.assertRegex(errors, r"has \d+ KiB free, this fabric needs \d+ KiB: make room")
        subprocess.run(["mount", "-o", "remount,size=8192k", self.state], check=True)
        self.assert_starts()

    def test_the_doctor_wants_the_room_that_the_default_fabric_wants(self):
        self.mount(600)
        refused = re.search(r"has \d+ KiB free, this fabric needs (\d+) KiB", self.weft("run", "true")[2])
        self.assertIsNotNone(refused)
        self.assertRegex(self.weft("doctor")[1], rf"BAD +state directory .* has \d+ KiB free, the default fabric needs {refused[1]} KiB;")

    def test_a_disk_that_fills_up_during_a_run(self):
        self.mount(4096)
        self.assertEqual(self.weft("up", "--detach", self.file)[0], 0)
        filler = self.state / "filler"
        with open(filler, "wb", buffering=0) as out:
            try:
                while out.write(b"x" * 4096):
                    pass
            except OSError:
                pass
        before = {node["name"]: node["pid"] for node in json.loads(self.weft("status", "--json")[1])["nodes"]}
        os.kill(before["h1"], 9)

        def back():
            nodes = {node["name"]: node for node in json.loads(self.weft("status", "--json")[1])["nodes"]}
            return nodes["h1"]["ready"] and nodes["h1"]["pid"] != before["h1"]
        harness.wait_for(back, "status tells of the new process on a full disk", interval=0.2)
        filler.unlink()
        self.assertEqual(self.weft("down")[0], 0)
        self.assert_starts()

    def test_a_program_alone_on_a_full_disk_says_so(self):
        self.mount(128)
        code, _, errors = harness.run_program("weft-switch", "--name", "s", "--dir", self.state, "--guid", "0200000000000001",
                                              "--node", "h=0200000000000002:1")
        self.assertEqual(code, 1)
        self.assertIn("cannot allocate stats page", errors)
        self.assertIn("No space left on device", errors)
        self.assertEqual(list(pathlib.Path(self.state).glob("*.stats")), [])


if __name__ == "__main__":
    unittest.main()
