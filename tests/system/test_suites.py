"""What scripts/suites reads out of the output of other projects' tests, and what it calls a success."""
import contextlib
import io
import os
import pathlib
import sys
import tempfile
import time
import unittest

import harness

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "stock"))
import known_suites  # noqa: E402  (found through the line above)
import suites  # noqa: E402  (found through the line above)

GTEST = """[ RUN      ] rc/test_a.one/0 <rc_v/no_fence>
[ INFO     ] a line of the program
[       OK ] rc/test_a.one/0 (12 ms)
[ RUN      ] rc/test_a.two/0
[     SKIP ] (not supported)
[       OK ] rc/test_a.two/0 (0 ms)
[ RUN      ] rc/test_a.three/0
[  FAILED  ] rc/test_a.three/0, where GetParam() = rc_v (7 ms)
[ RUN      ] rc/test_a.four/0
"""
LISTED = """rc/test_a.
  one/0  # GetParam() = rc_v
  two/0
ud_verbs/test_b.
  one/0
"""
FABTESTS = """- name:   fi_msg -p "verbs"
  timestamp: 20260101-000000+0000
  result: Pass
  time:   2
- name:   fi_rdm -p "verbs"
  timestamp: 20260101-000000+0000
  result: Excluded
  time:   0
- name:   fi_ubertest
  timestamp: 20260101-000000+0000
  result: Fail [3/400]
  time:   9
"""
UNITTEST = """testOne (test_x.TestX.testOne) ... ok
testTwo (test_x.TestX) ... words of its own
ok
testThree (test_x.TestX) ... skipped 'why'
testFour (test_x.TestX) ... FAIL
testFive (test_x.TestX) ... """


class SuitesTest(unittest.TestCase):
    def test_gtest(self):
        outcomes, running = suites.gtest_outcomes(GTEST)
        self.assertEqual(outcomes, {"rc/test_a.one/0": "passed", "rc/test_a.two/0": "skipped", "rc/test_a.three/0": "failed"})
        self.assertEqual(running, "rc/test_a.four/0")
        self.assertEqual(suites.gtest_names(LISTED), {"rc/test_a.": ["one/0", "two/0"], "ud_verbs/test_b.": ["one/0"]})

    def test_fabtests(self):
        self.assertEqual(suites.fabtests_outcomes(FABTESTS),
                         {'fi_msg -p "verbs"': "passed", 'fi_rdm -p "verbs"': "skipped", "fi_ubertest": "failed"})

    def test_mpi4py(self):
        """A test that has begun and said nothing has no outcome; its program did not end well then."""
        self.assertEqual(suites.mpi4py_outcomes(UNITTEST), {"test_x.TestX.testOne": "passed", "test_x.TestX.testTwo": "passed",
                                                            "test_x.TestX.testThree": "skipped", "test_x.TestX.testFour": "failed"})

    def test_nothing_outlives_a_suite(self):
        """Nor what it has started as another user, in sessions of their own."""
        seconds = f"{3000 + os.getpid()}.25"
        with tempfile.TemporaryDirectory() as directory:
            work = pathlib.Path(directory)
            work.chmod(0o755)
            suite = suites.Suite("a", "a", "", work, suites.reachable_build(harness.BIN.parent, work), [], 1)
            self.assertEqual(suites.run(suite, "quick", ["sh", "-c", "exit 7"], {}, 60), 7)
            self.assertIsNone(suites.run(suite, "slow", ["sh", "-c", f"setsid sleep {seconds} & echo begun; wait"], {}, 5))
            self.assertIn("begun", suite.output("slow").read_text())
            left = [entry for _ in range(20) if (entry := self.running(f"sleep\0{seconds}")) and time.sleep(0.1) is None]
            self.assertLess(len(left), 20, left[-1:])

    @staticmethod
    def running(words):
        found = []
        for entry in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                if words in entry.read_text():
                    found.append(entry)
        return found

    def test_only_listed_failures_pass(self):
        limits = [{"suite": "ucx", "tests": r"rc/test_a\.three/\d+", "reason": "because"}]
        outcomes = {"rc/test_a.three/0": "failed", "rc/test_a.one/0": "passed"}
        with contextlib.redirect_stdout(io.StringIO()) as said:
            self.assertEqual(suites.report("ucx", outcomes, limits), 0)
            self.assertEqual(suites.report("ucx", {**outcomes, "rc/test_a.three": "crashed (-11)"}, limits), 1)
        self.assertIn("ucx: 1 passed, 0 skipped, 1 failed as listed, 0 failed", said.getvalue())
        self.assertIn("  crashed (-11): rc/test_a.three\n", said.getvalue())

    def test_the_list_is_whole(self):
        content = known_suites.content()
        for limit in content.get("limit", []):
            self.assertEqual(set(limit), {"suite", "title", "tests", "reason"})
            self.assertIn(limit["suite"], suites.SUITES)
        for run in content.get("run", []):
            self.assertEqual(set(run), {"what", "passed", "skipped", "failed", "date"})


if __name__ == "__main__":
    unittest.main()
