"""The fabric that comes with the first program: what it has of that program, and what programs and tools show of each other."""
import fcntl
import json
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import sys
import unittest

import harness
from weft_case import WeftCase, die_with_test, end

LIBRARY = harness.BIN.parent / "lib" / "weft" / "verbs" / "libibverbs.so.1"
PROBE = harness.BIN.parent / "tests" / "habits_probe"


@unittest.skipUnless(LIBRARY.exists(), "the drop-in libibverbs is not built")
class DaemonTest(WeftCase):
    """The fabric that comes with the first program has nothing of that program."""

    def setUp(self):
        super().setUp()
        self.addCleanup(lambda: self.weft("down"))

    def first(self, *before, **how):
        """Starts the fabric by a program that runs under `before`; the pids of launcher and switch, and what was said."""
        said = open(self.path / "said", "w+", encoding="utf-8")
        self.addCleanup(said.close)
        program = subprocess.Popen([*before, self.bin / "weft", "run", "sleep", "600"], stdin=subprocess.DEVNULL, stderr=said,
                                   env=dict(self.environment, **how.pop("variables", {})), preexec_fn=die_with_test, **how)
        self.addCleanup(end, program)
        status, _ = harness.wait_for(self.status, "the fabric")
        return [status["launcher"], status["nodes"][0]["pid"]], pathlib.Path(said.name).read_text(encoding="utf-8")

    def status(self):
        code, text, _ = self.weft("status", "--json")
        return json.loads(text) if code == 0 else None

    def end(self):
        self.assertEqual(self.weft("down")[0], 0)

    def test_it_is_nobodys_child(self):
        look = "import os\ntry: print('child', os.wait())\nexcept ChildProcessError: print('none')"
        code, out, err = self.weft("run", sys.executable, "-c", look)
        self.assertEqual((code, out), (0, "none\n"), err)

    def test_it_keeps_no_core_class_nice_value_or_limit(self):
        if not harness.IS_ROOT:
            self.skipTest("needs root: others may not raise limits again")
        def field(pid, name):
            lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
            return next(line.split(":", 1)[1].strip() for line in lines if line.startswith(name + ":"))
        cores = field("self", "Cpus_allowed_list")
        for before in (["taskset", "-c", "0"], ["nice", "-n", "15"], ["chrt", "-f", "10"], ["chrt", "-i", "0"],
                       ["bash", "-c", 'ulimit -S -t 7; ulimit -S -f 100000; ulimit -S -u 4000; exec "$@"', "x"],
                       ["bash", "-c", 'trap "" HUP INT USR1; umask 0; exec "$@"', "x"]):
            with self.subTest(before=before):
                try:
                    for pid in self.first(*before)[0]:
                        self.is_of_a_login(pid, field, cores)
                finally:
                    self.end()

    def is_of_a_login(self, pid, field, cores):
        self.assertEqual(field(pid, "Cpus_allowed_list"), cores)
        self.assertEqual(os.getpriority(os.PRIO_PROCESS, pid), 0)
        self.assertEqual(os.sched_getscheduler(pid), os.SCHED_OTHER)
        self.assertEqual(resource.prlimit(pid, resource.RLIMIT_CPU), (-1, -1))
        self.assertEqual(resource.prlimit(pid, resource.RLIMIT_FSIZE), (-1, -1))
        self.assertEqual(field(pid, "Umask"), "0077")
        ignored = int(field(pid, "SigIgn"), 16)
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGUSR1):
            self.assertFalse(ignored >> (number - 1) & 1, number)
        self.assertEqual(os.readlink(f"/proc/{pid}/cwd"), "/")

    def test_what_it_must_keep_is_said(self):
        if not harness.IS_ROOT:
            self.skipTest("needs root: another user")
        self.path.chmod(0o711)
        self.state.mkdir()
        os.chown(self.state, 1234, 1234)
        self.state.chmod(0o700)
        limited = ["bash", "-c", 'ulimit -t 600; exec nice -n 15 "$@"', "x", *harness.as_user(1234)]
        done = subprocess.run([*limited, self.bin / "weft", "run", "true"], env=self.environment, timeout=60, capture_output=True,
                              text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        nice = min(19, os.nice(0) + 15)
        self.assertIn(f"keeps nice {nice}, a limit of CPU time (600) of this program", done.stderr)
        done = subprocess.run([*harness.as_user(1234), self.bin / "weft", "down"], env=self.environment, timeout=60)
        self.assertEqual(done.returncode, 0)

    def test_it_has_neither_descriptors_nor_variables_of_the_program(self):
        with open(self.path / "held", "w", encoding="utf-8") as held:
            os.set_inheritable(held.fileno(), True)
            pids, _ = self.first(variables={"WEFT_NODE": "x", "LD_AUDIT": ""}, close_fds=False)
        for pid in pids:
            open_files = [os.readlink(link) for link in pathlib.Path(f"/proc/{pid}/fd").iterdir()]
            self.assertNotIn(str(self.path / "held"), open_files)
        variables = pathlib.Path(f"/proc/{pids[1]}/environ").read_bytes().split(b"\0")
        self.assertEqual([one for one in variables if one.startswith((b"WEFT_NODE", b"LD_AUDIT"))], [])


@unittest.skipUnless(PROBE.exists(), "the drop-in libibverbs is not built")
class ProgramTest(WeftCase):
    def setUp(self):
        super().setUp()
        self.addCleanup(lambda: self.weft("down"))

    def test_the_name_of_a_program_cannot_steer_a_terminal(self):
        hostile = self.path / "x\x1b[2Jy\nz"
        shutil.copy(PROBE, hostile)
        watcher = "import ctypes, os, sys, time; v = ctypes.CDLL('libibverbs.so.1'); v.ibv_get_device_list(None);" \
                  "ctypes.CDLL(None).prctl(15, b'a\\x1b[2J\\xffb'); print('up', flush=True); time.sleep(600)"
        program = self.start("run", sys.executable, "-c", watcher, stdout=subprocess.PIPE)
        self.assertEqual(program.stdout.readline(), "up\n")
        for words in (["status"], ["devices"], ["status", "--json"], ["devices", "--json"]):
            done = subprocess.run([self.bin / "weft", *words], capture_output=True, env=self.environment, timeout=60)
            text = done.stdout.decode("utf-8")  # fails where it is none
            self.assertNotIn("\x1b", text, words)
            if "--json" in words:
                answer = json.loads(text)
                listed = answer["nodes"] if words[0] == "status" else answer["switches"][0]["devices"]
                self.assertIn("a\x1b[2J\ufffdb", [one["program"] for one in listed])
            else:
                self.assertIn("a\\x1b[2J\\xffb", text)
        code, out, err = self.weft("run", hostile, "plain")
        self.assertEqual(code, 0, out + err)

    def test_a_program_keeps_its_own_plans_for_signals(self):
        show = ["grep", "-E", "Sig(Ign|Blk)", "/proc/self/status"]
        code, under, err = self.weft("run", *show)
        self.assertEqual(code, 0, err)
        bare = subprocess.run(show, capture_output=True, text=True, env=self.environment, stdin=subprocess.DEVNULL, check=True)
        self.assertEqual(under, bare.stdout)

    def test_a_directory_that_cannot_be_written_costs_no_device(self):
        if not harness.IS_ROOT:
            self.skipTest("needs root: a mount namespace")
        holder = self.start("run", "sleep", "600")
        harness.wait_for(lambda: self.weft("status")[0] == 0, "a fabric")
        read_only = f'mount --bind {self.state} {self.state} && mount -o remount,bind,ro {self.state} && exec "$0" "$@"'
        done = subprocess.run(["unshare", "-m", "sh", "-c", read_only, self.bin / "weft", "run", PROBE, "plain"],
                              capture_output=True, text=True, env=self.environment, timeout=60)
        self.assertEqual((done.returncode, done.stdout), (0, "moved\n"), done.stderr)
        self.assertIn("no device below /sys for the program: cannot write to", done.stderr)
        holder.kill()


class ToolsTest(WeftCase):
    def test_output_that_cannot_be_written_is_a_failure(self):
        self.up()
        for words in (["status"], ["stat"], ["status", "--json"], ["logs"], ["--help"]):
            with open("/dev/full", "w", encoding="utf-8") as full, self.subTest(words=words):
                done = subprocess.run([self.bin / "weft", *words], stdout=full, stderr=subprocess.PIPE, text=True,
                                      env=self.environment, timeout=60)
                self.assertEqual(done.returncode, 1)
                self.assertIn("cannot write to standard output: No space left on device", done.stderr)

    def test_a_command_that_prints_until_ctrl_c_ends_when_its_output_cannot_be_written(self):
        """A full disk, and a reader that has gone while SIGPIPE is ignored."""
        self.up()
        for words in (["logs", "--follow"], ["stat", "--watch", "--interval", "10"], ["stat", "--watch", "--json", "--interval", "10"]):
            with open("/dev/full", "w", encoding="utf-8") as full, self.subTest(words=words):
                done = subprocess.run([self.bin / "weft", *words], stdout=full, stderr=subprocess.PIPE, text=True,
                                      env=self.environment, timeout=20)
                self.assertEqual(done.returncode, 1)
                self.assertIn("cannot write to standard output: No space left on device", done.stderr)
            with self.subTest(words=words, reader="gone"):
                reader, writer = os.pipe()
                os.close(reader)
                try:
                    done = subprocess.run([self.bin / "weft", *words], stdout=writer, stderr=subprocess.PIPE, text=True,
                                          env=self.environment, timeout=20, restore_signals=False)
                finally:
                    os.close(writer)
                self.assertEqual(done.returncode, 1)
                self.assertIn("cannot write to standard output: Broken pipe", done.stderr)

    def test_a_fabric_starts_in_the_background_without_standard_descriptors(self):
        """Descriptors of the daemon's own must not get their numbers. `-d` ends with 0 although its line has no place."""
        self.addCleanup(self.weft, "down")
        for closed in ("<&-", ">&-", "<&- >&-", "<&- >&- 2>&-"):
            with self.subTest(closed=closed):
                done = subprocess.run(["sh", "-c", f'exec "$0" up --detach "$1" {closed}', self.bin / "weft", self.file],
                                      env=self.environment, capture_output=True, text=True, timeout=60)
                self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
                code, text, err = self.weft("status", "--json")
                self.assertEqual(code, 0, err)
                launcher = json.loads(text)["launcher"]
                for number in range(3):
                    self.assertEqual(os.readlink(f"/proc/{launcher}/fd/{number}"), "/dev/null")
                self.assertEqual(self.weft("down")[0], 0)

    def test_a_program_finds_the_descriptors_that_its_starter_left(self):
        for closed, wanted in (("<&-", "1 2"), ("<&- 2>&-", "1")):
            look = "for n in 0 1 2; do if [ -e /proc/$$/fd/$n ]; then echo $n; fi; done"
            done = subprocess.run(["sh", "-c", f'exec "$0" run sh -c "$1" {closed}', self.bin / "weft", look],
                                  env=self.environment, stdout=subprocess.PIPE, text=True, timeout=60)
            self.assertEqual(done.stdout.split(), wanted.split(), closed)

    def test_output_without_a_place_is_a_failure(self):
        self.up()
        done = subprocess.run(["sh", "-c", 'exec "$0" status <&- >&-', self.bin / "weft"], env=self.environment, stderr=subprocess.PIPE,
                              text=True, timeout=60)
        self.assertEqual(done.returncode, 1)
        self.assertIn("cannot write to standard output: Bad file descriptor", done.stderr)

    def test_down_says_that_another_launcher_has_taken_the_lock_since(self):
        """As a waiting `weft run` does when the fabric ends. Here the test has the lock all the time, for both launchers."""
        self.up().terminate()
        harness.wait_for(lambda: self.weft("status", "--fabric", "t")[0] != 0, "the end of the fabric")
        place = self.state / "t"
        with open(place / "lock", "r+b") as lock, subprocess.Popen(["sleep", "600"], preexec_fn=die_with_test) as launcher:
            self.addCleanup(launcher.kill)
            fcntl.lockf(lock, fcntl.LOCK_EX)
            ticks = pathlib.Path(f"/proc/{launcher.pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[19]
            (place / "run").write_text(f"launcher {launcher.pid} {ticks}\n", encoding="utf-8")
            code, out, err = self.weft("down", "--fabric", "t")
            self.assertEqual(launcher.wait(10), -signal.SIGTERM)
            self.assertEqual((code, out, err), (0, "fabric 't' has ended; another has been started since\n", ""))

    def test_down_on_nothing_says_so_and_has_nothing_to_do(self):
        code, out, err = self.weft("down")
        self.assertEqual((code, out), (0, ""), err)
        self.assertIn("no fabric is running", err)
        code, _, err = self.weft("down", "--fabric", "never")
        self.assertEqual(code, 1)
        self.assertIn("no fabric 'never' has run here", err)


if __name__ == "__main__":
    unittest.main()
