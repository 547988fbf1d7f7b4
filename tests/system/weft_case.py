"""`weft` in a test: a scratch directory with a state directory and a topology file of its own, and an end that leaves no
launcher behind."""
import os
import pathlib
import signal
import subprocess
import tempfile
import unittest

import harness

SOURCE = pathlib.Path(os.environ.get("WEFT_SOURCE", pathlib.Path(__file__).resolve().parents[2]))
EXAMPLES = SOURCE / "docs" / "examples"
ECHO = 'fabric = "t"\n[[switch]]\nname = "s1"\n[[host]]\nname = "h1"\nos = "gen"\n[[unit]]\nname = "u1"\n'


class WeftCase(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="weft-test-")
        self.addCleanup(scratch.cleanup)
        self.path = pathlib.Path(scratch.name)
        self.bin = harness.BIN
        self.state = self.path / "state"
        self.environment = dict(os.environ, WEFT_STATE_DIR=str(self.state))
        self.file = self.path / "t.toml"
        self.file.write_text(ECHO)

    def weft(self, *words, seconds=60, **extra):
        """Runs a command to its end: exit code, standard output, standard error."""
        done = subprocess.run([self.bin / "weft", *map(str, words)], capture_output=True, text=True, timeout=seconds,
                              env=dict(self.environment, **extra), stdin=subprocess.DEVNULL)
        return done.returncode, done.stdout, done.stderr

    def start(self, *words, namespace=None, **pipes):
        """Starts a command and returns its Popen; it ends with the test."""
        def before_exec():
            die_with_test()
            if namespace is not None:
                namespace.enter()
        process = subprocess.Popen([self.bin / "weft", *map(str, words)], text=True, env=self.environment,
                                   preexec_fn=before_exec, **pipes)
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                self.addCleanup(pipe.close)
        self.addCleanup(end, process)
        return process

    def up(self, topology=None, options=(), file=None, namespace=None):
        """weft up in the foreground; the Popen, once the fabric is up."""
        if topology is not None:
            self.file.write_text(topology)
        process = self.start("up", *options, file or self.file, namespace=namespace, stdout=subprocess.PIPE)
        for line in process.stdout:
            if " is up after " in line:
                return process
        self.fail("the fabric did not come up")


def alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def die_with_test():
    harness.LIBC.prctl(harness.PR_SET_PDEATHSIG, signal.SIGKILL)


def end(process):
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)
