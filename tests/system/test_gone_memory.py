"""Memory of a stock program that goes while late cells are under way, with the program's own signal handlers, under the launcher."""
import subprocess
import unittest

import harness
from weft_case import WeftCase

PROGRAM = harness.BIN.parent / "tests" / "gone_memory"
FABRIC = 'fabric = "t"\n[[switch]]\nname = "s1"\nspare_ports = 8\n'
DONE = ["write: success", "read: success"]


@unittest.skipUnless(PROGRAM.exists(), "libibverbs-dev was missing when this tree was built")
class GoneMemoryTest(WeftCase):
    def setUp(self):
        super().setUp()
        self.up(FABRIC)

    def run_program(self, *arguments, **extra):
        return subprocess.run([harness.BIN / "weft", "run", "--fabric", "t", "--", PROGRAM, *arguments], capture_output=True,
                              text=True, timeout=90, env=dict(self.environment, **extra))

    def late_cells(self):
        code, _, errors = self.weft("fault", "s1", "delay", "1ms..5ms", "--chance", "5%", "--seed", "7", "--fabric", "t")
        self.assertEqual(code, 0, errors)

    def test_no_handler_of_the_program_is_called_for_a_late_transfer(self):
        self.late_cells()
        for when in ("before", "after"):
            with self.subTest(handler=when):
                done = self.run_program(when, "100")
                self.assertEqual((done.returncode, done.stdout.splitlines()), (0, ["handler called 1 times, own 1", *DONE]), done.stderr)

    def test_a_program_without_a_handler_goes_on(self):
        self.late_cells()
        done = self.run_program("never", "100")
        self.assertEqual((done.returncode, done.stdout.splitlines()), (0, DONE), done.stderr)

    def test_signal_follows_siginterrupt(self):
        done = self.run_program("interrupts", "1")
        restarts = ["new handler: restarts 1", "present handler: restarts 0", "new handler: restarts 0",
                    "present handler: restarts 1", "new handler: restarts 1"]
        self.assertEqual((done.returncode, done.stdout.splitlines()), (0, [*restarts, *DONE]), done.stderr)

    def test_strict_memory_ends_the_transfer(self):
        done = self.run_program("after", "1", WEFT_STRICT_MEMORY="1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.run_program("after", "1", WEFT_STRICT_MEMORY="yes").returncode, 2)


if __name__ == "__main__":
    unittest.main()
