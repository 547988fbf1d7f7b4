"""A short form of scripts/stock --switches 3 --loss 1: a case whose cells did not cross the lossy links is no success."""
import argparse
import contextlib
import io
import os
import pathlib
import re
import shutil
import sys
import unittest
import unittest.mock

import harness
from weft_case import WeftCase

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "stock"))
import cases  # noqa: E402  (found through the line above)
import kill_runs  # noqa: E402
import stock  # noqa: E402

LIBRARY = harness.BIN.parent / "lib" / "weft" / "libweft_preload.so"
FIRST_PORT = 25600
# Some ten thousand cells, by which each fault strikes.
CASE = "ibv_rc_pingpong -s 1048576 -n 100 -c"


class PageTest(unittest.TestCase):
    """docs/stock_programs.md is of all cases at one switch without faults."""

    def test_other_outcomes_are_not_written_to_the_page(self):
        page = stock.PAGE.read_text()
        for words in (["roce"], ["--loss", "1"], ["--switches", "3"], ["--direct", "both"], ["--set", "WEFT_FLAVOUR=roce"], ["--kills", "1"]):
            with self.subTest(words=words), unittest.mock.patch.object(sys, "argv", ["stock", "--write", *words]), \
                    contextlib.redirect_stderr(io.StringIO()) as said:
                with self.assertRaises(SystemExit) as ended:
                    stock.arguments()
                self.assertEqual(ended.exception.code, 2)
                self.assertIn(f"leave out {words[0] if words[0].startswith('-') else 'NAME'}, or write parts with --json", said.getvalue())
        self.assertEqual(stock.PAGE.read_text(), page)

    def test_the_page_is_what_is_written(self):
        """But for the counts."""
        def text(page):
            return [line for line in page.splitlines() if not re.match(r"stock \d+/\d+|\| [a-z_0-9-]+ \| \d+ \| \d+ \|", line)]
        self.assertEqual(text(stock.page([(case, None) for case in cases.every_case()])), text(stock.PAGE.read_text()))

    def test_parts_that_were_run_apart_are(self):
        with unittest.mock.patch.object(sys, "argv", ["stock", "--write", "--outcomes", "one.json", "two.json"]):
            self.assertTrue(stock.arguments().write)


class ExcuseTest(WeftCase):
    """rping's main thread may close its channel of events while its other thread asks it for the next event, on any device."""

    def test_only_the_programs_own_fault_is_excused(self):
        status, text = kill_runs.CLOSED_ITS_CHANNEL
        rping = next(case for case in cases.every_case() if case.name == "rping -V -C 100")
        pingpong = next(case for case in cases.every_case() if case.name == CASE)
        output = self.path / "client.txt"
        for case, ended_with, said, excused in ((rping, status, f"ping data: {text}\nping data", True), (rping, 1, text, False),
                                                (rping, status, "cq completion failed status 5", False), (pingpong, status, text, False)):
            with self.subTest(case=case.name, ended_with=ended_with, said=said):
                output.write_text(said)
                self.assertEqual(stock.Runner.excused(case, ended_with, output), excused)


@unittest.skipUnless(LIBRARY.exists(), "the drop-in libibverbs is not built")
@unittest.skipUnless(shutil.which("ibv_rc_pingpong"), "ibverbs-utils is not installed")
class StockRunsTest(WeftCase):
    def setUp(self):
        super().setUp()
        self.path.chmod(0o755)
        options = argparse.Namespace(set=[], switches=3, loss=1, corrupt=0.1, sanitized=None, direct=None,
                                     first_port=FIRST_PORT + os.getpid() % 256)
        self.runner = stock.Runner(stock.reachable_build(self.bin.parent, self.path), self.path, options)
        self.case = next(case for case in cases.every_case() if case.name == CASE)

    def replace(self, name, function):
        """Of every fabric, until the test ends."""
        self.addCleanup(setattr, stock.Fabric, name, getattr(stock.Fabric, name))
        setattr(stock.Fabric, name, function)

    def test_a_case_crosses_lossy_links(self):
        self.assertIsNone(self.runner.run(self.case))
        self.assertGreater(self.runner.fabric.crossed, 10_000)
        self.assertGreater(self.runner.struck, 100)

    def test_one_whose_sides_share_a_switch_fails(self):
        self.replace("switch_of", lambda fabric, role: fabric.names[0])
        self.assertRegex(self.runner.run(self.case), "^of [1-9][0-9]* cells of its programs [0-9]+ have come through all switches")

    def test_one_whose_faults_are_elsewhere_fails(self):
        self.replace("faulty_ports", lambda fabric: [("s2", port) for port in fabric.program_ports("s2")][:4])
        self.assertRegex(self.runner.run(self.case), "^cells have come by the faults of 0 ports only")


if __name__ == "__main__":
    unittest.main()
