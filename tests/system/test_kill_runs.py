"""A short form of scripts/stock --kills: stock programs, their peers and their switch killed at random moments."""
import pathlib
import sys
import time
import unittest

import harness
from weft_case import WeftCase

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "stock"))
import kill_runs  # noqa: E402  (found through the line above)

LIBRARY = harness.BIN.parent / "lib" / "weft" / "libweft_preload.so"
ROUNDS = 2       # of each victim, with four programs at once
SECONDS = 25     # a full machine makes the second round only while there is time; a round whose programs all wait takes 40 s


class KillRunsTest(WeftCase):
    def test_whoever_is_left_ends_and_nothing_leaks(self):
        if not LIBRARY.exists() or len(kill_runs.programs()) < 4:
            self.skipTest("ibverbs-utils, perftest or rdmacm-utils is not installed, or the drop-in libibverbs is not built")
        self.up(kill_runs.TOPOLOGY)
        fabric = kill_runs.Fabric(self.bin / "weft", self.path)
        self.assertEqual(str(self.state), fabric.environment["WEFT_STATE_DIR"])
        self.assertEqual(kill_runs.run_rounds(fabric, ROUNDS, int(time.time()), print, SECONDS), [])


if __name__ == "__main__":
    unittest.main()
