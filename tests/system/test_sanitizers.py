"""Programs with sanitizers, and programs under valgrind, run under weft run without an option: nothing false is said of a good
one, and a mistake of a bad one is found."""
import os
import pathlib
import shutil
import subprocess
import unittest

import harness
from test_run import has_library
from weft_case import WeftCase

SOURCE = pathlib.Path(__file__).resolve().parent / "sanitized" / "sanitized.cc"
FIXED_ADDRESSES = ["setarch", "-R"]  # older runtimes of the thread sanitizer do not start otherwise


@unittest.skipUnless(has_library(), "the drop-in libibverbs is not built")
@unittest.skipUnless(shutil.which("g++"), "g++ is not installed")
class SanitizersTest(WeftCase):
    def setUp(self):
        super().setUp()
        for name in ("ASAN_OPTIONS", "TSAN_OPTIONS", "VALGRIND_OPTS"):
            self.environment.pop(name, None)
        self.addCleanup(lambda: harness.wait_for(lambda: self.weft("status", "--fabric", "default")[0] != 0,
                                                 "the fabric to end with its last program"))

    def compiled(self, *flags):
        program = self.path / "sanitized"
        subprocess.run(["g++", "-std=c++20", "-O1", "-g", *flags, SOURCE, "-o", program, "-libverbs", "-pthread"], check=True)
        return program

    def run_program(self, *words, **extra):
        code, said, errors = self.weft("run", "--", *words, **extra)
        return code, said + errors

    def test_the_address_sanitizer(self):
        program = self.compiled("-fsanitize=address,undefined")
        self.assertEqual(self.run_program(program), (0, "all messages came\n"))
        self.assertEqual(self.run_program("sh", "-c", f"true; {program}"), (0, "all messages came\n"))
        self.assertEqual(self.run_program(program, ASAN_OPTIONS="detect_stack_use_after_return=1"), (0, "all messages came\n"))
        code, said = self.run_program(program, "overflow")
        self.assertNotEqual(code, 0)
        self.assertIn("heap-buffer-overflow", said)

    def test_the_thread_sanitizer(self):
        program = self.compiled("-fsanitize=thread")
        self.assertEqual(self.run_program(*FIXED_ADDRESSES, program), (0, "all messages came\n"))
        code, said = self.run_program(*FIXED_ADDRESSES, program, "race")
        self.assertNotEqual(code, 0)
        self.assertIn("WARNING: ThreadSanitizer: data race", said)

    @unittest.skipUnless(shutil.which("valgrind"), "valgrind is not installed")
    def test_valgrind(self):
        """Helgrind's suppressions cannot name the other side of a race, so a program that reads what came is not silent there."""
        program = self.compiled()
        for tool, *words in (("memcheck",), ("helgrind", "unread")):
            with self.subTest(tool=tool):
                code, said = self.run_program("valgrind", "-q", f"--tool={tool}", "--error-exitcode=9", program, *words)
                self.assertEqual((code, said), (0, "all messages came\n"))


if __name__ == "__main__":
    unittest.main()
