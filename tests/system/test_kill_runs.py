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


@unittest.skipUnless(LIBRARY.exists() and len(kill_runs.programs()) == 4,
                     "ibverbs-utils, perftest or rdmacm-utils is not installed, or the drop-in libibverbs is not built")
class KillRunsTest(WeftCase):
    def kill(self, rounds, environment=None):
        """What went wrong, and the report."""
        self.up(kill_runs.TOPOLOGY)
        fabric = kill_runs.Fabric(self.bin / "weft", self.path, environment=environment)
        self.assertEqual(str(self.state), fabric.environment["WEFT_STATE_DIR"])
        said = []
        faults = kill_runs.run_rounds(fabric, rounds, int(time.time()), said.append, SECONDS)
        print("\n".join(said))
        return faults, said

    def test_whoever_is_left_ends_and_nothing_leaks(self):
        self.assertEqual(self.kill(ROUNDS)[0], [])

    def test_the_same_with_memory_windows(self):
        faults, said = self.kill(1, {"WEFT_DIRECT": "1"})
        self.assertEqual(faults, [])
        self.assertRegex("\n".join(said), r"with a window when a kill struck: .* [1-9]")


if __name__ == "__main__":
    unittest.main()
